package daemon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// grpHit is a request as a simulated provider has it in its own log.
type grpHit struct {
	marker     string // who asked
	account    int
	path       string
	credential string
	model      string   // that the provider would answer with, "" where the request names none
	named      []string // all models that the request names
}

// grpAccount is a provider with one account, on a server of its own.
type grpAccount struct {
	n        int
	url      string
	dead     bool // nobody listens
	provider *demo.Provider
	log      *grpLog
}

// grpLog is what all providers of a world were asked.
type grpLog struct {
	mu    sync.Mutex
	hits  []grpHit
	fault map[int][]int // by account: statuses that the next requests get
	hold  map[string]*grpHold
}

func (l *grpLog) of(marker string) (hits []grpHit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hits {
		if h.marker == marker {
			hits = append(hits, h)
		}
	}
	return hits
}

func (l *grpLog) note(h grpHit) (fault int, hold *grpHold) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hits = append(l.hits, h)
	if f := l.fault[h.account]; len(f) > 0 {
		fault, l.fault[h.account] = f[0], f[1:]
	}
	return fault, l.hold[h.marker]
}

func (l *grpLog) fail(account int, statuses ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fault[account] = append(l.fault[account], statuses...)
}

func (l *grpLog) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.fault)
}

// grpTooLong stands for a prompt that is too long, which is the client's own fault.
const grpTooLong = 1400

func (a *grpAccount) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h := grpHit{marker: r.UserAgent(), account: a.n, path: r.URL.Path, credential: grpCredential(r.Header)}
	h.model, h.named = grpModels(r, body)
	fault, hold := a.log.note(h)
	if hold != nil {
		hold.wait(r)
		fault = http.StatusServiceUnavailable
	}
	switch {
	case fault == grpTooLong:
		http.Error(w, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 9 tokens > 8 maximum"}}`, http.StatusBadRequest)
	case fault == http.StatusOK:
		a.provider.Push(demo.Step{Text: answerText, Break: demo.Cut, After: 2})
		a.provider.ServeHTTP(w, r)
	case fault != 0:
		http.Error(w, `{"type":"error","error":{"type":"api_error","message":"no"}}`, fault)
	default:
		a.provider.ServeHTTP(w, r)
	}
}

// grpHold keeps requests waiting until it is opened.
type grpHold struct {
	reached, opened chan struct{}
	once            sync.Once
}

func newGrpHold() *grpHold {
	return &grpHold{reached: make(chan struct{}), opened: make(chan struct{})}
}

func (h *grpHold) wait(r *http.Request) {
	h.once.Do(func() { close(h.reached) })
	select {
	case <-h.opened:
	case <-r.Context().Done():
	}
}

func grpCredential(h http.Header) string {
	for _, name := range []string{"X-Api-Key", "X-Goog-Api-Key", "Authorization"} {
		if v := h.Get(name); v != "" {
			return strings.TrimPrefix(v, "Bearer ")
		}
	}
	return ""
}

// grpModels reads which models a request names, in the manner of a provider that looks everywhere.
func grpModels(r *http.Request, body []byte) (model string, named []string) {
	for _, mark := range []string{"/models/", "/tunedModels/"} {
		if _, rest, ok := strings.Cut(r.URL.Path, mark); ok {
			model = rest[:strings.LastIndexByte(rest, ':')]
			named = append(named, model)
		}
	}
	if kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" {
		form, err := multipart.NewReader(bytes.NewReader(body), params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			return model, append(named, "unreadable")
		}
		names := form.Value["model"]
		return strings.Join(names, ","), append(named, names...)
	}
	var v any
	if json.Unmarshal(body, &v) != nil {
		return model, named
	}
	if top, ok := v.(map[string]any); ok && model == "" {
		model, _ = top["model"].(string)
	}
	return model, append(named, grpNamed(v)...)
}

func grpNamed(v any) (names []string) {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			names = append(names, grpNamed(e)...)
		}
	case map[string]any:
		for key, e := range v {
			switch text, isText := e.(string); {
			case key == "messages" || key == "input" || key == "contents" || key == "prompt":
			case strings.EqualFold(key, "model") && isText:
				names = append(names, strings.TrimPrefix(text, "models/"))
			case key == "models":
				for _, one := range e.([]any) {
					names = append(names, one.(string))
				}
			default:
				names = append(names, grpNamed(e)...)
			}
		}
	}
	return names
}

