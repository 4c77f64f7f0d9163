package daemon

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
)

// newHistClient makes a client of a dialect; variant 1 lets Claude reason as it likes.
func newHistClient(dialect string, variant int) histClient {
	switch dialect {
	case "openai-chat":
		return &histChat{}
	case "openai-responses":
		return &histResponses{}
	case "gemini":
		return &histGemini{}
	}
	thinking := `{"type":"enabled","budget_tokens":4000}`
	if variant == 1 {
		thinking = `{"type":"adaptive"}`
	}
	return &histAnthropic{thinking: json.RawMessage(thinking)}
}

var histDialects = []string{"anthropic", "openai-responses", "openai-chat", "gemini"}

// The kinds of answers, in the order in which a session meets them, from any of them on.
var histKinds = []string{"call", "pair", "thought", "bare", "text", "blank", "empty", "saying"}

// histStep is an answer of a kind. own says that the provider is of the client's dialect: the raw lane.
func histStep(kind string, n int, tier *histTier, own, enabled bool) demo.Step {
	call := func(i int) demo.Tool {
		return demo.Tool{Name: "lookup", Input: json.RawMessage(fmt.Sprintf(`{"q":"c%02d-%d;"}`, n, i))}
	}
	thinking, text := fmt.Sprintf("t%02d; why not", n), fmt.Sprintf("a%02d; so it is", n)
	native := own && tier.dialect == "anthropic" // which never says what it refuses later
	must := native && enabled
	s := demo.Step{}
	switch kind {
	case "text":
		s.Text = text
	case "thought":
		s.Thinking, s.Text = thinking, text
	case "call":
		s.Thinking, s.Text, s.Tools = thinking, text, []demo.Tool{call(0)}
	case "pair":
		s.Thinking, s.Tools, s.Interleave = thinking, []demo.Tool{call(0), call(1)}, true
		s.Redacted = n%3 == 0
	case "bare":
		s.Tools = []demo.Tool{call(0)}
	case "saying":
		s.Text, s.Tools = text, []demo.Tool{call(0), call(1)}
	case "blank":
		if s.Text, s.Tools = "\n\n", []demo.Tool{call(0)}; native {
			s.Text = ""
		}
	case "empty":
		if native {
			s.Thinking = thinking
		} else {
			s.Raw, s.ContentType = histEmpty[tier.dialect], "text/event-stream"
		}
	}
	if must && len(s.Tools) > 0 {
		s.Thinking = thinking
	}
	return s
}

