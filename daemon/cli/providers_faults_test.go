//go:build linux

package cli_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// rigFault is what goes wrong between the proxy and one provider, beside which another one is well.
type rigFault struct {
	kind string // of rigKinds
	name string
	trip func(p *rigProvider) // before each request

	once     bool   // it lasts: each request has providers and a proxy of its own
	returns  bool   // after mend the key serves again by itself, within a second or two
	attempts string // what came of the request, by attempt: outcome, or outcome:reason
	asked    string // the model that the journal has; "" = the client's
	cools    string // "", "key" or "model", while the other one is there
	least    time.Duration
	alone    int                  // the client's status while the other key is switched off; 0: as with it
	mend     func(p *rigProvider) // sets right what went wrong
}

// echo is the credential that came last: providers do repeat it in their errors.
func (p *rigProvider) echo() string {
	list := p.provider.Requests()
	if p.host != nil {
		list = p.host.Requests()
	}
	if len(list) == 0 {
		return ""
	}
	last := list[len(list)-1]
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
		if v := last.Header.Get(name); v != "" {
			return "You sent " + v + ". "
		}
	}
	return ""
}

func fails(step demo.Step) func(*rigProvider) {
	return func(p *rigProvider) {
		step := step
		step.Message, step.Header = p.echo()+step.Message, maps.Clone(step.Header)
		if step.Header == nil {
			step.Header = http.Header{}
		}
		step.Header.Set("X-Debug", p.echo())
		p.provider.Push(step)
	}
}

func assists(steps ...demo.AssistStep) func(*rigProvider) {
	return func(p *rigProvider) {
		for _, step := range steps {
			step.Message = p.echo() + step.Message
			p.host.Push("", step)
		}
	}
}

func after(seconds string) http.Header { return http.Header{"Retry-After": {seconds}} }

const (
	half        = 15 * time.Second // of what a fault without a stated reset earns first
	almostHour  = 59 * time.Minute
	statedDelay = time.Hour + 2*time.Minute
)

// What a fault comes to.
var (
	renewed     = rigFault{attempts: "renew ok"}
	credential  = rigFault{attempts: "credential ok", cools: "key", least: almostHour, alone: 503}
	usedUp      = rigFault{attempts: "cap ok", cools: "key", least: almostHour, alone: 429}
	overloaded  = rigFault{attempts: "overload ok", cools: "model", least: half, alone: 503}
	broken      = rigFault{attempts: "fault ok", cools: "key", least: half, alone: 500}
	noExchange  = rigFault{once: true, returns: true, attempts: "renew fault:token_exchange_failed ok", alone: 503}
	revoked     = rigFault{once: true, attempts: "renew credential:invalid_grant ok", cools: "key", least: almostHour, alone: 503}
	clientFault = rigFault{attempts: "passthrough", alone: 400}
)

// limited is a rate limit with a stated reset.
func limited(least time.Duration) rigFault {
	return rigFault{attempts: "rate_limit ok", cools: "model", least: least, alone: 429}
}

// of is the fault with a name, and how it comes about.
func (f rigFault) of(kind, name string, trip func(*rigProvider)) rigFault {
	f.kind, f.name, f.trip = kind, name, trip
	return f
}

func (f rigFault) with(change func(*rigFault)) rigFault {
	change(&f)
	return f
}

