package anthropic

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
)

// repaired repairs a body that must be good.
func repaired(tb testing.TB, body string, how ir.Repair) (string, []string) {
	tb.Helper()
	before := strings.Clone(body)
	out, removed, err := repair([]byte(body), how)
	if err != nil || body != before {
		tb.Fatalf("%s: %v", body, err)
	}
	if out == nil {
		return "", removed
	}
	if !json.Valid(out) {
		tb.Fatalf("%s\nbecame %s", body, out)
	}
	return string(out), removed
}

func TestRepair(t *testing.T) {
	sealed := ir.Seal(ir.State{Owner: "openai/x", Data: "E"})
	ours := `{"type":"thinking","thinking":"hm","signature":"` + sealed + `"}`
	const own = `{"type":"thinking", "thinking":"hm","signature":"SIG"}`
	const call, result = `{"type":"tool_use","id":"t1","name":"f","input":{"n":1.0}}`, `{"type":"tool_result","tool_use_id":"t1","content":"R"}`
	msg := func(role string, blocks ...string) string {
		return `{"role":"` + role + `", "content":[` + strings.Join(blocks, ",") + `]}`
	}
	body := func(rest string, messages ...string) string {
		return `{"model":"m", "messages":[` + strings.Join(messages, ",") + `]` + rest + `}`
	}
	const text = `{"type":"text","text":"x"}`
	user := `{"role":"user","content":"a"}`
	const on = `,"thinking":{"type":"adaptive"},"context_management":{"edits":[{"type":"clear_thinking_20251015","keep":"all"}]},"stream":true`
	for _, tc := range []struct {
		name     string
		how      ir.Repair
		in, want string // "" = nothing had to change
		removed  bool
	}{
		{"own signatures stay", ir.RepairSealed, body(on, user, msg("assistant", own, text), user), "", false},
		{"sealed", ir.RepairSealed, body(on, user, msg("assistant", ours, text), user), body(on, user, msg("assistant", text), user), true},
		{"sealed among own", ir.RepairSealed, body("", user, msg("assistant", own, text), user, msg("assistant", ours, text), user), body("", user, msg("assistant", own, text), user, msg("assistant", text), user), true},
		{"redacted", ir.RepairSealed, body("", user, msg("assistant", `{"type":"redacted_thinking","data":"`+sealed+`"}`, text), user), body("", user, msg("assistant", text), user), true},
		{"closed", ir.RepairClosed, body(on, user, msg("assistant", own, text), user, msg("assistant", own, call), msg("user", result)), body(on, user, msg("assistant", text), user, msg("assistant", own, call), msg("user", result)), true},
		{"all", ir.RepairAll, body(on, user, msg("assistant", own, text), user, msg("assistant", own, call), msg("user", result)),
			`{"model":"m", "messages":[` + user + `,` + msg("assistant", text) + `,` + user + `,` + msg("assistant", call) + `,` + msg("user", result) + `],"thinking":{"type":"disabled"},"stream":true}`, true},
		{"the open loop lost its block", ir.RepairSealed, body(on, user, msg("assistant", ours, call), msg("user", result, text)),
			`{"model":"m", "messages":[` + user + `,` + msg("assistant", call) + `,` + msg("user", result, text) + `],"thinking":{"type":"disabled"},"stream":true}`, true},
		{"other edits stay", ir.RepairSealed, body(`,"thinking":{"type":"adaptive"},"context_management":{"edits":[{"type":"clear_thinking_20251015"},{"type":"clear_tool_uses_20250919"}],"x":1}`, user, msg("assistant", ours, call), msg("user", result)),
			body(`,"thinking":{"type":"disabled"},"context_management":{"edits":[{"type":"clear_tool_uses_20250919"}],"x":1}`, user, msg("assistant", call), msg("user", result)), true},
		{"nothing but reasoning", ir.RepairSealed, body("", user, msg("assistant", ours), `{"role":"user","content":"b"}`), body("", `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`), true},
		{"reasoning and blanks", ir.RepairSealed, body("", user, msg("assistant", ours, `{"type":"text","text":"\n\n"}`, call), msg("user", result)), body("", user, msg("assistant", call), msg("user", result)), true},
		{"missing result", ir.RepairSealed, body("", user, msg("assistant", call), user),
			body("", user, msg("assistant", call), `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"[no result recorded]","is_error":true},{"type":"text","text":"a"}]}`), false},
		{"CNV-014 result in the assistant's message", ir.RepairSealed, body("", user, msg("assistant", call, result), user), body("", user, msg("assistant", call), `{"role":"user","content":[`+result+`,{"type":"text","text":"a"}]}`), false},
		{"… at the end", ir.RepairSealed, body("", user, msg("assistant", call, result)), body("", user, msg("assistant", call), `{"role":"user","content":[`+result+`]}`), false},
		{"late result", ir.RepairSealed, body("", user, msg("assistant", call), user, msg("assistant", text), msg("user", result, text)),
			body("", user, msg("assistant", call), `{"role":"user","content":[`+result+`,{"type":"text","text":"a"}]}`, msg("assistant", text), msg("user", text)), false},
		{"text before the result", ir.RepairSealed, body("", user, msg("assistant", call), msg("user", text, result)), body("", user, msg("assistant", call), msg("user", result, text)), false},
		{"orphan", ir.RepairSealed, body("", msg("user", text, result)), body("", msg("user", text, `{"type":"text","text":"[result of an earlier tool call]\nR"}`)), false},
		{"two results", ir.RepairSealed, body("", user, msg("assistant", call), msg("user", `{"type":"tool_result","tool_use_id":"t1"}`, result)), body("", user, msg("assistant", call), msg("user", result)), false},
		{"system between", ir.RepairSealed, body("", user, msg("assistant", call), `{"role":"system","content":"s"}`, msg("user", result)), "", false},
		{"open call at the end", ir.RepairSealed, body("", user, msg("assistant", call)), "", false},
		{"results in another order", ir.RepairSealed, body("", msg("assistant", call, `{"type":"tool_use","id":"t2","name":"f","input":{}}`), msg("user", `{"type":"tool_result","tool_use_id":"t2"}`, result)), "", false},
		{"odd content", ir.RepairAll, `{"messages":[{"role":"user","content":7},{"role":"user"},{"role":"assistant","content":[7,null]}]}`, "", false},
		{"no messages", ir.RepairAll, `{"a":1}`, "", false},
	} {
		t.Run(strings.ReplaceAll(tc.name, " ", "_"), func(t *testing.T) {
			got, removed := repaired(t, tc.in, tc.how)
			if got != tc.want || (len(removed) == 1 && removed[0] == "thinking") != tc.removed || len(removed) > 1 {
				t.Errorf("%q\n got %s\nwant %s", removed, got, tc.want)
			}
		})
	}
	for _, bad := range []string{`[]`, `{"messages":7}`, `{"messages":[7]}`} {
		if _, _, err := repair([]byte(bad), ir.RepairAll); err == nil {
			t.Errorf("%s passes", bad)
		}
	}
}

