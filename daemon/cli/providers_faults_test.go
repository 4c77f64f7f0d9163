//go:build linux

package cli_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// rigFault is what goes wrong between the proxy and one provider, beside which another one is well.
type rigFault struct {
	kind string // of rigKinds
	name string
	trip func(p *rigProvider) // before each request; that one alone fails, unless it says so

	once     bool   // what came of it holds on: each request has a proxy of its own
	returns  bool   // after mend the key serves again by itself
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
		step.Message = p.echo() + step.Message
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
	noTime      = 0
	half        = 25 * time.Second // of what a fault without a stated reset earns first
	almostHour  = 59 * time.Minute
	statedDelay = time.Hour + 2*time.Minute
)

// rigFaults are all of them.
func rigFaults() []rigFault {
	expire := func(p *rigProvider) { p.copilot.Expire() }
	expireLogin := func(p *rigProvider) { p.identity.Expire() }
	refuse := func(statuses ...int) func(*rigProvider) {
		return func(p *rigProvider) { p.copilot.Refuse(statuses...) }
	}
	exchangeFails := func(status int, text string) func(*rigProvider) {
		return func(p *rigProvider) {
			p.copilot.Expire()
			p.copilot.FailExchange(demo.CopilotFailure{Status: status, Body: fmt.Sprintf(`{"message":"%s: %s"}`, text, rigGitHubToken)})
		}
	}
	exchangeIsWell := func(p *rigProvider) { p.copilot.FailExchange(demo.CopilotFailure{}) }
	revoke := func(p *rigProvider) {
		p.identity.Expire()
		p.identity.Revoke()
	}
	identityDown := func(p *rigProvider) {
		p.identity.Expire()
		p.identity.Push(demo.IdentityStep{Status: http.StatusServiceUnavailable, Raw: "<p>" + rigRefreshToken})
	}
	return []rigFault{
		{kind: "anthropic", name: "401", trip: fails(demo.Step{Status: 401}), attempts: "credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "anthropic, bearer", name: "403", trip: fails(demo.Step{Status: 403}), attempts: "credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "anthropic", name: "429", trip: fails(demo.Step{Status: 429, Header: after("77")}), attempts: "rate_limit ok", cools: "model", least: 70 * time.Second, alone: 429},
		{kind: "anthropic", name: "unified window", attempts: "rate_limit ok", cools: "key", least: almostHour, alone: 429,
			trip: func(p *rigProvider) {
				reset := fmt.Sprint(time.Now().Add(time.Hour).Unix())
				fails(demo.Step{Status: 429, Header: http.Header{"Anthropic-Ratelimit-Unified-Status": {"rejected"}, "Anthropic-Ratelimit-Unified-5h-Status": {"rejected"},
					"Anthropic-Ratelimit-Unified-5h-Reset": {reset}, "Anthropic-Ratelimit-Unified-Reset": {reset}, "Anthropic-Ratelimit-Unified-Representative-Claim": {"five_hour"}}})(p)
			}},
		{kind: "anthropic", name: "529", trip: fails(demo.Step{Status: 529}), attempts: "overload ok", cools: "model", least: half, alone: 529},
		{kind: "anthropic", name: "credit", trip: fails(demo.Step{Status: 400, Message: "Your credit balance is too low to access the Anthropic API."}), attempts: "cap ok", cools: "key", least: almostHour, alone: 400},
		{kind: "openai", name: "insufficient_quota", trip: fails(demo.Step{Status: 429, Type: "insufficient_quota", Code: "insufficient_quota", Message: "You exceeded your current quota."}),
			attempts: "cap ok", cools: "key", least: almostHour, alone: 429},
		{kind: "openai", name: "429", trip: fails(demo.Step{Status: 429, Code: "rate_limit_exceeded", Message: "Rate limit reached.", Header: http.Header{"X-Ratelimit-Remaining-Requests": {"0"}, "X-Ratelimit-Reset-Requests": {"2m0s"}}}),
			attempts: "rate_limit ok", cools: "model", least: 110 * time.Second, alone: 429},
		{kind: "openai", name: "403", trip: fails(demo.Step{Status: 403, Message: "Country, region, or territory not supported."}), attempts: "credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "compatible", name: "402", trip: fails(demo.Step{Status: 402, Message: "Insufficient Balance"}), attempts: "cap ok", cools: "key", least: almostHour, alone: 402},
		{kind: "compatible", name: "500", trip: fails(demo.Step{Status: 500}), attempts: "fault ok", cools: "key", least: half, alone: 500},
		{kind: "gemini", name: "429", trip: fails(demo.Step{Status: 429, Header: after("45")}), attempts: "rate_limit ok", cools: "model", least: 40 * time.Second, alone: 429},
		{kind: "gemini", name: "quota of the day", trip: fails(demo.Step{Status: 429, Message: "You exceeded your current quota, please check your plan and billing details.", Header: after("3600")}),
			attempts: "cap ok", cools: "key", least: almostHour, alone: 429},
		{kind: "gemini", name: "403", trip: fails(demo.Step{Status: 403, Message: "Permission denied."}), attempts: "credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "gemini", name: "a bad request", trip: fails(demo.Step{Status: 400, Message: "No."}), attempts: "passthrough", alone: 400},
		{kind: "gemini", name: "503", trip: fails(demo.Step{Status: 503, Message: "The model is overloaded."}), attempts: "overload ok", cools: "model", least: half, alone: 503},

		{kind: "copilot", name: "the token ends", trip: expire, attempts: "renew ok"},
		{kind: "copilot", name: "401", trip: refuse(401), attempts: "renew ok"},
		{kind: "copilot", name: "403", trip: refuse(403), attempts: "renew ok"},
		{kind: "copilot", name: "401 again", once: true, trip: refuse(401, 401), attempts: "renew credential:http_401 ok", cools: "key", least: almostHour, alone: 503},
		{kind: "copilot", name: "421", trip: refuse(421), attempts: "renew ok"},
		{kind: "copilot", name: "model_not_supported", trip: func(p *rigProvider) { p.copilot.Unknown("gpt-4.1") }, attempts: "renew ok"},
		{kind: "copilot", name: "421 again", trip: refuse(421, 421), attempts: "renew fault ok", cools: "key", least: half},
		{kind: "copilot", name: "another model of the family", once: true, trip: func(p *rigProvider) { p.copilot.SetModels(demo.CopilotModel{ID: "gpt-5"}) }, attempts: "renew ok", asked: "gpt-5"},
		{kind: "copilot", name: "the model is gone", once: true, trip: func(p *rigProvider) { p.copilot.SetModels(demo.CopilotModel{ID: "o9"}) }, attempts: "renew unknown_model ok", cools: "model", least: 9 * time.Minute, alone: 400},
		{kind: "copilot", name: "500", trip: fails(demo.Step{Status: 500}), attempts: "fault ok", cools: "key", least: half, alone: 500},
		{kind: "copilot", name: "429", trip: fails(demo.Step{Status: 429, Header: after("77")}), attempts: "rate_limit ok", cools: "model", least: 70 * time.Second, alone: 429},
		{kind: "copilot", name: "quota", trip: fails(demo.Step{Status: 402, Code: "quota_exceeded", Message: "You have exceeded your monthly quota."}), attempts: "cap ok", cools: "key", least: almostHour, alone: 402},
		{kind: "copilot", name: "the exchange is down", once: true, returns: true, trip: exchangeFails(503, "away"), mend: exchangeIsWell, attempts: "renew fault:token_exchange_failed ok", cools: "key", alone: 503},
		{kind: "copilot", name: "the token is revoked", once: true, trip: exchangeFails(401, "Bad credentials"), mend: exchangeIsWell, attempts: "renew credential:invalid_credentials ok", cools: "key", least: almostHour, alone: 503},
		{kind: "copilot", name: "no plan", once: true, trip: func(p *rigProvider) { p.copilot.Expire(); p.copilot.FlagsOnly(true) }, mend: func(p *rigProvider) { p.copilot.FlagsOnly(false) },
			attempts: "renew credential:permission_upgrade_required ok", cools: "key", least: almostHour, alone: 503},
		{kind: "copilot, direct", name: "401", trip: refuse(401), attempts: "renew ok"},
		{kind: "copilot, direct", name: "421", trip: refuse(421), attempts: "renew ok"},

		{kind: "antigravity", name: "the token ends", trip: expireLogin, attempts: "renew ok"},
		{kind: "antigravity", name: "401", trip: assists(demo.AssistStep{Status: 401}), attempts: "renew ok"},
		{kind: "antigravity", name: "401 again", once: true, trip: assists(demo.AssistStep{Status: 401}, demo.AssistStep{Status: 401}), attempts: "renew credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "antigravity", name: "403", trip: assists(demo.AssistStep{Status: 403}), attempts: "credential ok", cools: "key", least: almostHour, alone: 503},
		{kind: "antigravity", name: "bad request in an envelope", trip: assists(demo.AssistStep{Status: 400, Message: "No.", Enveloped: true}), attempts: "passthrough", alone: 400},
		{kind: "antigravity", name: "quota", trip: assists(demo.AssistStep{Status: 429, Reason: "QUOTA_EXHAUSTED", ResetDelay: "1h2m3.5s", Message: "You have exhausted your capacity on this model."}),
			attempts: "rate_limit ok", cools: "model", least: statedDelay, alone: 429},
		{kind: "antigravity", name: "rate, in an envelope", trip: assists(demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast.", Enveloped: true}),
			attempts: "rate_limit ok", cools: "model", least: 40 * time.Second, alone: 429},
		{kind: "antigravity", name: "rate, in an array", trip: assists(demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast.", Array: true}),
			attempts: "rate_limit ok", cools: "model", least: 40 * time.Second, alone: 429},
		{kind: "antigravity", name: "capacity", trip: assists(demo.AssistStep{Status: 503, Reason: "MODEL_CAPACITY_EXHAUSTED", Message: "No capacity available."}), attempts: "overload ok", cools: "model", least: half, alone: 503},
		{kind: "antigravity", name: "the identity provider is down", once: true, returns: true, trip: identityDown, attempts: "renew fault:token_exchange_failed ok", cools: "key", alone: 503},
		{kind: "antigravity", name: "revoked", once: true, trip: revoke, attempts: "renew credential:invalid_grant ok", cools: "key", least: almostHour, alone: 503},
		{kind: "antigravity, generativelanguage", name: "the token ends", trip: expireLogin, attempts: "renew ok"},
		{kind: "antigravity, generativelanguage", name: "revoked", once: true, trip: revoke, attempts: "renew credential:invalid_grant ok", cools: "key", least: almostHour, alone: 503},
		{kind: "gemini, signed in", name: "the token ends", trip: expireLogin, attempts: "renew ok"},
		{kind: "gemini, signed in", name: "the identity provider is down", once: true, returns: true, trip: identityDown, attempts: "renew fault:token_exchange_failed ok", cools: "key", alone: 503},
		{kind: "gemini, signed in", name: "revoked", once: true, trip: revoke, attempts: "renew credential:invalid_grant ok", cools: "key", least: almostHour, alone: 503},
	}
}

// TestProviderFaults: what goes wrong with a provider is what the journal says, cools what it concerns, and is seen by no client
// while another provider is there; else it comes in the client's own dialect.
func TestProviderFaults(t *testing.T) {
	binary := buildProxy(t.Context(), t)
	for _, fault := range rigFaults() {
		for i, dialect := range e2eDialects {
			others := []bool{true, false}
			if fault.alone == 0 && (fault.once || fault.attempts != "renew ok") {
				others = others[:1]
			}
			if !fault.once {
				t.Run(fault.kind+", "+fault.name+", "+dialect, func(t *testing.T) {
					t.Parallel()
					fault.run(t, binary, dialect, []bool{false, true}, others)
				})
				continue
			}
			for n := range others {
				t.Run(fmt.Sprintf("%s, %s, %s, alone %t", fault.kind, fault.name, dialect, !others[n]), func(t *testing.T) {
					t.Parallel()
					fault.run(t, binary, dialect, []bool{(i+n)%2 == 1}, others[n:n+1])
				})
			}
		}
	}
}

// run asks before a proxy of its own: streamed and not, with another key and without.
func (f *rigFault) run(t *testing.T, binary, dialect string, streams, others []bool) {
	p := rigKinds()[f.kind](t)
	_, url := strictProvider(t, "other", []string{rigOtherKey})
	r := p.start(t, binary, fmt.Sprintf(`{"id":"k2","endpoints":{"anthropic":%[1]q,"openai-chat":"%[1]s/v1","openai-responses":"%[1]s/v1","gemini":"%[1]s/v1beta"},"api_key":%[2]q}`, url, rigOtherKey))
	model := p.models[len(p.models)-1].name
	serves := func() bool {
		a := r.say(dialect, model, false, nil)
		return a.status == http.StatusOK && r.lineOf(a).Key == "k1"
	}
	if !serves() {
		t.Fatal("the key does not serve, before")
	}
	for _, other := range others {
		if !other {
			r.admin("/admin/keys/k2/disable")
		}
		for _, stream := range streams {
			if !f.once && !serves() { // also: after a reset the models may be asked for anew
				t.Fatal("the key does not serve")
			}
			f.test(r, p, model, dialect, stream, other)
			if f.mend != nil {
				f.mend(p)
			}
			for end := time.Now().Add(e2eStopTime); f.returns && !serves(); {
				if time.Now().After(end) {
					t.Fatal("the key does not come back")
				}
			}
			r.admin("/admin/keys/k1/reset")
		}
	}
	if f.once && !others[0] {
		exit, printed := r.runCommand(nil, "check", "--live")
		if stays := strings.Contains(f.attempts, "invalid_grant"); stays != (exit != 0) && f.name != "the model is gone" {
			t.Errorf("check --live: exit %d: %s", exit, printed)
		}
	}
	if (!f.once || f.mend != nil) && !serves() {
		t.Error("the key does not serve, afterwards")
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
	if cooled, reason, left := k.cooling(); other && (cooled != f.cools || f.cools != "" && left < f.least || f.least > 0 && left > f.least*5/4+10*time.Second) {
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