// keyFaults are those of providers that need no more than an address and a key.
func keyFaults() []rigFault {
	reset := func() string { return fmt.Sprint(time.Now().Add(time.Hour).Unix()) }
	window := func(p *rigProvider) {
		fails(demo.Step{Status: 429, Header: http.Header{
			"Anthropic-Ratelimit-Unified-Status": {"rejected"}, "Anthropic-Ratelimit-Unified-Reset": {reset()}, "Anthropic-Ratelimit-Unified-Representative-Claim": {"five_hour"},
			"Anthropic-Ratelimit-Unified-5h-Status": {"rejected"}, "Anthropic-Ratelimit-Unified-5h-Reset": {reset()},
		}})(p)
	}
	unpaid := usedUp.with(func(f *rigFault) { f.alone = 402 })
	return []rigFault{
		credential.of("anthropic", "401", fails(demo.Step{Status: 401})),
		credential.of("anthropic, bearer", "403", fails(demo.Step{Status: 403})),
		limited(time.Minute).of("anthropic", "429", fails(demo.Step{Status: 429, Header: after("77")})),
		limited(almostHour).with(func(f *rigFault) { f.cools = "key" }).of("anthropic", "unified window", window),
		overloaded.with(func(f *rigFault) { f.alone = 529 }).of("anthropic", "529", fails(demo.Step{Status: 529})),
		usedUp.with(func(f *rigFault) { f.alone = 400 }).of("anthropic", "credit", fails(demo.Step{Status: 400, Message: "Your credit balance is too low to access the Anthropic API."})),
		usedUp.of("openai", "quota", fails(demo.Step{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "You exceeded your current quota."})),
		limited(100*time.Second).of("openai", "429", fails(demo.Step{Status: 429, Code: "rate_limit_exceeded", Message: "Rate limit reached.",
			Header: http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"2m0s"}}})),
		credential.of("openai", "403", fails(demo.Step{Status: 403, Message: "Country, region, or territory not supported."})),
		unpaid.of("compatible", "402", fails(demo.Step{Status: 402, Message: "Insufficient Balance"})),
		broken.of("compatible", "500", fails(demo.Step{Status: 500})),
		limited(30*time.Second).of("gemini", "429", fails(demo.Step{Status: 429, Header: after("45")})),
		usedUp.of("gemini", "quota of the day", fails(demo.Step{Status: 429, Message: "You exceeded your current quota, please check your plan and billing details.", Header: after("3600")})),
		credential.of("gemini", "403", fails(demo.Step{Status: 403, Message: "Permission denied."})),
		clientFault.of("gemini", "a bad request", fails(demo.Step{Status: 400, Message: "No."})),
		overloaded.of("gemini", "an error as the first event", fails(demo.Step{Break: demo.ErrorEvent, Type: "overloaded_error"})),
		overloaded.with(func(f *rigFault) { f.alone = 529 }).of("anthropic", "an error as the first event", fails(demo.Step{Break: demo.ErrorEvent, Type: "overloaded_error"})),
		overloaded.of("gemini", "503", fails(demo.Step{Status: 503, Message: "The model is overloaded."})),
	}
}

// copilotFaults are those of Copilot, and of its exchange.
func copilotFaults() []rigFault {
	refuse := func(statuses ...int) func(*rigProvider) {
		return func(p *rigProvider) { p.copilot.Refuse(statuses...) }
	}
	exchangeFails := func(status int, text string) func(*rigProvider) {
		return func(p *rigProvider) {
			p.copilot.Expire()
			p.copilot.FailExchange(demo.CopilotFailure{Status: status, Body: fmt.Sprintf(`{"message":"%s: %s"}`, text, rigGitHubToken)})
		}
	}
	exchangeIsWell := func(f *rigFault) {
		f.mend = func(p *rigProvider) { p.copilot.FailExchange(demo.CopilotFailure{}) }
	}
	noPlan := func(on bool) func(*rigProvider) {
		return func(p *rigProvider) { p.copilot.Expire(); p.copilot.FlagsOnly(on) }
	}
	models := func(id string) func(*rigProvider) {
		return func(p *rigProvider) { p.copilot.SetModels(demo.CopilotModel{ID: id}) }
	}
	unpaid := usedUp.with(func(f *rigFault) { f.alone = 402 })
	return []rigFault{
		renewed.of("copilot", "the token ends", func(p *rigProvider) { p.copilot.Expire() }),
		renewed.of("copilot", "401", refuse(401)),
		renewed.of("copilot", "403", refuse(403)),
		credential.with(func(f *rigFault) { f.once, f.attempts = true, "renew credential:http_401 ok" }).of("copilot", "401 again", refuse(401, 401)),
		renewed.of("copilot", "421", refuse(421)),
		broken.with(func(f *rigFault) { f.attempts, f.alone = "renew fault ok", 0 }).of("copilot", "421 again", refuse(421, 421)),
		renewed.of("copilot", "model_not_supported", func(p *rigProvider) { p.copilot.Unknown("gpt-4.1") }),
		renewed.with(func(f *rigFault) { f.once, f.asked = true, "gpt-5" }).of("copilot", "another model of the family", models("gpt-5")),
		rigFault{once: true, attempts: "renew unknown_model ok", cools: "model", least: 9 * time.Minute, alone: 400}.of("copilot", "the model is gone", models("o9")),
		broken.of("copilot", "500", fails(demo.Step{Status: 500})),
		overloaded.of("copilot", "an error as the first event", fails(demo.Step{Break: demo.ErrorEvent, Type: "overloaded_error"})),
		limited(time.Minute).of("copilot", "429", fails(demo.Step{Status: 429, Header: after("77")})),
		unpaid.of("copilot", "quota", fails(demo.Step{Status: 402, Code: "quota_exceeded", Message: "You have exceeded your monthly quota."})),
		noExchange.with(exchangeIsWell).of("copilot", "the exchange is down", exchangeFails(503, "away")),
		credential.with(func(f *rigFault) { f.once, f.attempts = true, "renew credential:invalid_credentials ok" }).with(exchangeIsWell).of("copilot", "revoked", exchangeFails(401, "Bad credentials")),
		credential.with(func(f *rigFault) {
			f.once, f.attempts, f.mend = true, "renew credential:permission_upgrade_required ok", noPlan(false)
		}).of("copilot", "no plan", noPlan(true)),
		renewed.of("copilot, direct", "401", refuse(401)),
		renewed.of("copilot, direct", "421", refuse(421)),
		renewed.of("copilot, signed in", "the token ends", func(p *rigProvider) { p.copilot.Expire() }),
	}
}