// histEmpty are streams that say nothing and end well.
var histEmpty = map[string]string{
	"anthropic": "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",\"type\":\"message\",\"role\":\"assistant\",\"model\":\"m\",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null,\"usage\":{\"input_tokens\":9,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n" +
		"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":{\"output_tokens\":2}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
	"openai-chat": "data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n" +
		"data: {\"id\":\"c1\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\"total_tokens\":11}}\n\ndata: [DONE]\n\n",
	"openai-responses": "event: response.created\ndata: {\"type\":\"response.created\",\"sequence_number\":0,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":\"in_progress\",\"model\":\"m\",\"output\":[]}}\n\n" +
		"event: response.output_item.added\ndata: {\"type\":\"response.output_item.added\",\"sequence_number\":1,\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"in_progress\",\"role\":\"assistant\",\"content\":[]}}\n\n" +
		"event: response.output_item.done\ndata: {\"type\":\"response.output_item.done\",\"sequence_number\":2,\"output_index\":0,\"item\":{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}]}}\n\n" +
		"event: response.completed\ndata: {\"type\":\"response.completed\",\"sequence_number\":3,\"response\":{\"id\":\"resp_1\",\"object\":\"response\",\"created_at\":1,\"status\":\"completed\",\"model\":\"m\",\"output\":[{\"id\":\"msg_1\",\"type\":\"message\",\"status\":\"completed\",\"role\":\"assistant\",\"content\":[{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}]}],\"usage\":{\"input_tokens\":9,\"output_tokens\":2,\"total_tokens\":11}}}\n\n",
	"gemini": "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"\"}],\"role\":\"model\"},\"finishReason\":\"STOP\",\"index\":0}],\"usageMetadata\":{\"promptTokenCount\":9,\"candidatesTokenCount\":2,\"totalTokenCount\":11},\"modelVersion\":\"m\",\"responseId\":\"r1\"}\r\n\r\n",
}

// histSession is a session under way.
type histSession struct {
	rig     *histRig
	client  histClient
	dialect string
	enabled bool // the client says "thinking": "enabled"
	id      string
	n       int
	last    *reply
	before  demo.Step // the last answer, and the index of who gave it
	by      int
	// forgetful says that the proxy may have lost the reasoning before the calls.
	forgetful bool
	calls     []histCall // to be answered next
	said      []string   // what must be in every later request
}

// next lets a tier answer the next request with an answer of a kind, and checks what the client is told and the provider.
func (s *histSession) next(tier int, kind string) error {
	s.n++
	if len(s.calls) > 0 {
		s.client.results(s.n, s.calls)
		for i := range s.calls {
			text, _, _ := histResult(s.n, i)
			s.said = append(s.said, text)
		}
	} else {
		text := fmt.Sprintf("u%02d;", s.n)
		s.client.ask(s.n, text)
		s.said = append(s.said, text)
	}
	h := s.rig.tiers[tier]
	step := histStep(kind, s.n, h, h.dialect == s.dialect, s.enabled)
	r, err := s.rig.send(s.client, s.id, tier, step)
	if s.last = r; err != nil {
		return err
	}
	got, err := s.client.fold(r.body)
	if err != nil {
		return fmt.Errorf("the client reads %w in\n%s", err, r.body)
	}
	if strings.TrimSpace(got.text) != strings.TrimSpace(step.Text) || len(got.calls) != len(step.Tools) {
		return fmt.Errorf("the client reads %+v of %+v", got, step)
	}
	for i, call := range got.calls {
		if want := step.Tools[i]; call.name != want.Name || call.args != string(want.Input) {
			return fmt.Errorf("the client is to call %+v, the model wants %s %s", call, want.Name, want.Input)
		}
	}
	body := s.rig.served().body
	for _, word := range s.said {
		if !strings.Contains(body, word) {
			return fmt.Errorf("the provider's request lacks %q", word)
		}
	}
	if s.n > 1 && s.by == tier && len(s.before.Tools) > 0 && !s.forgetful && len(s.rig.refusals()) == 0 {
		if lost := histLost(h, s.before, s.n-1, body); lost != "" {
			return fmt.Errorf("the provider's own reasoning does not come back to it: no %s", lost)
		}
	}
	s.before, s.by, s.forgetful = step, tier, false
	if s.calls = got.calls; strings.TrimSpace(step.Text) != "" {
		marker, _, _ := strings.Cut(step.Text, " ") // a Gemini client keeps the pieces as they came
		s.said = append(s.said, marker)
	}
	for _, call := range step.Tools {
		s.said = append(s.said, strings.Trim(string(call.Input), `{}":q`))
	}
	return nil
}

// histLost names what a provider that has made calls in its n-th answer must find before them, "" where it does.
func histLost(h *histTier, step demo.Step, n int, body string) string {
	switch {
	case h.dialect == "gemini": // which signs the first call
		mark := fmt.Sprintf(`c%02d-0;"}},"thoughtSignature":"`, n)
		if histSigned(body, mark, h.name) == 0 {
			return mark
		}
	case step.Thinking == "", step.Redacted && h.dialect == "anthropic", h.model == "gpt-5.5" && h.dialect == "openai-chat":
	default:
		if mark := fmt.Sprintf("t%02d;", n); !strings.Contains(body, mark) {
			return mark
		}
	}
	return ""
}

// refusedOnce checks that no provider has refused the last request, or, of a session without a name, only once.
func (g *histRig) refusedOnce(named bool) error {
	seen := map[string]int{}
	for _, v := range g.refusals() {
		foreign := strings.Contains(v.said, "Invalid `") || strings.Contains(v.said, "Invalid thought") || strings.Contains(v.said, "invalid_encrypted")
		if seen[v.tier]++; named || foreign || seen[v.tier] > 1 { // all foreign state is known by its seal, the rest by a note
			return fmt.Errorf("%s has refused the history", v.tier)
		}
		g.repaired++
	}
	return nil
}

// histSets are the orders of tiers.
var histSets = [][3]string{
	{"anthropic", "openai-chat", "gemini"},
	{"anthropic", "openai-responses", "gemini"},
	{"anthropic", "openai-responses", "openai-chat"},
	{"openai-responses", "anthropic", "gemini"},
	{"openai-chat", "gemini", "anthropic"},
	{"gemini", "anthropic", "openai-chat"},
}

// A session that moves between three providers of different dialects, in every order, is answered each time.
func TestHistoryMoves(t *testing.T) {
	t.Parallel()
	var sessions, requests, asked, repaired atomic.Int64
	t.Cleanup(func() {
		t.Logf("%d sessions, %d requests, %d requests to providers, %d repaired", sessions.Load(), requests.Load(), asked.Load(), repaired.Load())
	})
	for setNumber, set := range histSets {
		for _, dialect := range histDialects {
			t.Run(strings.Join(set[:], " ")+" for "+dialect, func(t *testing.T) {
				t.Parallel()
				variant := setNumber % 2
				if dialect == "openai-chat" { // it cannot replay what DeepSeek wants
					variant = 0
				}
				g := newHistRig(t, variant, set[:]...)
				bad := 0
				for number := range 81 {
					if testing.Short() && number%9 != setNumber || setNumber >= 3 && number%2 != setNumber%2 {
						continue
					}
					sessions.Add(1)
					s := &histSession{rig: g, client: newHistClient(dialect, variant), dialect: dialect, enabled: variant == 0, id: fmt.Sprint("s", number)}
					if number%5 == 4 {
						s.id = "" // nothing can be remembered of it
					}
					order := []int{number % 3, number / 3 % 3, number / 9 % 3, number / 27}
					for k := range len(histKinds) + 2 {
						tier := 0 // back in the end
						if k < len(histKinds) {
							tier = order[k%len(order)]
						}
						kind := histKinds[(k+number)%len(histKinds)]
						err := s.next(tier, kind)
						if err == nil {
							err = g.refusedOnce(s.id != "")
						}
						if err != nil {
							t.Errorf("order %v, request %d (%s) by %s: %v%s", order, k, kind, g.tiers[tier].name, err, g.history())
							bad++
							break
						}
					}
					if bad > 2 {
						break
					}
				}
				requests.Add(int64(g.requests))
				asked.Add(int64(g.asked))
				repaired.Add(int64(g.repaired))
			})
		}
	}
}

// must is next for a request that has to go well, with this many refusals by the provider that answers before.
func (s *histSession) must(t *testing.T, tier int, kind string, refusals int) {
	t.Helper()
	if err := s.next(tier, kind); err != nil {
		t.Fatalf("request %d (%s): %v%s", s.n, kind, err, s.rig.history())
	}
	got := 0
	for _, v := range s.rig.refusals() { // one that is overloaded looks at the request, too
		if v.tier == s.rig.tiers[tier].name {
			got++
		}
	}
	if got != refusals {
		t.Errorf("request %d (%s): %d refusals, want %d%s", s.n, kind, got, refusals, s.rig.history())
	}
}

// A session that never moved reaches its provider byte for byte, the model's name aside, also where a text looks like what we
// put into opaque places.
func TestHistoryUntouched(t *testing.T) {
	t.Parallel()
	seal := ir.Seal(ir.State{Owner: "somebody", Data: "something"})
	for _, dialect := range histDialects {
		for variant := range 2 {
			t.Run(fmt.Sprint(dialect, variant), func(t *testing.T) {
				t.Parallel()
				others := slices.DeleteFunc(slices.Clone(histDialects), func(d string) bool { return d == dialect })
				g := newHistRig(t, 0, dialect, others[0], others[1])
				s := &histSession{rig: g, client: newHistClient(dialect, variant), dialect: dialect, enabled: variant == 0, id: "never moved"}
				for round := range 2 * len(histKinds) {
					s.must(t, 0, histKinds[round%len(histKinds)], 0)
					g.isUntouched(t, s.client)
					if round == len(histKinds) { // from here on a user asks about our seals
						for _, text := range []string{"what is " + ir.SealPrefix + "?", "and this: " + seal, seal} {
							for len(s.calls) > 0 {
								s.must(t, 0, "text", 0)
							}
							s.client.ask(1, text)
							if r, err := g.send(s.client, s.id, 0, demo.Step{Text: "it is " + seal}); err != nil {
								t.Fatal(err, g.history())
							} else if _, err := s.client.fold(r.body); err != nil || r.header.Get("X-Proxy-Dropped") != "" {
								t.Fatalf("%v, dropped %q", err, r.header.Get("X-Proxy-Dropped"))
							}
							if !strings.Contains(g.sent, seal[:12]) {
								t.Fatal("the test sends no seal")
							}
							g.isUntouched(t, s.client)
						}
					}
				}
			})
		}
	}
}

// What an Anthropic client may send in other forms than most is not touched either, though its texts look like seals.
func TestHistoryUntouchedForms(t *testing.T) {
	t.Parallel()
	g := newHistRig(t, 0, "anthropic", "openai-chat")
	c := &histAnthropic{thinking: json.RawMessage(`{"type":"enabled","budget_tokens":4000}`)}
	s := &histSession{rig: g, client: c, dialect: "anthropic", enabled: true, id: "odd forms"}
	s.must(t, 0, "call", 0)
	s.must(t, 0, "thought", 0)
	s.must(t, 0, "call", 0)
	var last struct{ Content []json.RawMessage }
	if err := json.Unmarshal(c.messages[len(c.messages)-1], &last); err != nil || len(last.Content) != 3 {
		t.Fatal(err, len(last.Content))
	}
	c.messages = c.messages[:len(c.messages)-1]
	for _, b := range last.Content { // one turn in three messages
		c.say("assistant", []json.RawMessage{b})
	}
	c.results(2, s.calls)
	c.say("system", "a reminder")
	_, body := c.request()
	var indented bytes.Buffer
	if err := json.Indent(&indented, []byte(strings.Replace(body, "u01;", `\u0075\/01; `+ir.Seal(ir.State{Owner: "somebody"}), 1)), "", "\t"); err != nil {
		t.Fatal(err)
	}
	g.tiers[0].provider.Always(demo.Step{Text: "fine"})
	body = indented.String()
	r := g.message(body, "x-session-id: "+s.id)
	got := g.tiers[0].take()
	if want := strings.Replace(body, `"model": "`+histModel, `"model": "`+g.tiers[0].model, 1); r.status != http.StatusOK || len(got) != 1 || got[0].body != want {
		t.Errorf("status %d %s, arrived %+v, want\n%s", r.status, r.body, got, want)
	}
}

// isUntouched compares what the provider got with what the client sent last.
func (g *histRig) isUntouched(t *testing.T, c histClient) {
	t.Helper()
	v, want := g.served(), strings.Replace(g.sent, `"model":"`+histModel+`"`, `"model":"`+g.tiers[0].model+`"`, 1)
	if v.body != want {
		t.Errorf("sent\n%s\narrived\n%s", want, v.body)
	}
	if path := strings.Replace(g.sentTo, "/"+histModel+":", "/"+g.tiers[0].model+":", 1); v.path != strings.TrimSuffix(path, "?alt=sse") {
		t.Errorf("sent to %s, arrived at %s", path, v.path)
	}
}

// mixed are the sessions that a stopped proxy has noted as mixed.
func (g *histRig) mixed(t *testing.T) int {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(g.dir, "sessions.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Mixed map[string]json.RawMessage }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return len(file.Mixed)
}

// outcomes are those of a request's attempts.
func (g *histRig) outcomes(r *reply) string {
	var words []string
	for _, a := range g.record(r.trace()).Attempts {
		words = append(words, fmt.Sprint(a.Tier, " ", a.Status, " ", a.Outcome))
	}
	return strings.Join(words, ", ")
}

// A session goes from one provider to another of the same dialect, who refuses the first one's signatures: repaired once,
// and from then on beforehand.
func TestHistoryRepair(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect string
		variant int
		dropped string
		mark    string // what makes opaque state of a provider's name
	}{
		{"anthropic", 0, "thinking", `"signature":"`},
		{"anthropic", 1, "thinking", `"signature":"`},
		{"openai-responses", 0, "reasoning", `"encrypted_content":"`},
		{"gemini", 0, "thoughtSignature", `"thoughtSignature":"`},
	} {
		t.Run(fmt.Sprint(c.dialect, c.variant), func(t *testing.T) {
			t.Parallel()
			g := newHistRig(t, 0, c.dialect, c.dialect)
			first, second := g.tiers[0], g.tiers[1]
			s := &histSession{rig: g, client: newHistClient(c.dialect, c.variant), dialect: c.dialect, enabled: c.variant == 0, id: "moves"}
			signed := func(by *histTier) int { return histSigned(g.served().body, c.mark, by.name) }

			s.must(t, 0, "call", 0)
			s.must(t, 0, "thought", 0)
			s.must(t, 0, "thought", 0)
			s.must(t, 1, "call", 1)
			if got, want := g.outcomes(s.last), fmt.Sprintf("%s %d overload, %s 400 repair, %s 200 ok", first.name, first.overload().Status, second.name, second.name); got != want {
				t.Errorf("attempts %q, want %q", got, want)
			}
			if got := s.last.header.Get("X-Proxy-Dropped"); got != c.dropped {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
			if got := s.last.header.Get("X-Proxy-Attempts"); got != "3" {
				t.Errorf("%s attempts", got)
			}
			g.in(t).untouched("key-" + second.name)
			if n := signed(first); n != 0 {
				t.Errorf("%d signatures of the first provider are left:\n%s", n, g.served().body)
			}

			// The loop that the second provider has opened keeps its reasoning; the first one's is taken out beforehand.
			s.must(t, 1, "call", 0)
			if signed(first) != 0 || signed(second) != 1 {
				t.Errorf("%d and %d signatures:\n%s", signed(first), signed(second), g.served().body)
			}
			if got := s.last.header.Get("X-Proxy-Dropped"); got != c.dropped {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
			s.must(t, 1, "thought", 0)
			if signed(first) != 0 || signed(second) != 2 {
				t.Errorf("%d and %d signatures:\n%s", signed(first), signed(second), g.served().body)
			}

			g.stop()
			if n := g.mixed(t); n != 1 {
				t.Errorf("%d sessions are noted as mixed", n)
			}
			g.instance = startInAt(t, g.dir, g.clock, nil, histMembers(g.tiers)...)
			s.must(t, 1, "thought", 0)
			s.must(t, 0, "pair", 0) // and back: its own are gone, too
			s.must(t, 0, "text", 0)

			// In the middle of a loop the reasoning of the first must be refused before it can go.
			s.must(t, 0, "call", 0)
			s.must(t, 1, "text", 1)
			if signed(first) != 0 {
				t.Errorf("signatures of the first provider are left:\n%s", g.served().body)
			}
			if c.dialect == "anthropic" && !strings.Contains(g.served().body, `"thinking":{"type":"disabled"}`) {
				t.Errorf("reasoning is not off:\n%s", g.served().body)
			}
			s.must(t, 1, "text", 0)

			// Who names no session is repaired each time, and nothing is noted.
			s.id = ""
			s.must(t, 0, "thought", 1)
			s.must(t, 0, "thought", 1)
			g.stop()
			if n := g.mixed(t); n != 1 {
				t.Errorf("%d sessions are noted as mixed", n)
			}
		})
	}
}

// histSigned counts the opaque states of a provider in a body.
func histSigned(body, mark, name string) (n int) {
	for _, rest := range strings.Split(body, mark)[1:] {
		text, _, _ := strings.Cut(rest, `"`)
		plain, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "gAAAA"))
		if err == nil && strings.HasPrefix(string(plain), "demo:"+name+":") {
			n++
		}
	}
	return n
}

// A provider that refuses the repaired history as well: the client gets that answer, after two attempts, and nothing is kept.
func TestHistoryRefusedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ dialect, message, code string }{
		{"anthropic", "messages.1.content.0: Invalid `signature` in `thinking` block", ""},
		{"openai-responses", "The encrypted content gAAA... could not be verified.", "invalid_encrypted_content"},
		{"gemini", "Invalid thought signature.", ""},
	} {
		t.Run(c.dialect, func(t *testing.T) {
			t.Parallel()
			g := newHistRig(t, 0, c.dialect, c.dialect)
			s := &histSession{rig: g, client: newHistClient(c.dialect, 0), dialect: c.dialect, enabled: true, id: "refused"}
			s.must(t, 0, "thought", 0)
			s.client.ask(2, "u02;")
			r, err := g.send(s.client, s.id, 0, demo.Step{Status: http.StatusBadRequest, Message: c.message, Code: c.code})
			if err == nil || r.status != http.StatusBadRequest || len(g.last) != 2 || r.body != g.last[1].said {
				t.Fatalf("%v: %d %s%s", err, r.status, r.body, g.history())
			}
			name := g.tiers[0].name
			if got, want := g.outcomes(r), name+" 400 repair, "+name+" 400 passthrough"; got != want {
				t.Errorf("attempts %q, want %q", got, want)
			}
			g.in(t).untouched("key-" + name)
			g.stop()
			if n := g.mixed(t); n != 0 {
				t.Errorf("%d sessions are noted as mixed", n)
			}
		})
	}
}

