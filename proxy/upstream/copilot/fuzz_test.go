package copilot

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
)

// Whatever an exchange answers: there is a token that can be sent and lives for a while, or a reason without secrets.
func FuzzGrant(f *testing.F) {
	for _, body := range []string{`{"token":"tid=1;exp=2","refresh_in":1500,"expires_at":1796040000,"endpoints":{"api":"https://api.githubcopilot.com"},"sku":"x","chat_enabled":true}`,
		`{"access_token":"a","expires_in":1800}`, `{"chat_enabled":false}`, `{"message":"Bad credentials ghu_0123456789abcdef"}`, `<html>`, ``, `{"token":"a","expires_at":-1e999}`, `{"token":"a","refresh_in":"9"}`} {
		f.Add(200, []byte(body))
		f.Add(401, []byte(body))
	}
	f.Fuzz(func(t *testing.T, status int, body []byte) {
		g, problem := readGrant(status, body, noon)
		if problem != nil {
			text := scrub(problem.Message, auth.NewSecret(exchanged))
			if problem.Reason == "" || text == "" || len([]rune(text)) > 400 || strings.ContainsAny(text, "\r\n\x00") || strings.Contains(text, exchanged) {
				t.Errorf("%q: %+v", body, problem)
			}
			return
		}
		token := g.token.Reveal()
		if token == "" || strings.ContainsAny(token, " \r\n\t") || g.life <= 0 || g.life > maxLife || g.renew < 0 || g.renew >= g.life || g.shown() <= 0 && g.life > time.Second || g.shown() > g.life {
			t.Errorf("%q: life %v, renew %v, shown %v", body, g.life, g.renew, g.shown())
		}
		if g.base != nil && g.base.Host == "" {
			t.Errorf("%q: base %v", body, g.base)
		}
	})
}

// Whatever the list says: names that can be asked for, and resolving them finds themselves.
func FuzzModels(f *testing.F) {
	f.Add([]byte(`{"data":[{"id":"claude-sonnet-4.5","supported_endpoints":["/v1/messages"]},{"id":"gpt-5"}]}`), "claude-sonnet-4-5-20250929")
	f.Add([]byte(`{"data":[{"id":"a","capabilities":{"limits":{"max_output_tokens":1}},"policy":{"state":"disabled"}}]}`), "x/a@b")
	f.Add([]byte(`{"data":[]}`), "")
	f.Fuzz(func(t *testing.T, body []byte, model string) {
		list, err := readModels(body)
		if err != nil {
			return
		}
		for _, m := range list {
			if m.ID == "" || strings.ContainsAny(m.ID, "\r\n\x00") {
				t.Errorf("name %q", m.ID)
			}
			if name, entry := resolve(list, m.ID); name != m.ID || entry == nil {
				t.Errorf("%q becomes %q", m.ID, name)
			}
		}
		name, entry := resolve(list, model)
		if entry != nil && entry.ID != model && identify(entry.ID).family != identify(model).family {
			t.Errorf("%q became %q, another family", model, name)
		}
		if again, _ := resolve(list, name); entry != nil && again != name {
			t.Errorf("%q became %q, then %q", model, name, again)
		}
		switch endpointFor(entry, name, "gemini") {
		case anthropic, openAIChat, openAIResponses:
		default:
			t.Errorf("%q has no endpoint", name)
		}
	})
}

// The initiator is what a plain reading of the body says.
func FuzzTurn(f *testing.F) {
	for _, body := range []string{askClaude, askCodex, askChat, `{"messages":[{"role":"user","content":[{"type":"tool_result"},{"type":"text"}]}]}`,
		`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]}`, `{"input":[{"type":"function_call_output"},{"role":"developer"}]}`,
		`{"messages":[{"role":"assistant"}],"messages":[{"role":"user"}]}`, `{"messages":[{"role":"assistant"},{"r\u006fle":"user"}]}`, `{"input":"x"}`, `[]`} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, text string) {
		body := []byte(text)
		for _, dialect := range []string{anthropic, openAIChat, openAIResponses} {
			got := readTurn(dialect, body)
			if got.initiator != byUser && got.initiator != byAgent {
				t.Fatalf("initiator %q", got.initiator)
			}
			var plain struct {
				Messages, Input []struct{ Role, Type any }
			}
			// Names are compared exactly here, without regard to case there, and doubles merge there: such bodies are left out.
			if dialect == anthropic || json.Unmarshal(body, &plain) != nil || hasOddNames(body) {
				continue
			}
			list := plain.Messages
			if dialect == openAIResponses {
				list = plain.Input
			}
			want := byUser
			for _, m := range list {
				switch m.Role {
				case "system", "developer":
				case "user":
					want = byUser
				default:
					want = byAgent
				}
			}
			if got.initiator != want {
				t.Errorf("%s %s: %s, want %s", dialect, body, got.initiator, want)
			}
		}
	})
}

// hasOddNames reports whether the body may have names that encoding/json takes for others, or the same one twice.
func hasOddNames(body []byte) bool {
	lower := bytes.ToLower(body)
	for _, name := range []string{"role", "messages", "input"} {
		exact := bytes.Count(body, []byte(`"`+name+`":`))
		if bytes.Count(lower, []byte(name)) != exact || name != "role" && exact > 1 {
			return true
		}
	}
	return bytes.Contains(body, []byte(`\u`)) || bytes.Count(body, []byte(`"role"`)) > bytes.Count(body, []byte("{")) || bytes.Contains(body, []byte("ſ"))
}