// googleFaults are those of what is signed in with Google.
func googleFaults() []rigFault {
	expire := func(p *rigProvider) { p.identity.Expire() }
	revoke := func(p *rigProvider) { p.identity.Expire(); p.identity.Revoke() }
	down := func(p *rigProvider) {
		p.identity.Expire()
		p.identity.Push(demo.IdentityStep{Status: http.StatusServiceUnavailable, Raw: "<p>" + rigRefreshToken})
	}
	tooFast := demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast."}
	enveloped, array := tooFast, tooFast
	enveloped.Enveloped, array.Array = true, true
	list := []rigFault{
		renewed.of("antigravity", "401", assists(demo.AssistStep{Status: 401})),
		credential.with(func(f *rigFault) { f.once, f.attempts = true, "renew credential ok" }).of("antigravity", "401 again", assists(demo.AssistStep{Status: 401}, demo.AssistStep{Status: 401})),
		credential.of("antigravity", "403", assists(demo.AssistStep{Status: 403})),
		clientFault.of("antigravity", "a bad request, in an envelope", assists(demo.AssistStep{Status: 400, Message: "No.", Enveloped: true})),
		limited(statedDelay).of("antigravity", "quota", assists(demo.AssistStep{Status: 429, Reason: "QUOTA_EXHAUSTED", ResetDelay: "1h2m3.5s", Message: "You have exhausted your capacity on this model."})),
		limited(30*time.Second).of("antigravity", "rate, in an envelope", assists(enveloped)),
		limited(30*time.Second).of("antigravity", "rate, in an array", assists(array)),
		overloaded.of("antigravity", "an error as the first event", fails(demo.Step{Break: demo.ErrorEvent, Type: "overloaded_error"})),
		overloaded.of("antigravity", "capacity", assists(demo.AssistStep{Status: 503, Reason: "MODEL_CAPACITY_EXHAUSTED", Message: "No capacity available."})),
	}
	for _, kind := range []string{"antigravity", "antigravity, generativelanguage", "gemini, signed in"} {
		list = append(list, renewed.of(kind, "the token ends", expire), noExchange.of(kind, "the identity provider is down", down), revoked.of(kind, "revoked", revoke))
	}
	return list
}

// TestProviderFaults: what goes wrong with a provider is what the journal says, cools what it concerns, and is seen by no client
// while another provider is there; else it comes in the client's own dialect.
func TestProviderFaults(t *testing.T) {
	binary := buildProxy(t.Context(), t)
	dialects := e2eDialects
	if testing.Short() {
		dialects = dialects[:1]
	}
	for _, fault := range slices.Concat(keyFaults(), copilotFaults(), googleFaults()) {
		name, both := fault.kind+", "+fault.name, []bool{true, false}
		if fault.alone == 0 && (fault.once || fault.attempts != "renew ok") {
			both = both[:1]
		}
		if !fault.once {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				fault.run(t, binary, dialects, []bool{false, true}, both)
			})
			continue
		}
		for i := range dialects {
			for n := range both {
				t.Run(fmt.Sprintf("%s, %s, alone %t", name, dialects[i], !both[n]), func(t *testing.T) {
					t.Parallel()
					fault.run(t, binary, dialects[i:i+1], []bool{(i+n)%2 == 1}, both[n:n+1])
				})
			}
		}
	}
}

