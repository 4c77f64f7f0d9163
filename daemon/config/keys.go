package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

// keyDraft is a pool key as the file has it.
type keyDraft struct {
	at                 value
	id, tier, provider str
	protocol, baseURL  str
	endpointsAt        value
	endpoints          []entry // in the place of the two
	credential, apiKey str
	headerName, prefix str
	model, realModel   str // of the older form alone
	headers, models    []entry
	allowHTTP, enabled bool
	missing            []*missing

	// What becomes of it: the plain fields while it is read, the rest in finish.
	signIn  signIn
	rules   pool.Key
	way     upstream.Options
	keyless bool // its provider asks for no key
	sends   bool // a key of ours goes upstream
}

func eachKey(f *file) reader {
	return func(d *decoder, v value) {
		if k := d.draft(v, keyFields); k != nil {
			f.keys = append(f.keys, k)
		}
	}
}

func (d *decoder) draft(v value, fields func(*keyDraft) []field) *keyDraft {
	if !d.is(v, kindObject) {
		return nil
	}
	k, before := &keyDraft{at: v, enabled: true}, len(d.missing)
	d.object(v, fields(k))
	k.missing = slices.Clone(d.missing[before:])
	return k
}

// models reads what a key serves: the client's names and the upstream's.
func models(k *keyDraft) reader {
	return func(d *decoder, v value) {
		entries(&k.models)(d, v)
		d.needsItem(v, kindObject, "the key would serve no model; leave it out to serve any")
		k.rules.Models = make(map[string]string)
		for _, e := range k.models {
			if wrong := modelName(e.field); wrong != "" {
				d.problem(e.nameAt, e.path, "name %s", wrong)
			}
			if wrong := modelTarget(e.field, e.text); wrong != "" {
				d.fail(e.value, "%s", wrong)
			}
			k.rules.Models[e.field] = e.text
		}
	}
}

func modelName(s string) string {
	if s != "*" && strings.Contains(s, "*") {
		return `must be exact; the only wildcard is the whole name "*"`
	}
	return notEmpty(s)
}

// modelTarget checks what stands for name at the upstream; "*" for "*" leaves names as they are.
func modelTarget(name, s string) string {
	if s == "*" && name != "*" {
		return "must name a model"
	}
	return modelName(s)
}

// pool turns the tiers and keys that were read into options.
func (d *decoder) pool(c *Config, f *file) {
	assumedProtocol := d.form(f)
	c.Upstreams = make(map[string]upstream.Options)
	d.logins = c.Logins
	d.distinct(f.keys)
	tiers := d.tiers(f)
	for _, k := range f.keys {
		d.finish(k, assumedProtocol)
		c.Upstreams[k.rules.ID] = k.way
	}
	for _, t := range tiers {
		t.rules.Name, t.rules.Mapping = t.name.text, d.mapping(t.mapping, t.defaultModel)
		for _, k := range t.keys {
			if rules := presets()[k.provider.text].mapping; t.rules.Mapping == nil && k.rules.Models == nil && len(rules) > 0 {
				k.rules.Preset, _ = pool.NewMapping(rules, "") // globs cannot fail
			}
			t.rules.Keys = append(t.rules.Keys, k.rules)
		}
		d.limited(t)
		c.Pool.Tiers = append(c.Pool.Tiers, t.rules)
	}
	c.Pool.Mapping = d.mapping(f.mapping, str{})
}

