//go:build linux

package cli_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"coding-proxy/proxy/demo"
)

// The proxy's interval is a constant of 15 s: what is here waits for two keep-alives, one test beside the other. Where a
// client can be told so, it gives up after 25 s in which it hears nothing that counts: later than the first is due, with
// time to spare on a slow machine, and sooner than the second.
const (
	keepAlives    = 2
	impatientTime = 25000 // ms
)

// beginKeepAlive starts what waits and does little, beside all else; the function waits for its end.
func (c *e2eClients) beginKeepAlive(t *testing.T) func() {
	var running sync.WaitGroup
	begin := func(name string, test func(t *testing.T)) {
		running.Go(func() { t.Run("keep-alive/"+name, test) })
	}
	for _, agent := range c.agents() {
		begin(agent.name+" in the middle", func(t *testing.T) { c.testSilentMiddle(t, agent) })
		if agent.product == "opencode" && agent.dialect != "openai-chat" {
			continue // it reads what comes before the first event in one way for all; and it is a heavy one
		}
		other := otherDialect(agent.dialect)
		begin(agent.name+" with "+other+", before the beginning", func(t *testing.T) { c.testSilentBeginning(t, agent, other) })
	}
	begin("Gemini CLI without a header", c.testSilentHead)
	return running.Wait
}

// otherDialect is the next one in the matrix.
func otherDialect(dialect string) string {
	for i, d := range e2eDialects {
		if d == dialect {
			return e2eDialects[(i+1)%len(e2eDialects)]
		}
	}
	return ""
}

// What a client hears in a silence, byte for byte: after its message has begun, and before.
var (
	middleForm = map[string]string{
		"anthropic": "event: ping\ndata: {\"type\":\"ping\"}\n\n", "openai-chat": ": keep-alive\n",
		"openai-responses": "event: keepalive\ndata: {\"type\":\"keepalive\"}\n\n", "gemini": "\n",
	}
	beginningForm = map[string]string{
		"anthropic": ": keep-alive\n\n", "openai-chat": ": keep-alive\n", "openai-responses": ": keepalive\n\n", "gemini": "\n",
	}
)

// testSilentMiddle: the upstream falls silent after some words.
func (c *e2eClients) testSilentMiddle(t *testing.T, agent *e2eAgent) {
	hold := demo.HoldAt(brokenAfter[agent.dialect] + 1)
	c.testSilence(t, agent, agent.dialect, hold, func(heard string) bool {
		_, silence, _ := strings.Cut(heard, "The ")
		return countChunks(silence, middleForm[agent.dialect]) >= keepAlives
	})
}

// testSilentBeginning: the upstream falls silent after its header, and is converted from. Codex takes no comment for a sign
// of life, and OpenAI's SDK no event before the first: Codex waits for one only, to show that it bears them.
func (c *e2eClients) testSilentBeginning(t *testing.T, agent *e2eAgent, dialect string) {
	due := keepAlives
	if agent.product == "codex_exec" {
		due = 1
	}
	c.testSilence(t, agent, dialect, demo.HoldAt(1), func(heard string) bool {
		return countChunks(heard, beginningForm[agent.dialect]) >= due
	})
}

// testSilentHead: the upstream sends no header. The Gemini CLI gives up after 60 s without one; it gets it after 50.
func (c *e2eClients) testSilentHead(t *testing.T) {
	c.testSilence(t, geminiAgent(), "gemini", demo.HoldAt(0), func(heard string) bool {
		return strings.HasPrefix(heard, "HTTP/1.1 200 ") && strings.Contains(heard, "\r\n\r\n")
	})
}

