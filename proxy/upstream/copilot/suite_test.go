package copilot_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/proxy/upstream/copilot"
	"coding-proxy/proxy/upstream/upstreamtest"
)

var _ upstreamtest.Kind = (*copilot.Provider)(nil)

const gitHubToken = "ghu_abcdefghijklmnop0123456789"

// catalogue is a list of models of all three endpoints.
const catalogue = `{"data":[
	{"id":"claude-sonnet-4.5","name":"Claude Sonnet 4.5","vendor":"Anthropic","capabilities":{"family":"claude-sonnet-4.5","type":"chat","limits":{"max_context_window_tokens":200000,"max_output_tokens":16000}},"supported_endpoints":["/chat/completions","/v1/messages"]},
	{"id":"gpt-5.1-codex","vendor":"OpenAI","supported_endpoints":["/responses"]},
	{"id":"gpt-4.1","vendor":"OpenAI","supported_endpoints":["/chat/completions"]}]}`

const (
	claudeBody = `{"model":"claude-sonnet-4.5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	codexBody  = `{"model": "gpt-5.1-codex", "input": "hi"}`
	chatBody   = `{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}`
)

func TestSuite(t *testing.T) {
	shapes := map[string]func(n int, token string) string{
		"token": func(n int, token string) string {
			return fmt.Sprintf(`{"token":%q,"refresh_in":1500,"sku":"free","chat_enabled":true}`, token)
		},
		"access_token": func(n int, token string) string { return fmt.Sprintf(`{"access_token":%q,"expires_in":1500}`, token) },
	}
	for name, body := range shapes {
		t.Run(name, func(t *testing.T) { upstreamtest.Run(t, suiteCase(body)) })
	}
}

func suiteCase(body func(n int, token string) string) upstreamtest.Case {
	return upstreamtest.Case{
		New: func(t *testing.T, env upstreamtest.Env) upstreamtest.Kind {
			base := mustURL(t, env.URL)
			return copilot.New(copilot.Options{GitHubToken: auth.NewSecret(gitHubToken), TokenURL: base.JoinPath("copilot_internal/v2/token"),
				BaseURL: base, HTTP: env.HTTP, Now: env.Now})
		},
		IsExchange: func(r *http.Request) bool { return r.URL.Path == "/copilot_internal/v2/token" },
		Grant: func(n int) (string, string) {
			token := fmt.Sprintf("tid=%08d;exp=1;sku=free:abcdef", n)
			return token, body(n, token)
		},
		Life:    30 * time.Minute,
		Refused: upstreamtest.Refusal{Status: 401, Body: `{"message":"Bad credentials: %s"}`},
		Aside: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/models" {
				return false
			}
			_, _ = strings.NewReader(catalogue).WriteTo(w) // the client may have gone
			return true
		},
		Secrets: []string{gitHubToken},
		Requests: []upstreamtest.Request{
			{Name: "messages", Dialect: "anthropic", Model: "claude-sonnet-4.5", Path: "/v1/messages", Query: "beta=true", Body: claudeBody},
			{Name: "responses", Dialect: "openai-responses", Model: "gpt-5.1-codex", Path: "/v1/responses", Body: codexBody},
			{Name: "chat", Dialect: "openai-chat", Model: "gpt-4.1", Path: "/v1/chat/completions", Body: chatBody},
			{Name: "converted", Dialect: "gemini", Model: "gpt-5.1-codex", Speaks: "openai-responses", Path: "/v1/responses", Body: codexBody},
		},
		Diagnose: func(k upstreamtest.Kind) any { return k.(*copilot.Provider).Diagnose() },
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