// maker makes histories of three owners: the provider of this lane, one behind our conversions, and another one of this
// dialect whose signatures are its own and who puts results where it likes.
type maker struct {
	r     *rand.Rand
	n     int
	kinds int // 1 native, 2 and sealed, 3 and foreign
	open  bool
	marks []string // native reasoning
}

func (m *maker) chance(n int) bool { return m.r.IntN(n) == 0 }

func (m *maker) reasoning(owner int) string {
	m.n++
	switch owner {
	case 0:
		b := fmt.Sprintf(`{"type":"thinking","thinking":"n%d","signature":"anthropic/a:%d"}`, m.n, m.n)
		if m.chance(3) {
			b = fmt.Sprintf(`{"type":"redacted_thinking", "data":"anthropic/a:%d"}`, m.n)
		}
		m.marks = append(m.marks, b)
		return b
	case 1:
		s := ir.State{Owner: "chat/x", Data: fmt.Sprint(m.n), Attach: ir.Attach(m.r.IntN(2))}
		return `{"type":"thinking","thinking":"s","signature":"` + ir.Seal(s) + `"}`
	}
	return fmt.Sprintf(`{"type":"thinking","thinking":"f","signature":"glm:%d"}`, m.n)
}

// history makes messages; they end with the user's, in an open tool loop or not.
func (m *maker) history(turns int) []string {
	out := []string{`{"role":"user","content":"start"}`}
	for i := range turns {
		owner := m.r.IntN(m.kinds)
		var blocks, answers []string
		if !m.chance(4) || owner == 0 {
			blocks = append(blocks, m.reasoning(owner))
		}
		if m.chance(2) {
			m.n++
			blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":"t%d"}`, m.n))
		}
		if m.chance(6) && owner > 0 {
			blocks = append(blocks, `{"type":"text","text":"\n"}`)
		}
		calls := m.r.IntN(3)
		if i == turns-1 && m.open {
			calls = 1 + m.r.IntN(2)
		}
		if calls == 0 && owner == 0 {
			blocks = append(blocks, `{"type":"text","text":"done"}`)
		}
		for range calls {
			m.n++
			blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":"c%d","name":"f","input":{"n":1.0}}`, m.n))
			result := fmt.Sprintf(`{"type":"tool_result","tool_use_id":"c%d","content":"r%d"}`, m.n, m.n)
			switch {
			case owner == 2 && m.chance(3):
				blocks = append(blocks, result) // in the assistant's message
			case owner > 0 && m.chance(4): // none
			default:
				answers = append(answers, result)
			}
		}
		if len(blocks) == 0 {
			blocks = append(blocks, m.reasoning(owner))
		}
		if m.chance(2) {
			slices.Reverse(answers)
		}
		if len(answers) == 0 || !m.open && i == turns-1 || m.chance(5) {
			m.n++
			answers = append(answers, fmt.Sprintf(`{"type":"text","text":"u%d"}`, m.n))
			if owner > 0 && m.chance(3) {
				slices.Reverse(answers) // text before results
			}
		}
		out = append(out, `{"role":"assistant","content":[`+strings.Join(blocks, ",")+`]}`, `{"role":"user","content":[`+strings.Join(answers, ", ")+`]}`)
		if m.chance(6) {
			out = append(out, `{"role":"system","content":"note"}`)
		}
	}
	return out
}

