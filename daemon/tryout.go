package daemon

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon/config"
	"coding-proxy/pool"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
)

const (
	tryPatience = 30 * time.Second
	mostTryBody = 64 << 10
	mostMessage = 200 // characters of a provider's words that are shown
	tryModel    = "claude-haiku-4-5"
	notOfTheAPI = "the answer is not one of the API"
)

// Tryout is what one tiny request with a key, at one of its addresses, came to.
type Tryout struct {
	Key      string            `json:"key"`
	Tier     string            `json:"tier"`
	Protocol string            `json:"protocol,omitempty"`
	Call     string            `json:"call,omitempty"`  // method and path
	Model    string            `json:"model,omitempty"` // the upstream's name, where one was asked
	Skipped  string            `json:"skipped,omitempty"`
	Status   int               `json:"status,omitempty"`
	MS       int64             `json:"ms"`
	Error    string            `json:"error,omitempty"`
	Note     string            `json:"note,omitempty"`   // what a success does not tell
	Limits   map[string]string `json:"limits,omitempty"` // the rate-limit headers
}

// OK reports whether the key works, as far as was tried.
func (t *Tryout) OK() bool {
	return t.Skipped != "" || t.Error == "" && t.Status >= 200 && t.Status < 300
}

// Tried names what was asked: the model, or else the call.
func (t *Tryout) Tried() string { return cmp.Or(t.Model, t.Call) }

// probe is the request by which an address is tried.
type probe struct {
	at                  *upstream.Endpoint
	method, path, query string
	header              http.Header
	intent              string // of Copilot's: said last, since what clients say of it is dropped
	model, body         string
}

func (pr probe) url(up *upstream.Upstream) string { return up.URL(pr.at, pr.path, pr.query).String() }

