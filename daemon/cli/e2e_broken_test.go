//go:build linux

package cli_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// brokenAfter is how many events of e2eAnswer come before the upstream dies: the client has seen some of its words.
var brokenAfter = map[string]int{"anthropic": 5, "openai-chat": 3, "openai-responses": 6, "gemini": 2}

// cutAnswer is an answer whose connection dies in the middle of the text.
func cutAnswer(dialect string) demo.Step {
	return demo.Step{Text: e2eAnswer, Break: demo.Cut, After: brokenAfter[dialect]}
}

// testBroken: an upstream of each dialect dies in the middle of a stream. Each client hears of it in the way that it needs
// (design/http.md): none takes the half for the whole, none asks for ever, none shows the half twice.
func (c *e2eClients) testBroken(t *testing.T) {
	for _, dialect := range e2eDialects {
		for name, test := range map[string]func(*testing.T, string){
			"Claude Code": c.testClaudeCut, "Codex": c.testCodexCut, "Codex, always": c.testCodexAlwaysCut,
			"Gemini CLI": c.testGeminiCut, "opencode": c.testOpencodeCut,
		} {
			t.Run(name+" with "+dialect, func(t *testing.T) {
				t.Parallel()
				test(t, dialect)
			})
		}
	}
}

// cutPair is a pool of two providers of one dialect, of which the first breaks its streams.
func (c *e2eClients) cutPair(t *testing.T, dialect string) (first, second *e2eProvider, u *e2eUser) {
	t.Helper()
	first, second = e2eSpeak(t, "k1", dialect), e2eSpeak(t, "k2", dialect)
	first.Always(cutAnswer(dialect))
	return first, second, c.newUser(t, c.start(t, "fill-first", first, second))
}

// wantOutcomes compares the journal with what must be there.
func (p *e2eProxy) wantOutcomes(t *testing.T, outcomes ...string) []e2eLine {
	t.Helper()
	p.stop(t) // what ends early may be written down a little later than its end is seen
	lines := p.generating(t)
	var got []string
	for _, l := range lines {
		got = append(got, l.Outcome)
	}
	if strings.Join(got, " ") != strings.Join(outcomes, " ") {
		t.Errorf("outcomes %v, want %v: %+v", got, outcomes, lines)
	}
	return lines
}

// testClaudeCut: Claude Code asks once more, for a whole answer.
func (c *e2eClients) testClaudeCut(t *testing.T, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	if got := u.claude(t, 0, nil, "-p", e2ePrompt).Result; got != e2eAnswer {
		t.Errorf("the user was told %q", got)
	}
	if first.generated() != 1 || second.generated() != 1 {
		t.Errorf("requests: %d and %d", first.generated(), second.generated())
	}
	if lines := u.proxy.wantOutcomes(t, "broken", "ok"); !lines[0].Stream || lines[1].Stream || !lines[0].Estimated {
		t.Errorf("journal: %+v", lines)
	}
}

// testCodexCut: Codex hears of response.failed, and asks again.
func (c *e2eClients) testCodexCut(t *testing.T, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	run := u.codex(t, 0, nil, e2ePrompt)
	if run.said != e2eAnswer {
		t.Errorf("the user was told %q", run.said)
	}
	if first.generated() != 1 || second.generated() != 1 {
		t.Errorf("requests: %d and %d", first.generated(), second.generated())
	}
	u.proxy.wantOutcomes(t, "broken", "ok")
}

// testCodexAlwaysCut: its retries are counted, and the error that it ends with is not that of a stream that only ended.
func (c *e2eClients) testCodexAlwaysCut(t *testing.T, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	second.Always(cutAnswer(dialect))
	run := u.codex(t, 1, []string{"stream_max_retries = 1"}, e2ePrompt)
	if run.said != "" || len(run.errors) == 0 {
		t.Errorf("the user was told %q, and errors %q", run.said, run.errors)
	}
	t.Logf("Codex says %q", run.errors)
	for _, text := range run.errors {
		if strings.Contains(text, "stream closed before") {
			t.Errorf("Codex has heard of no failure: %q", text)
		}
	}
	if first.generated()+second.generated() != 2 {
		t.Errorf("requests: %d and %d", first.generated(), second.generated())
	}
	u.proxy.wantOutcomes(t, "broken", "broken")
}

