//go:build linux

package cli_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// What the files say that the clients' tools read.
const (
	firstFile  = "stripes-42"
	secondFile = "spots-43"
)

// pngFile is a picture of 8 × 8 points.
const pngFile = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP478CAFWEXHbQSAGlZT8Fy6sDFAAAAAElFTkSuQmCC"

// sessionUsage is what each answer costs; every dialect has its own way to say it, and the journal one.
var sessionUsage = demo.Usage{Input: 1000, CacheRead: 200, Output: 50, Reasoning: 10}

// e2eMode is what a client asks for: whole answers or streams.
type e2eMode string

const (
	plainMode  e2eMode = "plain"
	streamMode e2eMode = "stream"
)

// e2eAgent is a client that can hold a conversation.
type e2eAgent struct {
	name    string
	dialect string
	product string // its user agent's
	modes   []e2eMode
	names   bool // its session
	late    bool // calls its tools in the second turn: what it makes of calls in a resumed history is no valid request
	carries bool // reasoning that it cannot read, back to who made it

	tools func(dir string) []demo.Tool // two calls that read the two files
	look  func(dir string) []demo.Tool // how it looks at the picture; nil: it sends the picture itself
	talk  func(t *testing.T, u *e2eUser, mode e2eMode, turn int) string

	aside func(t *testing.T, u *e2eUser, p *e2eProvider) // what else it asks for, in whole answers; nil: nothing
}

// e2eUser is one user of a client: a home, a folder to work in, and the proxy.
type e2eUser struct {
	clients   *e2eClients
	proxy     *e2eProxy
	home, dir string
	env       []string // more for its client
}

func (c *e2eClients) newUser(t *testing.T, p *e2eProxy) *e2eUser {
	t.Helper()
	u := &e2eUser{clients: c, proxy: p, home: t.TempDir(), dir: t.TempDir()}
	picture, err := base64.StdEncoding.DecodeString(pngFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"first.txt": firstFile + "\n", "second.txt": secondFile + "\n", "picture.png": string(picture)} {
		u.write(t, filepath.Join(u.dir, name), content)
	}
	return u
}

func (u *e2eUser) write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run runs a client and returns what it prints; its exit code must be this one.
func (u *e2eUser) run(t *testing.T, exit int, env []string, name string, args ...string) e2eRun {
	t.Helper()
	run := e2eExecute(t, u.dir, slices.Concat(env, u.env, []string{"HOME=" + u.home}), name, args...)
	if run.exit != exit {
		t.Errorf("%s: exit %d, want %d\n%s\n%s", filepath.Base(name), run.exit, exit, run.stdout, run.stderr)
	}
	return run
}

// e2eMatrix gathers what worked.
type e2eMatrix struct {
	mu    sync.Mutex
	cells map[[2]string][]e2eMark
}

type e2eMark struct {
	what   string
	worked bool
}

// add notes what worked, or did not; of two notes of one thing the bad one counts.
func (m *e2eMatrix) add(client, upstream, what string, worked bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cell := [2]string{client, upstream}
	i := slices.IndexFunc(m.cells[cell], func(mark e2eMark) bool { return mark.what == what })
	if i < 0 {
		m.cells[cell] = append(m.cells[cell], e2eMark{what, worked})
		return
	}
	m.cells[cell][i].worked = m.cells[cell][i].worked && worked
}

func (m e2eMark) String() string {
	if m.worked {
		return m.what + " ✓"
	}
	return m.what + " ✗"
}

// table is the matrix as the README has it.
func (m *e2eMatrix) table(agents []*e2eAgent) string {
	var b strings.Builder
	b.WriteString("| client | speaks | " + strings.Join(e2eDialects, " | ") + " |\n| --- | --- |" + strings.Repeat(" --- |", len(e2eDialects)))
	for _, a := range agents {
		fmt.Fprintf(&b, "\n| %s | %s |", a.name, a.dialect)
		for _, dialect := range e2eDialects {
			var marks []string
			for _, mark := range m.cells[[2]string{a.name, dialect}] {
				marks = append(marks, mark.String())
			}
			fmt.Fprintf(&b, " %s |", strings.Join(marks, ", "))
		}
	}
	return b.String()
}

