package demo_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// fuzz sends bodies to a path: whatever comes, the answer is JSON, a 200 or a refusal that says why, and one body is
// always judged the same.
func fuzz(f *testing.F, dialect, path string) {
	for _, c := range bodies(f, dialect) {
		f.Add(c.body)
	}
	p := demo.New(demo.Options{CheckSignatures: dialect == "gemini", ReasoningContent: true})
	f.Fuzz(func(t *testing.T, body string) {
		status, answer := judge(p, dialect, path, body)
		if again, _ := judge(p, dialect, path, body); again != status {
			t.Fatalf("%d, then %d", status, again)
		}
		if status == http.StatusOK && !json.Valid([]byte(body)) {
			t.Fatalf("took what is no JSON: %q", body)
		}
		streams := status == http.StatusOK && !json.Valid([]byte(answer))
		if streams && !strings.HasPrefix(answer, "event: ") && !strings.HasPrefix(answer, "data: ") {
			t.Fatalf("%d %s", status, answer)
		}
		if status != http.StatusOK && (status < 400 || status >= 500 || !strings.Contains(answer, `"message":"`) || strings.Contains(answer, `"message":""`)) {
			t.Fatalf("%d %s", status, answer)
		}
	})
}

func judge(p *demo.Provider, dialect, path, body string) (int, string) {
	request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	sender(dialect)(request.Header)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

func FuzzMessages(f *testing.F)  { fuzz(f, "anthropic", "/v1/messages") }
func FuzzChat(f *testing.F)      { fuzz(f, "openai-chat", chatPath) }
func FuzzResponses(f *testing.F) { fuzz(f, "openai-responses", responsesPath) }
func FuzzGemini(f *testing.F)    { fuzz(f, "gemini", geminiPath) }