// testGeminiCut: the connection of the Gemini CLI is reset; it ends at once and has shown its words once.
func (c *e2eClients) testGeminiCut(t *testing.T, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	run := u.gemini(t, 1, "--output-format", "text", "-p", e2ePrompt)
	if n := strings.Count(run.stdout, "The"); n > 1 {
		t.Errorf("the words were shown %d times: %s", n, run.stdout)
	}
	if first.generated() != 1 || second.generated() != 0 {
		t.Errorf("requests: %d and %d", first.generated(), second.generated())
	}
	u.proxy.wantOutcomes(t, "broken")
}

// testOpencodeCut: opencode hears of an error, and asks again after a while. What it must never hear is a clean end.
func (c *e2eClients) testOpencodeCut(t *testing.T, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	chat := opencodePackages[0]
	if got := u.opencode(t, chat.npm, chat.base, 0, "--title", "stripes", e2ePrompt).said(t); got != e2eAnswer {
		t.Errorf("the user was told %q", got)
	}
	if first.generated() != 1 || second.generated() != 1 {
		t.Errorf("requests: %d and %d", first.generated(), second.generated())
	}
	u.proxy.wantOutcomes(t, "broken", "ok")
}

// beginSlow starts what waits a minute and does little, beside all else; the function waits for its end.
func (c *e2eClients) beginSlow(t *testing.T) func() {
	var running sync.WaitGroup
	for i, dialect := range e2eDialects {
		running.Go(func() {
			t.Run("slow/opencode, "+opencodePackages[i].dialect+" with "+dialect, func(t *testing.T) {
				c.testOpencodeAlwaysCut(t, i, dialect)
			})
		})
	}
	return running.Wait
}

// testOpencodeAlwaysCut: opencode gives up, after six requests with longer and longer pauses, or one where it takes the
// error for final.
func (c *e2eClients) testOpencodeAlwaysCut(t *testing.T, own int, dialect string) {
	first, second, u := c.cutPair(t, dialect)
	second.Always(cutAnswer(dialect))
	p := opencodePackages[own]
	run := u.opencode(t, p.npm, p.base, 1, "--title", "stripes", e2ePrompt)
	if !strings.Contains(run.stdout+run.stderr, "rror") {
		t.Errorf("opencode told of no error: %s%s", run.stdout, run.stderr)
	}
	n := first.generated() + second.generated()
	t.Logf("%d requests", n)
	if n < 1 || n > 6 {
		t.Errorf("%d requests", n)
	}
}

// testUpgrade: Codex with the provider that it has built in opens a WebSocket; it is told to use HTTP, and does so at once.
func (c *e2eClients) testUpgrade(t *testing.T) {
	provider := e2eSpeak(t, "k1", "anthropic")
	u := c.newUser(t, c.start(t, "", provider))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.proxy.url+"/v1/responses", nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"authorization": "Bearer " + e2eCallerKey, "connection": "Upgrade", "upgrade": "websocket", "sec-websocket-version": "13", "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
	} {
		request.Header.Set(name, value)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("an upgrade was answered with %s", response.Status)
	}
	run := u.codexExec(t, 0, []string{"CODEX_API_KEY=" + e2eCallerKey}, "-c", `openai_base_url="`+u.proxy.url+`/v1"`, "-c", "analytics.enabled=false", e2ePrompt)
	if run.said != e2eAnswer || len(run.errors) != 0 {
		t.Errorf("the user was told %q, and errors %q", run.said, run.errors)
	}
	u.proxy.wantOutcomes(t, "ok")
}