// agents are all clients of the matrix.
func (c *e2eClients) agents() []*e2eAgent {
	return slices.Concat([]*e2eAgent{claudeAgent(), codexAgent(), geminiAgent()}, opencodeAgents(), sdkAgents())
}

// testSession: each client with an upstream of each dialect, in a conversation with reasoning, parallel calls of tools,
// a second turn, and a picture.
func (c *e2eClients) testSession(t *testing.T) {
	matrix, agents := &e2eMatrix{cells: map[[2]string][]e2eMark{}}, c.agents()
	t.Run("of", func(t *testing.T) {
		for _, agent := range agents {
			for _, dialect := range e2eDialects {
				t.Run(agent.name+" with "+dialect, func(t *testing.T) {
					t.Parallel()
					c.testConversation(t, matrix, agent, dialect)
				})
			}
		}
	})
	t.Logf("what was asked and answered:\n%s", matrix.table(agents))
}

// conversation are the answers of the upstream, by turn.
func (a *e2eAgent) conversation(dir string) [][]demo.Step {
	tools := demo.Step{Thinking: "Two files.", Text: "I read them.", Tools: a.tools(dir), Usage: sessionUsage}
	answer := demo.Step{Thinking: "The walrus knows.", Text: e2eAnswer, Usage: sessionUsage}
	turns := [][]demo.Step{{tools, answer}, {answer}}
	switch {
	case a.late:
		turns = [][]demo.Step{{answer}, {tools, answer}}
	case a.look != nil:
		turns[1] = []demo.Step{{Thinking: "A picture.", Tools: a.look(dir), Usage: sessionUsage}, answer}
	}
	return turns
}

func (c *e2eClients) testConversation(t *testing.T, matrix *e2eMatrix, agent *e2eAgent, dialect string) {
	c.testConversationBefore(t, matrix, agent, dialect, e2eSpeak(t, "k1", dialect))
}

// testConversationBefore: the provider speaks this dialect, and has its model of e2eModels.
func (c *e2eClients) testConversationBefore(t *testing.T, matrix *e2eMatrix, agent *e2eAgent, dialect string, provider *e2eProvider) {
	twin := provider.twin("k2") // whichever is drawn, it is the same provider
	p := c.start(t, "session-sticky", provider, twin)
	for _, mode := range agent.modes {
		u := c.newUser(t, p)
		before := len(provider.asked())
		for turn, steps := range agent.conversation(u.dir) {
			provider.Push(steps...)
			due := provider.generated() + len(steps)
			if said := agent.talk(t, u, mode, turn); said != e2eAnswer {
				t.Errorf("turn %d, %s: the user was told %q", turn, mode, said)
			}
			if came := provider.generated(); came != due {
				t.Errorf("turn %d, %s: %d requests at the provider, want %d", turn, mode, came, due)
			}
			if t.Failed() {
				matrix.add(agent.name, dialect, string(mode), false)
				agent.checkJournal(t, dialect, p.generating(t))
				return
			}
		}
		asked := provider.asked()[before:]
		matrix.add(agent.name, dialect, "request", agent.checkRequests(t, dialect, asked))
		matrix.add(agent.name, dialect, string(mode), !t.Failed())
	}
	if agent.aside != nil {
		agent.aside(t, c.newUser(t, p), provider)
		matrix.add(agent.name, dialect, string(plainMode), !t.Failed())
	}
	agent.checkJournal(t, dialect, p.generating(t))
	if len(p.generating(t)) != provider.generated() {
		t.Errorf("%d journal lines, %d requests at the provider", len(p.generating(t)), provider.generated())
	}
	for line := range strings.Lines(p.said()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") {
			t.Errorf("the log: %s", line)
		}
	}
}

// twin is another key of the same provider.
func (p *e2eProvider) twin(id string) *e2eProvider {
	key := p.key
	key.ID = id
	return &e2eProvider{p.Provider, key}
}