// Whatever is assembled of turns of three owners, a strict reader takes it after the repair; a second repair finds
// nothing, and a native history is not touched.
func TestRepairOfMixedHistories(t *testing.T) {
	for seed := range uint64(6000) {
		m := &maker{r: rand.New(rand.NewPCG(seed, 1)), kinds: 1 + int(seed%3), open: seed%2 == 0}
		messages := m.history(1 + int(seed/3%7))
		thinking := `{"type":"enabled","budget_tokens":2000}`
		body := `{"model":"m","messages":[` + strings.Join(messages, ",") + `],"thinking":` + thinking + `,"max_tokens":9000}`
		if m.kinds == 1 {
			if problem := judge([]byte(body), "anthropic/a"); problem != "" {
				t.Fatalf("the maker is wrong: %s\n%s", problem, body)
			}
			if got, removed := repaired(t, body, ir.RepairSealed); got != "" || removed != nil {
				t.Fatalf("seed %d: a native history was changed:\n%s\n%s", seed, body, got)
			}
		}
		for how := ir.RepairSealed; how <= ir.RepairAll; how++ {
			got, _ := repaired(t, body, how)
			if got == "" {
				got = body
			} else if again, removed := repaired(t, got, how); again != "" || removed != nil {
				t.Fatalf("seed %d, %d: the second repair changes\n%s\nto\n%s", seed, how, got, again)
			}
			problem := judge([]byte(got), "anthropic/a")
			if m.kinds == 3 && how < ir.RepairAll && strings.HasPrefix(problem, "a foreign signature glm") {
				continue // found by the next stage of the repair
			}
			if problem != "" {
				t.Fatalf("seed %d, %d: %s\n%s\n%s", seed, how, problem, body, got)
			}
			if how == ir.RepairSealed {
				for _, mark := range m.marks {
					if !strings.Contains(got, mark) {
						t.Fatalf("seed %d: own reasoning %s is gone", seed, mark)
					}
				}
			}
			if how == ir.RepairAll && strings.Contains(got, `"signature"`) {
				t.Fatalf("seed %d: reasoning is left", seed)
			}
		}
	}
}

