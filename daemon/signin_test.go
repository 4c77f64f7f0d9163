package daemon

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// hub starts a simulated GitHub Copilot.
func hub(t *testing.T, o demo.CopilotOptions) (*demo.Copilot, string) {
	t.Helper()
	o.Answers.CheckSignatures = true
	c := demo.NewCopilot(o)
	c.Always(demo.Step{Text: answerText})
	return c, listen(t, c)
}

const githubToken = "ghu_of_the_tests_0123456789"

func copilotKey(id, url string, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"provider":"copilot","github_token":%q,"token_url":%q%s}`, id, githubToken, url+"/copilot_internal/v2/token", rest(more))
}

// google starts a simulated identity provider and a Code Assist service that takes its tokens.
type google struct {
	*demo.Identity
	*demo.CodeAssist
	host     *demo.CodeAssistHost
	url, ids string
}

func startGoogle(t *testing.T, o demo.IdentityOptions) *google {
	t.Helper()
	g := &google{}
	if len(o.RefreshTokens) == 0 {
		o.RefreshTokens = []string{refreshToken}
	}
	g.Identity = demo.NewIdentity(o)
	g.CodeAssist = demo.NewCodeAssist(demo.CodeAssistOptions{Valid: g.Valid})
	g.Provider().Always(demo.Step{Text: answerText})
	g.host = g.Host()
	g.url, g.ids = listen(t, g.host), listen(t, g.Identity)
	return g
}

const refreshToken = "refresh-token-of-the-tests"

func antigravityKey(id string, g *google, more ...string) string {
	return fmt.Sprintf(`{"id":%q,"provider":"antigravity","client_id":"tests","client_secret":"secret-of-the-tests","refresh_token":%q,"token_url":%q,"base_url":%q%s}`,
		id, refreshToken, g.ids+"/token", g.url, rest(more))
}

// spokenBy asks as a client of each dialect, streamed and not.
func spokenBy(t *testing.T, i *instance, model string) {
	t.Helper()
	for _, dialect := range allDialects() {
		for _, stream := range []bool{false, true} {
			r := i.say(dialect, model, stream)
			if r.status != 200 {
				t.Errorf("%s to %s, stream %v: status %d: %s", dialect, model, stream, r.status, r.body)
				continue
			}
			if s := understand(t, dialect, r.body, stream); s.text != answerText {
				t.Errorf("%s to %s, stream %v: %q", dialect, model, stream, s.text)
			}
		}
	}
}

// Copilot is asked at the endpoint that the model has, by clients of all dialects, with one exchange for all.
func TestCopilotFromAllDialects(t *testing.T) {
	t.Parallel()
	c, url := hub(t, demo.CopilotOptions{})
	i := start(t, poolOf(copilotKey(k1, url)))
	for model, path := range map[string]string{"claude-sonnet-4.5": "", "gpt-5.1-codex": "/responses", "gpt-4.1": "/chat/completions"} {
		before := len(c.Requests())
		spokenBy(t, i, model)
		for _, r := range c.Requests()[before:] {
			if path != "" && !strings.HasSuffix(r.Path, path) {
				t.Errorf("%s was asked at %s", model, r.Path)
			}
		}
	}
	if n := c.Exchanges(); n != 1 {
		t.Errorf("%d exchanges", n)
	}
	if list := c.Complaints(); len(list) > 0 {
		t.Errorf("complaints: %q", list)
	}
	if n := len(c.Requests()); n != 24 {
		t.Errorf("%d requests", n)
	}
	// Claude Code's names are not Copilot's.
	r := i.say(claude, "claude-sonnet-4-5-20250929", false)
	if rec := i.record(r.trace()); r.status != 200 || rec.UpstreamModel != "claude-sonnet-4.5" || rec.Upstream != claude {
		t.Errorf("status %d, %+v", r.status, rec)
	}
}

// What goes wrong between us and Copilot alone is nothing that the client sees.
func TestCopilotMisbehaves(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(*demo.Copilot)
		want string // outcomes of the attempts
	}{
		{"a token that ends", func(c *demo.Copilot) { c.Expire() }, "renew ok"},
		{"401", func(c *demo.Copilot) { c.Refuse(401) }, "renew ok"},
		{"403", func(c *demo.Copilot) { c.Refuse(403) }, "renew ok"},
		{"421", func(c *demo.Copilot) { c.Misdirect(1) }, "renew ok"},
		{"a model that is not in the list any more", func(c *demo.Copilot) { c.Unknown("gpt-4.1") }, "renew ok"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", c.name, stream), func(t *testing.T) {
				t.Parallel()
				for _, dialect := range allDialects() {
					p, url := hub(t, demo.CopilotOptions{})
					i := start(t, poolOf(copilotKey(k1, url)))
					if r := i.say(dialect, "gpt-4.1", stream); r.status != 200 {
						t.Fatalf("before: status %d: %s", r.status, r.body)
					}
					c.do(p)
					r := i.say(dialect, "gpt-4.1", stream)
					var got []string
					for _, a := range i.record(r.trace()).Attempts {
						got = append(got, a.Outcome)
					}
					if r.status != 200 || strings.Join(got, " ") != c.want {
						t.Errorf("%s: status %d, attempts %q: %s", dialect, r.status, got, r.body)
					}
					if state := i.keys()[k1].State; state != "ready" {
						t.Errorf("the key is %s", state)
					}
				}
			})
		}
	}
}

// Issue 5, 2: many requests on a token that has ended share one exchange; where that fails, each goes on to the next key, and
// the key comes back when an exchange succeeds.
func TestOneExchangeForAll(t *testing.T) {
	t.Parallel()
	const many = 500
	p, url := hub(t, demo.CopilotOptions{})
	other, otherURL := strict(t, "other", chat)
	i := start(t, `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+copilotKey(k1, url)+","+protocolKey(k2, chat, otherURL)+`]}`)
	crowd := func() map[string]int {
		before := len(i.records(""))
		var wg sync.WaitGroup
		for range many {
			wg.Go(func() {
				if r := i.say(chat, "gpt-4.1", false); r.status != 200 {
					t.Errorf("status %d: %s", r.status, r.body)
				}
			})
		}
		wg.Wait()
		served := map[string]int{}
		for _, rec := range i.records("")[before:] { // read once: it grows while they run
			served[rec.Key]++
		}
		return served
	}
	i.say(chat, "gpt-4.1", false)
	before := p.Exchanges()
	p.Expire()
	if served := crowd(); served[k1] != many || p.Exchanges()-before != 1 {
		t.Errorf("served by %v with %d exchanges", served, p.Exchanges()-before)
	}
	before = p.Exchanges()
	p.Expire()
	p.FailExchange(demo.CopilotFailure{Status: http.StatusServiceUnavailable, Body: `{"message":"down"}`})
	if served := crowd(); served[k2] != many || p.Exchanges()-before != 1 {
		t.Errorf("while it fails: served by %v with %d exchanges", served, p.Exchanges()-before)
	}
	if n := len(other.Requests()); n != many {
		t.Errorf("%d requests at the other key", n)
	}
	p.FailExchange(demo.CopilotFailure{})
	eventually(t, "the key's return", func() bool { return i.servedBy(i.say(chat, "gpt-4.1", false)) == k1 })
}