// The configuration of a world, as its oracle reads it.
type (
	grpConfig struct {
		tiers   []*grpTier
		keys    []*grpKey
		groups  []*grpGroup
		callers []*grpCaller
		mapping []grpRule
		counts  bool // count_tokens: upstream
		mcp     string
	}
	grpTier struct {
		name, strategy, rest string
		mapping              []grpRule
		breaker, guard       bool
	}
	grpKey struct {
		id, tier, provider string
		account            int
		speaks             []string
		models             map[string]string
		disabled           bool
		limit              int
	}
	grpGroup struct {
		name        string
		keys, tiers []string
	}
	grpCaller struct {
		code, group string
		models      []string
	}
	grpRule struct {
		Pattern string `json:"pattern"`
		Target  string `json:"target"`
		IsRegex bool   `json:"is_regex,omitempty"`
	}
)

// grpApply is what a mapping makes of a name.
func grpApply(rules []grpRule, rest, name string) (string, bool) {
	for _, r := range rules {
		if !r.IsRegex && r.Pattern == name {
			return r.Target, true
		}
	}
	for _, r := range rules {
		if r.IsRegex && regexp.MustCompile(`\A(?:`+r.Pattern+`)\z`).MatchString(name) || !r.IsRegex && grpGlob(r.Pattern, name) {
			return r.Target, true
		}
	}
	return rest, rest != ""
}

func grpGlob(pattern, name string) bool {
	return strings.Contains(pattern, "*") && regexp.MustCompile(`\A`+strings.ReplaceAll(regexp.QuoteMeta(pattern), `\*`, `.*`)+`\z`).MatchString(name)
}

func (c *grpConfig) resolve(name string) string {
	if to, ok := grpApply(c.mapping, "", name); ok {
		return to
	}
	return name
}

// upstream is what a key's provider is asked for, if the key serves the resolved name.
func (c *grpConfig) upstream(k *grpKey, resolved string) (string, bool) {
	if k.models != nil {
		if to, ok := k.models[resolved]; ok {
			return to, true
		}
		to, ok := k.models["*"]
		if to == "*" {
			to = resolved
		}
		return to, ok
	}
	t := c.tier(k.tier)
	if t.mapping != nil || t.rest != "" {
		return grpApply(t.mapping, t.rest, resolved)
	}
	if k.provider == "zhipu" {
		if to, ok := grpApply([]grpRule{{Pattern: "claude-haiku-*", Target: "glm-4.5-air"}, {Pattern: "claude-*", Target: "glm-5.1"}}, "", resolved); ok {
			return to, true
		}
	}
	return resolved, true
}

func (c *grpConfig) tier(name string) *grpTier {
	for _, t := range c.tiers {
		if t.name == name {
			return t
		}
	}
	return nil
}

func (c *grpConfig) caller(code string) *grpCaller {
	for _, k := range c.callers {
		if k.code == code {
			return k
		}
	}
	return nil
}