// probeFor returns the cheapest request of a protocol that needs the key. Anthropic is asked for one token, which tells
// its limits, too. Elsewhere a model that is surely there is not known, and a limit of one token is refused by models that
// reason, so the models are listed.
func probeFor(protocol, model string) probe {
	switch protocol {
	case upstream.Anthropic:
		name, _ := json.Marshal(model) // a string cannot fail
		return probe{method: http.MethodPost, path: "/v1/messages", model: model,
			header: http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}},
			body:   fmt.Sprintf(`{"model":%s,"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, name)}
	case upstream.Gemini:
		return probe{method: http.MethodGet, path: "/v1beta/models", query: "pageSize=1"}
	}
	return probe{method: http.MethodGet, path: "/v1/models"}
}

// TryKeys sends one tiny request to each address of each key, in their order, and tells each of what came of it.
func TryKeys(ctx context.Context, cfg *config.Config, each func(Tryout)) {
	ways := proxy.NewWays(cfg.Proxy.Timeouts)
	defer ways.CloseIdle()
	accounts := oauth.NewManager(OpenVault(cfg.Server.DataDir, time.Now), time.Now, func() http.RoundTripper { return ways.Via("") })
	accounts.Configure(cfg.Logins)
	p := pool.New(cfg.Pool, nil, time.Now, 0)
	ups := upstreams(cfg, upstream.Env{Transport: ways.Via, Accounts: accounts, Now: time.Now})
	for _, t := range cfg.Pool.Tiers {
		for _, k := range t.Keys {
			if ctx.Err() != nil {
				return
			}
			try := Tryout{Key: k.ID, Tier: t.Name}
			switch {
			case k.Disabled:
				try.Skipped = k.DisabledReason
				each(try)
			case k.Passthrough:
				try.Skipped = "passes each client's own credential on"
				each(try)
			default:
				for _, pr := range probes(ups[k.ID], k, modelFor(p, k.ID)) {
					try := try
					try.send(ctx, ways.Via(ups[k.ID].Proxy()), ups[k.ID], pr)
					each(try)
				}
			}
		}
	}
}

// probes are the requests that try a key's addresses; protocols that are tried by the same call share one.
func probes(up *upstream.Upstream, k pool.Key, model string) []probe {
	protocols := k.Protocols
	switch {
	case up.Kind() == nil:
	case k.Provider == upstream.Antigravity: // it lists no models
		return []probe{{at: up.Endpoint(upstream.Gemini), method: http.MethodPost, path: "/v1beta/models/" + url.PathEscape(model) + ":countTokens", model: model,
			header: http.Header{"Content-Type": {"application/json"}}, body: `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`}}
	case k.Provider == upstream.Copilot: // one list for all dialects
		protocols = []string{upstream.OpenAIChat}
	}
	var list []probe
	seen := map[string]bool{}
	for _, protocol := range protocols {
		pr := probeFor(protocol, model)
		pr.at = up.Endpoint(protocol)
		if k.Provider == upstream.Copilot && up.Kind() != nil {
			pr.intent = "model-access"
		}
		if address := pr.method + " " + pr.url(up); !seen[address] {
			seen[address] = true
			list = append(list, pr)
		}
	}
	return list
}

// modelFor returns a name by which the key's upstream knows a model, the cheapest that is known.
func modelFor(p *pool.Pool, key string) string {
	scope := pool.Only(key)
	names := p.Models(scope, pool.Catalogue{Dialects: map[string][]string{upstream.Anthropic: {tryModel}}})
	if len(names) == 0 {
		return tryModel
	}
	name := names[0]
	if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "haiku") }); i >= 0 {
		name = names[i]
	}
	for _, t := range p.Route(&pool.Want{Scope: scope, Model: p.Resolve(name)}).Tiers {
		for _, k := range t.Keys {
			if k.ID == key && k.UpstreamModel != "" {
				return k.UpstreamModel
			}
		}
	}
	return name
}

func (t *Tryout) send(ctx context.Context, transport http.RoundTripper, up *upstream.Upstream, pr probe) {
	t.Protocol, t.Call, t.Model = pr.at.Protocol, pr.method+" "+pr.path, pr.model
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	began := time.Now()
	resp, err := pr.send(ctx, transport, up, true)
	t.MS = time.Since(began).Milliseconds()
	if err != nil {
		t.Error = unreached(err)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, mostTryBody)) // what came is looked at
	t.MS = time.Since(began).Milliseconds()
	t.Status, t.Limits = resp.StatusCode, limitsOf(resp.Header)
	switch {
	case !t.OK():
		t.Error = printable(string(up.Mask([]byte(providerWords(answer)))))
	case !isJSON(answer):
		t.Error = notOfTheAPI // a page of some web server, for which the base URL is not the API's
	case pr.method == http.MethodGet && pr.at.HeaderName != "" && pr.isOpen(ctx, transport, up):
		t.Note = "its list of models is open to anyone: whether the key is good is not known"
	}
}

// send sends the request, without the key if it is not to be shown. A token that was kept may have ended early: then it is
// sent once more with another.
func (pr probe) send(ctx context.Context, transport http.RoundTripper, up *upstream.Upstream, withKey bool) (*http.Response, error) {
	for try := 0; ; try++ {
		req, err := pr.request(ctx, up, withKey, try)
		if err != nil {
			return nil, err
		}
		resp, err := transport.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		refused := resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden
		if refused && try == 0 && up.Renews(req, try, resp.StatusCode) {
			resp.Body.Close()
			continue
		}
		if up.Kind() != nil {
			up.Kind().Open(resp)
		}
		return resp, nil
	}
}

// request is what a try sends.
func (pr probe) request(ctx context.Context, up *upstream.Upstream, withKey bool, try int) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, pr.method, pr.url(up), strings.NewReader(pr.body))
	if err != nil {
		return nil, fmt.Errorf("building the request: %w", err)
	}
	maps.Copy(req.Header, pr.header)
	req.Header.Set("User-Agent", "coding-proxy")
	up.SetHeaders(req.Header, pr.at)
	if !withKey {
		req.Header.Del(pr.at.HeaderName)
	}
	if f := up.Sign(req, try); f != nil {
		return nil, unsignedError(f.Message)
	}
	if pr.intent != "" && req.Header.Get("Openai-Intent") == "" { // one of the configuration stays
		req.Header.Set("Openai-Intent", pr.intent)
	}
	return req, nil
}

// unsignedError says why a key has no token to show.
type unsignedError string

func (e unsignedError) Error() string { return "no token: " + string(e) }

// isOpen reports whether the call is answered without the key, too, so that its success tells nothing of the key.
func (pr probe) isOpen(ctx context.Context, transport http.RoundTripper, up *upstream.Upstream) bool {
	resp, err := pr.send(ctx, transport, up, false)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	return resp.StatusCode >= 200 && resp.StatusCode < 300
}

// isJSON reports whether an answer, of which only the beginning may be there, is an object or a list.
func isJSON(answer []byte) bool {
	answer = bytes.TrimLeft(answer, " \t\r\n")
	return len(answer) > 0 && (answer[0] == '{' || answer[0] == '[')
}

// unreached says in plain words why there is no answer.
func unreached(err error) string {
	var dns *net.DNSError
	var unsigned unsignedError
	switch {
	case errors.As(err, &unsigned):
		return unsigned.Error() // the provider's words in it are cut and clean
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &dns):
		return "the name of the host is not known"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		return "no TLS connection: " + err.Error()
	}
	return "no connection: " + err.Error()
}

// limitsOf keeps what tells of limits.
func limitsOf(h http.Header) map[string]string {
	var out map[string]string
	for name, values := range h {
		name = strings.ToLower(name)
		if name != "retry-after" && !strings.HasPrefix(name, "anthropic-ratelimit-") && !strings.HasPrefix(name, "x-ratelimit-") {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = printable(values[0])
	}
	return out
}

// providerWords is the message of an error body, of whatever form.
func providerWords(body []byte) string {
	var e struct {
		Error   struct{ Type, Message string }
		Message string
	}
	if json.Unmarshal(body, &e) != nil {
		return notOfTheAPI
	}
	if e.Error.Message == "" {
		return e.Message
	}
	return e.Error.Message
}

// printable keeps a provider's words from moving the terminal.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= mostMessage {
			b.WriteString("…")
			break
		}
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