// An account without Copilot is told of in words that help, and the pool goes on.
func TestCopilotWithoutTheService(t *testing.T) {
	t.Parallel()
	p, url := hub(t, demo.CopilotOptions{})
	p.FlagsOnly(true)
	i := start(t, poolOf(copilotKey(k1, url)))
	r := i.say(chat, "gpt-4.1", false)
	if r.status != 503 || !strings.Contains(r.body, "upstream credential") {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if rec := i.record(r.trace()); len(rec.Attempts) != 1 || rec.Attempts[0].Outcome != "credential" || rec.Attempts[0].Reason != "permission_upgrade_required" {
		t.Errorf("%+v", rec.Attempts)
	}
	if k := i.keys()[k1]; k.State != "cooling" {
		t.Errorf("the key is %s", k.State)
	}
}

// Who resets a key lets it sign in once more: plans are bought, and providers err.
func TestResetSignsInAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"/admin/reset", "/admin/reset?name=" + k1, "/admin/reset?name=default", "/admin/keys/" + k1 + "/reset"} {
		p, url := hub(t, demo.CopilotOptions{})
		p.FlagsOnly(true)
		i := start(t, poolOf(copilotKey(k1, url)))
		if r := i.say(chat, "gpt-4.1", false); r.status != 503 {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
		p.FlagsOnly(false)
		if status, body := i.admin("POST", name); status != 200 {
			t.Fatalf("%s: status %d: %v", name, status, body)
		}
		if r := i.say(chat, "gpt-4.1", false); r.status != 200 {
			t.Errorf("after %s: status %d: %s", name, r.status, r.body)
		}
	}
}