// scope are the keys that a caller may use.
func (c *grpConfig) scope(k *grpCaller) (keys []*grpKey) {
	if k == nil {
		return nil
	}
	if k.group == "" {
		return c.keys
	}
	for _, g := range c.groups {
		for _, key := range c.keys {
			if g.name == k.group && (slices.Contains(g.keys, key.id) || slices.Contains(g.tiers, key.tier)) {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

func (k *grpCaller) lists(name string) bool {
	return len(k.models) == 0 || slices.ContainsFunc(k.models, func(p string) bool { return p == name || grpGlob(p, name) })
}

func (c *grpConfig) clone() *grpConfig {
	n := &grpConfig{mapping: slices.Clone(c.mapping), counts: c.counts, mcp: c.mcp}
	for _, t := range c.tiers {
		t := *t
		n.tiers = append(n.tiers, &t)
	}
	for _, k := range c.keys {
		k := *k
		k.models = maps.Clone(k.models)
		n.keys = append(n.keys, &k)
	}
	for _, g := range c.groups {
		n.groups = append(n.groups, &grpGroup{g.name, slices.Clone(g.keys), slices.Clone(g.tiers)})
	}
	for _, k := range c.callers {
		n.callers = append(n.callers, &grpCaller{k.code, k.group, slices.Clone(k.models)})
	}
	return n
}

// members is the configuration as the file has it.
func (c *grpConfig) members(w *grpWorld) []string {
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			w.t.Fatal(err)
		}
		return string(b)
	}
	type object map[string]any
	tiers, keys, groups, callers := []object{}, []object{}, []object{}, []object{}
	for _, t := range c.tiers {
		o := object{"name": t.name, "strategy": t.strategy}
		if t.mapping != nil {
			o["model_mapping"] = t.mapping
		}
		if t.rest != "" {
			o["default_model"] = t.rest
		}
		if t.breaker {
			o["circuit_breaker"] = object{"failure_threshold": 2}
		}
		if t.guard {
			o["quota_guard"] = object{"token_budget": 500}
		}
		tiers = append(tiers, o)
	}
	for _, k := range c.keys {
		ends := object{}
		for _, d := range k.speaks {
			ends[d] = baseOf(d, w.accounts[k.account].url)
		}
		o := object{"id": k.id, "tier": k.tier, "endpoints": ends, "api_key": credential(fmt.Sprint("account-", k.account)), "daily_limit_tokens": k.limit, "enabled": !k.disabled}
		if k.provider != "" {
			o["provider"] = k.provider
		}
		if k.models != nil {
			o["models"] = k.models
		}
		keys = append(keys, o)
	}
	for _, g := range c.groups {
		groups = append(groups, object{"name": g.name, "keys": append([]string{}, g.keys...), "tiers": append([]string{}, g.tiers...)})
	}
	for _, k := range c.callers {
		o := object{"code": k.code, "api_key": requestKey + "-" + k.code}
		if k.group != "" {
			o["group"] = k.group
		}
		if k.models != nil {
			o["models"] = k.models
		}
		callers = append(callers, o)
	}
	counts := "local"
	if c.counts {
		counts = "upstream"
	}
	return []string{`"auth":` + text(object{"request_keys": callers, "groups": groups}), `"tiers":` + text(tiers), `"count_tokens":` + text(counts), `"model_mapping":` + text(c.mapping),
		`"pool":` + text(object{"strategy": "fill-first", "max_wait_seconds": 0, "keys": keys}), fmt.Sprintf(`"mcp":{"tools":{"url":%q,"api_key":%q}}`, c.mcp, toolsKey)}
}

// grpNames are the models of all worlds; some lead elsewhere.
func grpNames() []string {
	return []string{sonnet, opus, "claude-haiku-4-5", "gpt-5.5", "gpt-5-mini", "gemini-2.5-flash", "gemini-2.5-pro", "house-model", "best", "fast-please", "gpt-4-old", "glm-5.1", "upstream-a", "upstream-b",
		"CLAUDE-OPUS-5-5", "claude-opus-5-5-20260101", "anthropic%2Fclaude-opus-5-5", "anthropic:claude-opus-5-5", "gpt-5-mini,gpt-5.5", "gpt-5-mini@preset/x", "unknown-model"}
}

// grpDraw draws a configuration.
func grpDraw(r *rand.Rand, w *grpWorld) *grpConfig {
	one := func(list []string) string { return list[r.IntN(len(list))] }
	names := grpNames()
	c := &grpConfig{counts: r.IntN(3) > 0, mcp: w.tools, mapping: []grpRule{{Pattern: "best", Target: opus}, {Pattern: "fast-*", Target: "claude-haiku-4-5"}, {Pattern: `gpt-(\d+)-old`, Target: "gpt-5.5", IsRegex: true}}}
	for n := range 1 + r.IntN(4) {
		t := &grpTier{name: fmt.Sprint("tier-", n), strategy: one([]string{"session-sticky", "fill-first", "round-robin", "least-used", "least-recent"}), breaker: r.IntN(2) > 0, guard: r.IntN(4) == 0}
		if r.IntN(3) == 0 {
			t.mapping = []grpRule{{Pattern: "claude-opus-.*", Target: "upstream-a", IsRegex: true}, {Pattern: "gpt-*", Target: "upstream-b"}, {Pattern: sonnet, Target: sonnet}}
			if r.IntN(2) == 0 {
				t.rest = "upstream-rest"
			}
		}
		c.tiers = append(c.tiers, t)
	}
	for n := range max(len(c.tiers), 2+r.IntN(7)) {
		k := &grpKey{id: fmt.Sprint("pool-key-", n), tier: c.tiers[n%len(c.tiers)].name, account: r.IntN(len(w.accounts)), disabled: r.IntN(8) == 0, limit: 40 + r.IntN(100000)}
		k.speaks = allDialects()
		r.Shuffle(len(k.speaks), func(a, b int) { k.speaks[a], k.speaks[b] = k.speaks[b], k.speaks[a] })
		k.speaks = k.speaks[:1+r.IntN(4)]
		switch r.IntN(5) {
		case 0:
			k.models = map[string]string{opus: "upstream-a", one(names): one(names), "house-model": "house-model"}
		case 1:
			k.models = map[string]string{sonnet: "upstream-b", "*": one([]string{"*", "upstream-star"})}
		case 2:
			k.provider = "zhipu"
		}
		c.keys = append(c.keys, k)
	}
	for n := range 3 {
		g := &grpGroup{name: fmt.Sprint("group-", n)}
		for range 1 + r.IntN(3) {
			g.keys = append(g.keys, c.keys[r.IntN(len(c.keys))].id)
		}
		if slices.Sort(g.keys); r.IntN(3) == 0 {
			g.tiers = []string{c.tiers[r.IntN(len(c.tiers))].name}
			if r.IntN(2) == 0 {
				g.keys = nil
			}
		}
		g.keys = slices.Compact(g.keys)
		c.groups = append(c.groups, g)
	}
	c.callers = []*grpCaller{{code: "free"}, {code: "listed", models: grpList(r)}, {code: "one", group: "group-0"}, {code: "two", group: "group-1"}, {code: "both", group: "group-2", models: grpList(r)}}
	return c
}

func grpList(r *rand.Rand) []string {
	lists := [][]string{{opus}, {"claude-*"}, {"gpt-5-mini*", "gemini-2.5-flash"}, {"best"}, {"*-mini"}, {"claude-haiku-*", "house-model"}, {"*"}}
	return slices.Clone(lists[r.IntN(len(lists))])
}

// change makes another configuration of one: groups, keys, accounts and lists move.
func (c *grpConfig) change(r *rand.Rand, w *grpWorld, kinds ...int) *grpConfig {
	n := c.clone()
	key, group := n.keys[r.IntN(len(n.keys))], n.groups[r.IntN(len(n.groups))]
	switch kinds[r.IntN(len(kinds))] {
	case 0:
		key.tier = n.tiers[r.IntN(len(n.tiers))].name
	case 1: // the same id, another account
		key.account = r.IntN(len(w.accounts))
	case 2:
		group.keys, group.tiers = []string{n.keys[r.IntN(len(n.keys))].id}, nil
	case 3:
		n.callers[1].models, n.callers[4].models = grpList(r), grpList(r)
	case 4:
		key.disabled = !key.disabled
	case 5: // two callers change places
		n.callers[2].group, n.callers[3].group = n.callers[3].group, n.callers[2].group
	case 6: // all keys change their accounts
		for _, k := range n.keys {
			k.account = (k.account + 1 + r.IntN(2)) % len(w.accounts)
		}
	case 7:
		n.remove(key)
	}
	return n
}

// remove takes a key out, where no group would be left without any.
func (c *grpConfig) remove(key *grpKey) {
	if len(c.keys) < 3 || slices.ContainsFunc(c.groups, func(g *grpGroup) bool { return len(g.tiers) == 0 && slices.Equal(g.keys, []string{key.id}) }) {
		return
	}
	c.keys = slices.DeleteFunc(c.keys, func(k *grpKey) bool { return k == key })
	for _, g := range c.groups {
		g.keys = slices.DeleteFunc(g.keys, func(id string) bool { return id == key.id })
	}
}

// newAccounts starts the providers.
func newAccounts(t *testing.T, log *grpLog, n int) (accounts []*grpAccount) {
	t.Helper()
	for i := range n {
		a := &grpAccount{n: i, log: log, dead: i == n-1, provider: demo.New(demo.Options{Name: fmt.Sprint("account", i)})}
		a.provider.Always(demo.Step{Text: answerText})
		if a.dead {
			a.url = nowhere(t)
		} else {
			a.url = listen(t, a)
		}
		accounts = append(accounts, a)
	}
	return accounts
}

// unescaped is a name as a body has it.
func unescaped(name string) string {
	if plain, err := url.PathUnescape(name); err == nil {
		return plain
	}
	return name
}