// form settles where the keys are written, the strategy that goes with that, and the protocol of keys that name none.
func (d *decoder) form(f *file) (assumedProtocol string) {
	section, older := d.seen["pool"], d.seen["upstreams"]
	switch {
	case older.given() && section.given():
		d.fail(older, "cannot stand beside `pool`: move these keys there")
		return upstream.Anthropic
	case older.given():
		f.keys, f.strategy = f.upstreams, pool.FillFirst
		d.needsItem(older, kindList, "the pool would have no key")
		d.warn(older, "%s", upstreamsAsPool(f.keys))
		return upstream.Anthropic
	case !section.given() && d.seen["tiers"].given():
		d.fail(d.seen["tiers"], "needs `pool.keys`: tiers hold keys")
		return upstream.Anthropic
	case !section.given(): // the client's own credential goes on to Anthropic
		f.keys = []*keyDraft{{id: str{text: upstream.Anthropic}, provider: str{text: upstream.Anthropic}, credential: str{text: passthrough}, enabled: true}}
		f.strategy = pool.FillFirst
		return ""
	}
	keys := d.seen["pool.keys"]
	if section.kind == kindObject && d.require(keys, section, "keys") {
		d.needsItem(keys, kindList, "the pool would have no key")
	}
	if f.strategy == "" && !d.seen["pool.strategy"].given() {
		f.strategy = pool.SessionSticky
	}
	if len(f.keys) == 0 || d.seen["tiers"].given() || slices.ContainsFunc(f.keys, declaresProtocol) {
		return ""
	}
	d.warn(keys, `older form, still read: keys without protocol are taken as Anthropic; write "protocol": "anthropic" in each`)
	return upstream.Anthropic
}

func declaresProtocol(k *keyDraft) bool {
	return k.signIn.used() || strings.HasPrefix(k.credential.text, accountPrefix) || k.protocol.given() || k.endpointsAt.given() || len(presets()[k.provider.text].endpoints) > 0
}

// distinct wants ids that differ, also as names of variables.
func (d *decoder) distinct(keys []*keyDraft) {
	first := make(map[string]*keyDraft)
	for _, k := range keys {
		name := keyVariable(k.id.text)
		before, taken := first[name]
		switch {
		case k.id.text == "":
		case !taken:
			first[name] = k
		case before.id.text == k.id.text:
			d.fail(k.id.value, "duplicate id; first in line %d", before.id.at.line)
		default:
			d.fail(k.id.value, "its variable %s is also that of the id in line %d", keyVariable(k.id.written()), before.id.at.line)
		}
	}
}

// limited wants what session-sticky weighs by: a limit on each key, unless there is no choice.
func (d *decoder) limited(t *tierDraft) {
	if t.rules.Strategy != pool.SessionSticky || len(t.keys) < 2 {
		return
	}
	var without []string
	for _, k := range t.keys {
		if k.enabled && k.rules.DailyLimit == 0 && k.rules.MonthlyLimit == 0 && !d.hasProblem(k.at) {
			without = append(without, k.label())
		}
	}
	if len(without) == 0 {
		return
	}
	at := d.seen["pool.strategy"]
	if own := d.seen[t.at.path+".strategy"]; t.at.given() && own.given() {
		at = own
	}
	if !at.given() {
		at = d.seen["pool.keys"]
	}
	d.fail(at, "strategy session-sticky needs daily_limit_tokens or monthly_limit_tokens on every enabled key (or take another strategy); without: %s",
		strings.Join(without, ", "))
}

// label names a key in messages: by its id as the file writes it, or by its place if that is no id.
func (k *keyDraft) label() string {
	id := k.id.written()
	if keyID(id) != "" {
		return k.at.path
	}
	return strconv.Quote(id)
}

// finish checks a key as a whole and fills its rules and its way.
func (d *decoder) finish(k *keyDraft, assumedProtocol string) {
	if k.id.text != "" || d.require(k.id.value, k.at, "id") {
		if wrong := keyID(k.id.text); wrong != "" {
			d.fail(k.id.value, "%s%s", wrong, d.unset(k.id.value))
		}
	}
	if k.provider.given() {
		if wrong := label(k.provider.text); wrong != "" {
			d.fail(k.provider.value, "%s", wrong)
		}
	}
	k.rules.ID, k.rules.Provider = k.id.text, k.provider.text
	k.way.KeyID = k.id.text
	d.outbound(k)
	if slices.Contains(signingIn(), k.provider.text) && (assumedProtocol == "" || !k.baseURL.given()) { // a label in the older forms
		d.signsIn(k)
	} else {
		d.foreignFields(k)
		d.address(k, assumedProtocol)
		d.credential(k)
		d.credentialHeader(k)
	}
	d.headers(k)
	d.disable(k)
}