// run asks before a proxy of its own: in dialects, streamed and not, with another key and without.
func (f *rigFault) run(t *testing.T, binary string, dialects []string, streams, others []bool) {
	p := rigKinds()[f.kind](t)
	_, url := strictProvider(t, "other", []string{rigOtherKey})
	r := p.start(t, binary, fmt.Sprintf(`{"id":"k2","endpoints":{"anthropic":%[1]q,"openai-chat":"%[1]s/v1","openai-responses":"%[1]s/v1","gemini":"%[1]s/v1beta"},"api_key":%[2]q}`, url, rigOtherKey))
	model := p.models[len(p.models)-1].name
	serves := func() bool {
		a := r.say(dialects[0], model, false, nil)
		return a.status == http.StatusOK && r.lineOf(a).Key == "k1"
	}
	for _, other := range others {
		if !other {
			r.admin("/admin/keys/k2/disable")
		}
		for _, dialect := range dialects {
			for _, stream := range streams {
				if !serves() { // it also has all that it asks for beside requests
					t.Fatalf("%s, stream %t, another key %t: before, the key does not serve", dialect, stream, other)
				}
				f.test(r, p, model, dialect, stream, other)
				if f.mend != nil {
					f.mend(p)
				}
				if f.returns && other && dialect == e2eDialects[0] {
					f.await(t, serves)
				}
				r.admin("/admin/keys/k1/reset")
			}
		}
	}
	if f.once && !others[0] {
		exit, printed := r.runCommand(nil, "check", "--live")
		if stays := strings.Contains(f.attempts, "invalid_grant"); stays != (exit != 0) {
			t.Errorf("check --live: exit %d: %s", exit, printed)
		}
	}
	if (!f.once || f.mend != nil) && !serves() {
		t.Error("the key does not serve, afterwards")
	}
}

// await asks until the key serves again by itself.
func (f *rigFault) await(t *testing.T, serves func() bool) {
	t.Helper()
	for end := time.Now().Add(e2eStopTime); !serves(); {
		if time.Now().After(end) {
			t.Fatal("the key does not come back")
		}
	}
}

// test asks once with the fault, and sets all right.
func (f *rigFault) test(r *providerRig, p *rigProvider, model, dialect string, stream, other bool) {
	t := r.t
	t.Helper()
	what := fmt.Sprintf("%s, stream %t, another key %t", dialect, stream, other)
	f.trip(p)
	a := r.say(dialect, model, stream, nil)
	l := r.lineOf(a)
	want, got := f.attempts, make([]string, 0, len(l.Attempts))
	if f.alone != 0 && !other {
		want = strings.TrimSuffix(want, " ok")
	}
	for _, x := range l.Attempts {
		got = append(got, x.Outcome+":"+x.Reason)
	}
	if !sameAttempts(strings.Fields(want), got) {
		t.Errorf("%s: attempts %q, want %q: status %d: %s", what, got, want, a.status, a.body)
	}
	if asked := cmp.Or(f.asked, model); l.Model != asked && !strings.Contains(want, "credential") {
		t.Errorf("%s: the journal says that %s was asked, want %s", what, l.Model, asked)
	}
	if strings.HasSuffix(want, "ok") {
		if h := hear(t, dialect, a.body, stream); a.status != http.StatusOK || h.text != e2eAnswer && h.text == "" {
			t.Errorf("%s: status %d: %s", what, a.status, a.body)
		}
	} else {
		alone := f.alone
		if alone == 529 && dialect != "anthropic" { // it is Anthropic's own
			alone = http.StatusServiceUnavailable
		}
		if a.status != alone || l.Status != alone || strings.Contains(a.body, `"response"`) {
			t.Errorf("%s: status %d, journal %d, want %d: %s", what, a.status, l.Status, alone, a.body)
		}
		wantError(t, dialect, a)
	}
	k := r.keyState("k1")
	if cooled, reason, left := k.cooling(); other && !f.returns && (cooled != f.cools || f.cools != "" && left < f.least || f.least > 0 && left > f.least*5/4+30*time.Second) {
		t.Errorf("%s: cooling: %q for %s, %s left; want %q, at least %s", what, cooled, reason, left, f.cools, f.least)
	}
}

// sameAttempts compares outcomes, and reasons where they are given.
func sameAttempts(want, got []string) bool {
	if len(want) != len(got) {
		return false
	}
	for i, w := range want {
		if !strings.HasPrefix(got[i]+":", w+":") {
			return false
		}
	}
	return true
}