// The encoder's requests of mixed histories pass the same reader, whoever is the target.
func TestEncodeOfMixedHistories(t *testing.T) {
	for seed := range uint64(1500) {
		m := &maker{r: rand.New(rand.NewPCG(seed, 2)), kinds: 3, open: seed%2 == 0}
		r := decode(t, `{"messages":[`+strings.Join(m.history(1+int(seed%6)), ",")+`],"thinking":{"type":"enabled","budget_tokens":2000},"max_tokens":9000}`)
		for i := range r.Turns { // as if the provider's state had come through us
			for j := range r.Turns[i].Blocks {
				if b := &r.Turns[i].Blocks[j]; b.State != nil && strings.HasPrefix(b.State.Data, "anthropic/a") {
					b.State.Owner = "anthropic/a"
				}
			}
		}
		for _, model := range []string{"claude-sonnet-4-5", "claude-opus-5-5", "glm-4.7"} {
			encode(t, r, model)
		}
	}
}

func FuzzRepair(f *testing.F) {
	for _, b := range bodies(f) {
		if len(b) < 20000 {
			f.Add(b, uint8(2))
		}
	}
	for seed := range uint64(20) {
		m := &maker{r: rand.New(rand.NewPCG(seed, 3)), kinds: 3}
		f.Add([]byte(`{"messages":[`+strings.Join(m.history(3), ",")+`]}`), uint8(seed%3))
	}
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t"}]},{"content":[{"type":"tool_result","tool_use_id":"t"}]}]}`), uint8(1))
	f.Fuzz(func(t *testing.T, body []byte, how uint8) {
		if !json.Valid(body) {
			return
		}
		out, _, err := repair(body, ir.Repair(how%3))
		if err != nil || out == nil {
			return
		}
		if !json.Valid(out) {
			t.Fatalf("%s\nbecame %s", body, out)
		}
		if again, _, err := repair(out, ir.Repair(how%3)); err != nil || again != nil {
			t.Fatalf("%s\nbecame %s\nthen %s %v", body, out, again, err)
		}
	})
}

// Requests that are made to cost much cost little: pairing does not look at each call for each result.
func TestManyCalls(t *testing.T) {
	const n = 20000
	for _, id := range []string{"", "same", "c%d"} {
		var calls, results strings.Builder
		for i := range n {
			one := id
			if strings.Contains(id, "%") {
				one = fmt.Sprintf(id, i)
			}
			fmt.Fprintf(&calls, `,{"type":"tool_use","id":"%s","name":"f","input":{}}`, one)
			fmt.Fprintf(&results, `,{"type":"tool_result","tool_use_id":"%s"}`, one)
		}
		body := `{"messages":[{"role":"assistant","content":[` + calls.String()[1:] + `]},{"role":"user","content":[` + results.String()[1:] + `]}]}`
		_, v := encode(t, decode(t, body), "claude-sonnet-4-5")
		if list, _ := dig(v, "messages", 1, "content").([]any); len(list) != n {
			t.Errorf("%q: %d results", id, len(list))
		}
		if _, _, err := repair([]byte(body), ir.RepairAll); err != nil {
			t.Error(err)
		}
	}
}