// Code Assist is asked in envelopes, by clients of all dialects; what it answers is taken out of them.
func TestAntigravityFromAllDialects(t *testing.T) {
	t.Parallel()
	g := startGoogle(t, demo.IdentityOptions{})
	i := start(t, poolOf(antigravityKey(k1, g)))
	spokenBy(t, i, "gemini-3-pro")
	r := i.ask("POST", "/v1beta/models/gemini-3-pro:streamGenerateContent", bodyOf(gemini, "", true), "Content-Type: application/json") // as an array
	if r.status != 200 || !strings.HasPrefix(r.body, "[") || strings.Contains(r.body, `"response":`) {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if n := g.host.Count("loadCodeAssist"); n != 1 {
		t.Errorf("the project was asked for %d times", n)
	}
	if n := g.Counts().Refresh; n != 1 {
		t.Errorf("%d exchanges", n)
	}
	g.Expire()
	if r := i.say(claude, "gemini-3-pro", true); r.status != 200 {
		t.Errorf("after the token's end: status %d: %s", r.status, r.body)
	}
	if n := g.Counts().Refresh; n != 2 {
		t.Errorf("%d exchanges after the token's end", n)
	}
}

// What Code Assist says of its limits cools what it is about, for as long as it says.
func TestAntigravityLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		step    demo.AssistStep
		outcome string
	}{
		{"quota", demo.AssistStep{Status: 429, Reason: "QUOTA_EXHAUSTED", ResetDelay: "1h2m3.5s", Message: "You have exhausted your capacity on this model."}, "cap rate_limit"},
		{"rate", demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast."}, "rate_limit"},
		{"an array", demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast.", Array: true}, "rate_limit"},
		{"an envelope", demo.AssistStep{Status: 429, Reason: "RATE_LIMIT_EXCEEDED", RetryDelay: "45s", Message: "Too fast.", Enveloped: true}, "rate_limit"},
		{"capacity", demo.AssistStep{Status: 503, Reason: "MODEL_CAPACITY_EXHAUSTED", Message: "No capacity available."}, "overload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			g := startGoogle(t, demo.IdentityOptions{})
			_, url := strict(t, "other", gemini)
			i := start(t, `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+antigravityKey(k1, g)+","+protocolKey(k2, gemini, url)+`]}`)
			g.host.Push("", c.step)
			r := i.say(gemini, "gemini-3-pro", false)
			rec := i.record(r.trace())
			if r.status != 200 || i.servedBy(r) != k2 || len(rec.Attempts) != 2 || !slices.Contains(strings.Fields(c.outcome), rec.Attempts[0].Outcome) {
				t.Errorf("status %d by %s: %+v", r.status, i.servedBy(r), rec.Attempts)
			}
			if r := i.say(gemini, "gemini-3-pro", false); i.servedBy(r) != k2 {
				t.Error("the key was asked again at once")
			}
		})
	}
}

// A refresh token that the provider has revoked puts the key out of use, says why, and leaves the pool to the others.
func TestRevokedLogin(t *testing.T) {
	t.Parallel()
	g := startGoogle(t, demo.IdentityOptions{})
	_, url := strict(t, "other", gemini)
	i := start(t, `"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+antigravityKey(k1, g)+","+protocolKey(k2, gemini, url)+`]}`)
	g.Revoke()
	r := i.say(gemini, "gemini-3-pro", false)
	rec := i.record(r.trace())
	if r.status != 200 || i.servedBy(r) != k2 || rec.Attempts[0].Outcome != "credential" || rec.Attempts[0].Reason != "invalid_grant" {
		t.Errorf("status %d by %s: %+v", r.status, i.servedBy(r), rec.Attempts)
	}
	for range 3 {
		i.say(gemini, "gemini-3-pro", false)
	}
	if n := g.Counts().Asked; n != 1 {
		t.Errorf("the identity provider was asked %d times", n)
	}
}

// No token, of whatever kind, appears in what is written or told (issue 5, 5).
func TestTokensStayUnseen(t *testing.T) {
	t.Parallel()
	p, hubURL := hub(t, demo.CopilotOptions{})
	g := startGoogle(t, demo.IdentityOptions{})
	i := start(t, poolOf(copilotKey(k1, hubURL), antigravityKey(k2, g, `"proxy_url":"direct"`)))
	var told strings.Builder
	for range 4 {
		for _, model := range []string{"gpt-4.1", "gemini-3-pro"} {
			told.WriteString(i.say(chat, model, true).body)
		}
		p.Refuse(401, 401, 500)
		g.host.Push("", demo.AssistStep{Status: 401, Message: "no"}, demo.AssistStep{Status: 500, Message: "no"})
	}
	for _, path := range []string{"/stats", "/stats/pool", "/api/pool/stats", "/api/status", "/admin/config"} {
		told.WriteString(i.ask("GET", path, "", "Authorization: Bearer "+i.Daemon.instance.Token).body)
	}
	told.WriteString(i.log.String())
	_ = filepath.WalkDir(i.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && d.Name() != credentialsName {
			data, _ := os.ReadFile(path)
			told.Write(data)
		}
		return err
	})
	for _, secret := range []string{githubToken, refreshToken, "secret-of-the-tests", "demo-access-", "tid=", "ghu_"} {
		if at := strings.Index(told.String(), secret); at >= 0 {
			t.Errorf("%s in: %s", secret, told.String()[max(0, at-100):at])
		}
	}
}