// credential settles what the key shows to its upstream.
func (d *decoder) credential(k *keyDraft) {
	kind := "api_key"
	if k.credential.given() {
		if name, ok := strings.CutPrefix(k.credential.text, accountPrefix); ok {
			d.account(k, name, googleLogin)
			for _, s := range []str{k.apiKey, k.headerName, k.prefix} {
				if s.given() {
					d.fail(s.value, "must not be set: the key shows what the login obtained")
				}
			}
			return
		}
		if !d.oneOf(k.credential, []string{kind, passthrough}) {
			return
		}
	}
	if k.credential.text != "" {
		kind = k.credential.text
	}
	variable := keyVariable(k.id.text)
	override := trimKey(d.variable(variable))
	if kind == passthrough {
		k.rules.Passthrough, k.way.Passthrough = true, true
		for _, s := range []str{k.apiKey, k.headerName, k.prefix} {
			if s.given() {
				d.fail(s.value, "must not be set: a passthrough key sends the client's own credential")
			}
		}
		if override != "" {
			d.warn(value{path: variable}, "is not used: this key passes the client's own credential on")
		}
		return
	}

	asksForKey := override != "" || k.apiKey.given() || k.credential.given() || k.headerName.given() || k.prefix.given()
	if k.keyless && !asksForKey {
		return
	}
	k.sends = true
	at, secret := k.apiKey.value, trimKey(k.apiKey.text)
	switch {
	case override != "":
		at, secret = value{path: variable}, override
		for _, m := range k.missing {
			m.moot = m.moot || m.at.node == k.apiKey.node
		}
	case !d.require(k.apiKey.value, k.at, "api_key"):
		return
	}
	if wrong := anyText(secret); wrong != "" {
		d.fail(at, "%s", wrong)
	}
	k.way.APIKey = auth.NewSecret(secret)
}

// trimKey drops what a copied line or a file read into a variable brings along; no header could carry it.
func trimKey(s string) string { return strings.Trim(s, " \t\r\n") }

// headers settles the further headers.
func (d *decoder) headers(k *keyDraft) {
	carriesKey := func(field string) bool {
		return k.sends && slices.ContainsFunc(k.way.Endpoints, func(e upstream.Endpoint) bool { return e.HeaderName == field })
	}
	if len(k.headers) > 0 {
		k.way.Headers = make(map[string]auth.Secret)
	}
	for _, e := range k.headers {
		field := strings.ToLower(e.field)
		wrong := headerName(field)
		if _, twice := k.way.Headers[field]; twice {
			wrong = "given twice; case does not matter in header names"
		} else if carriesKey(field) {
			wrong = "must not be set: this header carries the key"
		}
		if wrong != "" {
			d.problem(e.nameAt, e.path, "%s", wrong)
		}
		if wrong := anyText(e.text); wrong != "" {
			d.fail(e.value, "%s", wrong)
		}
		k.way.Headers[field] = auth.NewSecret(e.text)
	}
}

// disable takes a key out that is switched off or has not all it would send: "${NAME}" must never go upstream.
func (d *decoder) disable(k *keyDraft) {
	reason := ""
	noKey := k.sends && k.way.APIKey.IsZero()
	k.rules.Incomplete = noKey
	for _, m := range k.missing {
		k.rules.Incomplete = k.rules.Incomplete || !m.moot
		switch {
		case !k.enabled:
			m.moot = true
		case !m.moot:
			m.effect = fmt.Sprintf(": key %s is disabled", k.label())
			if reason == "" {
				reason = fmt.Sprintf("environment variable %s is not set", m.variable)
			}
		}
	}
	switch {
	case !k.enabled:
		reason = "switched off in the configuration"
	case reason == "" && noKey:
		field, from := "api_key", k.apiKey
		switch {
		case k.signIn.githubToken.given():
			field, from = "github_token", k.signIn.githubToken
		case k.signIn.refreshToken.given():
			field, from = "refresh_token", k.signIn.refreshToken
		}
		reason = field + " is empty"
		if from.given() {
			if _, names, _ := expand(from.node.text, d.lookup); len(names) > 0 {
				reason = fmt.Sprintf("environment variable %s is empty", names[0])
			}
		}
		d.warn(from.value, "%s: key %s is disabled", reason, k.label())
	}
	k.rules.Disabled, k.rules.DisabledReason = reason != "", reason
}