// Chat has no place for opaque state: it is remembered by call id, and its loss is survived.
func TestHistoryChat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect       string
		variant       int
		mark          string
		lost, dropped string // what the provider gets once the memory is gone, and what the client is told
	}{
		{"anthropic", 0, `"signature":"`, `"thinking":{"type":"disabled"}`, "reasoning_effort"},
		{"anthropic", 1, `"signature":"`, `"thinking":{"type":"disabled"}`, "reasoning_effort"},
		{"gemini", 0, `"thoughtSignature":"`, `"thoughtSignature":"skip_thought_signature_validator"`, ""},
		{"openai-responses", 0, `"encrypted_content":"`, "", ""},
	} {
		t.Run(fmt.Sprint(c.dialect, c.variant), func(t *testing.T) {
			t.Parallel()
			g := newHistRig(t, c.variant, c.dialect)
			h := g.tiers[0]
			s := &histSession{rig: g, client: newHistClient("openai-chat", 0), dialect: "openai-chat", id: "chat"}
			signed := func() int {
				return histSigned(g.served().body, c.mark, h.name) + histSigned(g.served().body, `"data":"`, h.name) // redacted
			}
			s.must(t, 0, "call", 0)
			for n := 1; n <= 3; n++ { // a loop of several steps
				s.must(t, 0, "pair", 0)
				if signed() != n {
					t.Errorf("%d signatures after %d steps:\n%s", signed(), n, g.served().body)
				}
				if got := s.last.header.Get("X-Proxy-Dropped"); got != "" {
					t.Errorf("dropped %q", got)
				}
				if c.lost != "" && strings.Contains(g.served().body, c.lost) {
					t.Errorf("%s in\n%s", c.lost, g.served().body)
				}
			}
			g.restart(t) // in the middle of the loop
			s.forgetful = true
			s.must(t, 0, "pair", 0)
			if signed() != 0 || !strings.Contains(g.served().body, c.lost) {
				t.Errorf("%d signatures, and no %s:\n%s", signed(), c.lost, g.served().body)
			}
			if got := s.last.header.Get("X-Proxy-Dropped"); got != c.dropped {
				t.Errorf("dropped %q, want %q", got, c.dropped)
			}
			s.must(t, 0, "text", 0) // what was made since is remembered
			if signed() > 1 {
				t.Errorf("%d signatures:\n%s", signed(), g.served().body)
			}
			s.must(t, 0, "call", 0)
			s.must(t, 0, "text", 0)
			if signed() == 0 {
				t.Errorf("no signature:\n%s", g.served().body)
			}
		})
	}
}