// testSilence holds the answer of an upstream until the client has heard enough, or has given up. It must not have noticed.
func (c *e2eClients) testSilence(t *testing.T, agent *e2eAgent, dialect string, hold *demo.Hold, enough func(heard string) bool) {
	provider := e2eSpeak(t, "k1", dialect)
	provider.Push(demo.Step{Text: e2eAnswer, Hold: hold})
	p := c.start(t, "", provider)
	w := listenIn(t, p, func(heard string) {
		if enough(heard) {
			hold.Release()
		}
	})
	go func() {
		provider.Wait(t.Context(), 1) // the client has given up, and will ask again
		hold.Release()
	}()
	u := c.newUser(t, p)
	if said := u.impatient(t, agent); said != e2eAnswer {
		t.Errorf("the user was told %q", said)
	}
	if heard := w.said(); !enough(heard) {
		t.Errorf("the client heard %q", heard)
	}
	if n := provider.generated(); n != 1 {
		t.Errorf("%d requests at the provider", n)
	}
	p.wantOutcomes(t, "ok")
}

// impatient runs a client that gives up a silent stream soon, and returns what the user was told.
func (u *e2eUser) impatient(t *testing.T, agent *e2eAgent) string {
	t.Helper()
	switch agent.product {
	case "codex_exec": // counts events
		run := u.codex(t, 0, []string{fmt.Sprintf("stream_idle_timeout_ms = %d", impatientTime)}, e2ePrompt)
		if len(run.errors) != 0 {
			t.Errorf("Codex says %q", run.errors)
		}
		return run.said
	case "claude-cli": // counts bytes, and events for a time that cannot be shorter than 300 s
		u.env = []string{"CLAUDE_ENABLE_BYTE_WATCHDOG=1", fmt.Sprintf("CLAUDE_BYTE_STREAM_IDLE_TIMEOUT_MS=%d", impatientTime)}
	case "opencode": // counts bytes
		u.write(t, filepath.Join(u.dir, "opencode.json"), fmt.Sprintf(`{"provider":{"proxy":{"options":{"chunkTimeout":%d}}}}`, impatientTime))
	default: // node counts bytes, for 300 s where nobody says otherwise
		u.env = []string{"NODE_OPTIONS=--import=data:text/javascript," + url.PathEscape(fmt.Sprintf(impatientNode, impatientTime))}
	}
	return agent.talk(t, u, streamMode, 0)
}

// impatientNode shortens the one limit of node's own fetch that neither the Gemini CLI nor the SDKs let a user set; Google's
// Gen AI SDK takes it away and would wait for ever, so its dispatcher is not asked.
const impatientNode = `const real = globalThis.fetch
const agent = () => globalThis[Symbol.for('undici.globalDispatcher.1')]
globalThis.fetch = (input, init) => real(input, { ...init, dispatcher: { dispatch: (options, handler) => agent().dispatch({ ...options, bodyTimeout: %d }, handler) } })`

// countChunks counts the chunks of a body, as they are on the wire, that are this text and no more.
func countChunks(heard, text string) int {
	return strings.Count(heard, fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
}

// e2eWire stands between the clients and the proxy and hears what the clients hear.
type e2eWire struct {
	watch func(heard string)

	mu    sync.Mutex
	heard strings.Builder
}

// listenIn lets all who use the proxy from now on come through a wire; watch sees what was heard so far each time that more
// came and the client has it.
func listenIn(t *testing.T, p *e2eProxy, watch func(heard string)) *e2eWire {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	w, backend := &e2eWire{watch: watch}, strings.TrimPrefix(p.url, "http://")
	p.url = "http://" + listener.Addr().String()
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test is over
			}
			go w.join(client, backend)
		}
	}()
	return w
}

// join copies both ways. Who ends, ends both.
func (w *e2eWire) join(client net.Conn, backend string) {
	defer client.Close()
	proxy, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer proxy.Close()
	go func() {
		defer proxy.Close() // the copy below ends with it
		io.Copy(proxy, client)
	}()
	io.Copy(io.MultiWriter(client, w), proxy)
}

// Write takes what the proxy sends.
func (w *e2eWire) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard.Write(data)
	w.watch(w.heard.String())
	return len(data), nil
}

func (w *e2eWire) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.heard.String()
}