// generating are the journal's lines but for those of local answers.
func (p *e2eProxy) generating(t *testing.T) []e2eLine {
	t.Helper()
	return slices.DeleteFunc(p.journal(t), func(l e2eLine) bool { return l.Outcome == "local" })
}

// checkRequests looks at what the provider got. That it is well-formed, the provider has seen to.
func (a *e2eAgent) checkRequests(t *testing.T, dialect string, asked []demo.Request) bool {
	t.Helper()
	bodies := make([]string, len(asked))
	for i, r := range asked {
		bodies[i] = string(r.Body)
	}
	want := len(slices.Concat(a.conversation("")...))
	if len(bodies) != want {
		t.Errorf("%d requests at the provider, want %d", len(bodies), want)
		return false
	}
	asks, gets, last := bodies[0], bodies[1], bodies[want-1]
	if a.late {
		asks, gets = bodies[1], bodies[2]
	}
	for _, result := range []string{firstFile, secondFile} {
		if strings.Contains(asks, result) || !strings.Contains(gets, result) || !strings.Contains(last, result) {
			t.Errorf("the result %q is not where it belongs", result)
		}
	}
	if !strings.Contains(last, "walrus") || !hasPicture(dialect, last) || hasPicture(dialect, bodies[0]) {
		t.Error("the last request has no history or no picture, or the first one has it")
	}
	if seal := reasoningSeal[dialect]; a.carries && !strings.Contains(gets, seal) {
		t.Errorf("the reasoning of the provider did not come back to it")
	}
	return !t.Failed()
}

// reasoningSeal shows that reasoning came back.
var reasoningSeal = map[string]string{
	"anthropic": `"signature":"`, "openai-chat": `"reasoning_content":"Two files."`, "openai-responses": `"encrypted_content":"gAAAA`,
	"gemini": `"thoughtSignature":"`,
}

// hasPicture looks for a picture in the form that it has in a dialect.
func hasPicture(dialect, body string) bool {
	compact := strings.NewReplacer(" ", "", "\n", "").Replace(body)
	switch dialect {
	case "anthropic":
		return strings.Contains(compact, `"media_type":"image/png"`) && strings.Contains(compact, `"iVBOR`)
	case "gemini":
		return strings.Contains(compact, `"mimeType":"image/png"`) && strings.Contains(compact, `"iVBOR`)
	}
	return strings.Contains(compact, `"data:image/png;base64,iVBOR`)
}

// checkJournal: every request is one attempt that went well, with the provider's own figures, on one key.
func (a *e2eAgent) checkJournal(t *testing.T, dialect string, lines []e2eLine) {
	t.Helper()
	for _, l := range lines {
		if l.Caller != "laptop" || l.Dialect != a.dialect || l.Upstream != dialect || l.Model != e2eModels[dialect] || l.Outcome != "ok" || l.Status != 200 ||
			len(l.Attempts) != 1 || !strings.HasPrefix(l.Client, a.product) {
			t.Errorf("journal: %+v", l)
		}
		if l.Input != 1000 || l.CacheRead != 200 || l.Output != 50 || l.Reasoning != 10 || l.Estimated {
			t.Errorf("tokens: %+v", l)
		}
		if a.names && (l.Session == "" || l.Key != lines[0].Key || l.Session != lines[0].Session) {
			t.Errorf("another key or session: %+v, first %+v", l, lines[0])
		}
	}
	t.Logf("%s with %s, dropped: %v", a.name, dialect, dropped(lines))
}

// dropped are all fields that were, once each.
func dropped(lines []e2eLine) []string {
	var all []string
	for _, l := range lines {
		all = append(all, l.Dropped...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// tool is a call; args are given as pairs.
func tool(name string, args ...string) demo.Tool {
	input := map[string]string{}
	for pair := range slices.Chunk(args, 2) {
		input[pair[0]] = pair[1]
	}
	data, err := json.Marshal(input)
	if err != nil {
		panic(err)
	}
	return demo.Tool{Name: name, Input: data}
}