// A Gemini client keeps the pieces of a stream, in one content or in many: the next provider reads them as the one text that
// they were.
func TestHistoryPieces(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dialect string
		variant int
	}{{"anthropic", 0}, {"openai-chat", 0}, {"openai-chat", 1}, {"openai-responses", 0}} {
		t.Run(fmt.Sprint(c.dialect, c.variant), func(t *testing.T) {
			t.Parallel()
			for _, contents := range []int{1, 4} {
				g := newHistRig(t, c.variant, c.dialect)
				client := &histGemini{}
				client.ask(1, "count")
				var parts []object
				for _, piece := range []string{"One,", " two.", "\n\n", "Three."} {
					if parts = append(parts, object{"text": piece}); contents > 1 {
						client.say("model", parts)
						parts = nil
					}
				}
				if parts != nil {
					client.say("model", parts)
				}
				client.ask(2, "go on")
				if _, err := g.send(client, "pieces", 0, demo.Step{Text: "four"}); err != nil {
					t.Fatal(err, g.history())
				}
				if got, want := histAssistant(t, g.served().body), "One, two.\n\nThree."; got != want {
					t.Errorf("%d contents: the provider reads %q, want %q\n%s", contents, got, want, g.served().body)
				}
			}
		})
	}
}

// histAssistant is all text that a request to Anthropic or OpenAI has of the assistant.
func histAssistant(t *testing.T, body string) (text string) {
	t.Helper()
	type message struct {
		Role    string
		Content json.RawMessage
	}
	var b struct{ Messages, Input []message }
	if err := json.Unmarshal([]byte(body), &b); err != nil {
		t.Fatal(err)
	}
	for _, m := range append(b.Messages, b.Input...) {
		if m.Role != "assistant" {
			continue
		}
		var whole string
		var parts []struct{ Text string }
		if json.Unmarshal(m.Content, &whole) != nil {
			if err := json.Unmarshal(m.Content, &parts); err != nil {
				t.Fatal(err)
			}
		}
		text += whole
		for _, p := range parts {
			text += p.Text
		}
	}
	return text
}
