package demo_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

const (
	copilotPath = "/copilot_internal/v2/token"
	copilotUser = `{"model":"claude-sonnet-4.5","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
)

func newCopilot(t *testing.T, o demo.CopilotOptions) (*demo.Copilot, string) {
	t.Helper()
	c := demo.NewCopilot(o)
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	return c, server.URL
}

// copilotCall sends one request. lines change the header of a good one: "name: value" sets, "name:" removes.
func copilotCall(t *testing.T, method, url, credential, body string, lines ...string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Authorization": credential, "User-Agent": "a/1", "Editor-Version": "a/1", "Editor-Plugin-Version": "a/1", "X-Github-Api-Version": "2025-04-01",
		"Copilot-Integration-Id": "vscode-chat", "Openai-Intent": "conversation-agent", "X-Request-Id": "1", "X-Initiator": "user"} {
		request.Header.Set(name, value)
	}
	if strings.HasSuffix(url, "/messages") {
		request.Header.Set("Anthropic-Version", "2023-06-01")
	}
	for _, line := range lines {
		if name, value, _ := strings.Cut(line, ":"); value == "" {
			request.Header.Del(name)
		} else {
			request.Header.Set(name, strings.TrimSpace(value))
		}
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// copilotToken exchanges a token.
func copilotToken(t *testing.T, url string) string {
	t.Helper()
	status, body := copilotCall(t, http.MethodGet, url+copilotPath, "token ghu_a", "")
	var answer struct {
		Token       string
		AccessToken string `json:"access_token"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 || answer.Token+answer.AccessToken == "" {
		t.Fatalf("the exchange: %d %s", status, body)
	}
	return "Bearer " + answer.Token + answer.AccessToken
}

func TestCopilotIsStrict(t *testing.T) {
	_, url := newCopilot(t, demo.CopilotOptions{})
	token := copilotToken(t, url)
	const (
		codex  = `{"model":"gpt-5.1-codex","input":[{"role":"user","content":"hi"}]}`
		result = `{"model":"gpt-4.1","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"a","arguments":"{}"}}]},{"role":"tool","tool_call_id":"c","content":"x"}]}`
		image  = `{"model":"gpt-4.1","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]}]}`
	)
	for name, test := range map[string]struct {
		path, body string
		lines      []string
		status     int
		says       string
	}{
		"messages":              {"/v1/messages", copilotUser, nil, 200, "end_turn"},
		"responses":             {"/responses", codex, nil, 200, "completed"},
		"chat":                  {"/chat/completions", strings.Replace(result, "x", "y", 1), []string{"X-Initiator: agent"}, 200, "stop"},
		"embeddings":            {"/embeddings", `{"model":"e","input":"x"}`, nil, 200, "embedding"},
		"a version in the path": {"/v1/chat/completions", result, nil, 404, ""},
		"another path":          {"/v1/complete", `{}`, nil, 404, ""},
		"no initiator":          {"/v1/messages", copilotUser, []string{"X-Initiator:"}, 400, "invalid initiator"},
		"a user's as agent's":   {"/v1/messages", copilotUser, []string{"X-Initiator: agent"}, 400, "invalid initiator"},
		"an agent's as user's":  {"/chat/completions", result, nil, 400, "invalid initiator"},
		"image unsaid":          {"/chat/completions", image, nil, 400, "Vision"},
		"image":                 {"/chat/completions", image, []string{"Copilot-Vision-Request: true"}, 200, "stop"},
		"no image":              {"/v1/messages", copilotUser, []string{"Copilot-Vision-Request: true"}, 400, "Vision"},
		"no editor":             {"/v1/messages", copilotUser, []string{"Editor-Version:"}, 400, "IDE auth"},
		"no integration":        {"/v1/messages", copilotUser, []string{"Copilot-Integration-Id:"}, 400, "Integration"},
		"no request id":         {"/v1/messages", copilotUser, []string{"X-Request-Id:"}, 400, "Request-Id"},
		"another's key":         {"/v1/messages", copilotUser, []string{"X-Api-Key: x"}, 400, "unexpected"},
		"a cookie":              {"/v1/messages", copilotUser, []string{"Cookie: x"}, 400, "unexpected"},
		"Anthropic's elsewhere": {"/responses", codex, []string{"Anthropic-Beta: x"}, 400, "unexpected"},
		"Anthropic's":           {"/v1/messages", copilotUser, []string{"Anthropic-Beta: x"}, 200, ""},
		"no token":              {"/v1/messages", copilotUser, []string{"Authorization:"}, 400, "badly formatted"},
		"another token":         {"/v1/messages", copilotUser, []string{"Authorization: Bearer x"}, 401, "expired"},
		"the GitHub token":      {"/v1/messages", copilotUser, []string{"Authorization: Bearer ghu_a"}, 401, "expired"},
		"a direct token":        {"/v1/messages", copilotUser, []string{"Authorization: Bearer gho_a"}, 200, ""},
		"another model":         {"/v1/messages", strings.Replace(copilotUser, "sonnet", "opus", 1), nil, 400, "not supported"},
		"another endpoint":      {"/chat/completions", strings.Replace(result, "gpt-4.1", "gpt-5.1-codex", 1), []string{"X-Initiator: agent"}, 400, "unsupported_api_for_model"},
		"not in the dialect":    {"/v1/messages", `{"model":"claude-sonnet-4.5","messages":[{"role":"user","content":"x"}]}`, nil, 400, "max_tokens"},
		"no JSON":               {"/v1/messages", `{`, nil, 400, "parse"},
	} {
		if status, body := copilotCall(t, http.MethodPost, url+test.path, token, test.body, test.lines...); status != test.status || !strings.Contains(body, test.says) {
			t.Errorf("%s: %d %s, want %d and %q", name, status, body, test.status, test.says)
		}
	}
	if status, body := copilotCall(t, http.MethodGet, url+"/models", token, ""); status != 200 || strings.Count(body, `"supported_endpoints"`) != 3 {
		t.Errorf("models: %d %s", status, body)
	}
}

func TestCopilotMisbehaves(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	c, url := newCopilot(t, demo.CopilotOptions{Answers: demo.Options{Now: func() time.Time { return now }}, GitHubTokens: []string{"ghu_a"}})
	token := copilotToken(t, url)
	ask := func(what string, status int, says string) {
		t.Helper()
		if got, body := copilotCall(t, http.MethodPost, url+"/v1/messages", token, copilotUser); got != status || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", what, got, body)
		}
	}
	ask("good", 200, "")
	c.Refuse(401, 403)
	c.Misdirect(2)
	for _, status := range []int{401, 403, 421, 421, 200} {
		ask("on command", status, "")
	}
	c.Unknown("claude-sonnet-4.5")
	ask("unknown", 400, "not supported")
	ask("still unknown", 400, "not supported")
	copilotCall(t, http.MethodGet, url+"/models", token, "")
	ask("known", 200, "")
	c.SetModels(demo.CopilotModel{ID: "claude-sonnet-4.5", Disabled: true})
	ask("switched off", 400, "not supported")
	c.SetModels(demo.CopilotModel{ID: "claude-sonnet-4.5"})
	now = now.Add(31 * time.Minute)
	ask("over", 401, "expired")
	token = copilotToken(t, url)
	ask("renewed", 200, "")
	c.Expire()
	ask("ended", 401, "expired")

	exchange := func(what, credential string, status int, says string) {
		t.Helper()
		if got, body := copilotCall(t, http.MethodGet, url+copilotPath, credential, ""); got != status || !strings.Contains(body, says) {
			t.Errorf("%s: %d %s", what, got, body)
		}
	}
	exchange("another token", "token ghu_b", 401, "Bad credentials")
	exchange("as bearer", "Bearer ghu_a", 401, "Bad credentials")
	c.FlagsOnly(true)
	exchange("abilities", "token ghu_a", 403, "code_quote_enabled")
	c.FlagsOnly(false)
	c.FailExchange(demo.CopilotFailure{Status: 503, Body: "away", Header: http.Header{"retry-after": {"3"}}})
	exchange("failing", "token ghu_a", 503, "away")
	c.FailExchange(demo.CopilotFailure{})
	if status, body := copilotCall(t, http.MethodGet, url+copilotPath, "token ghu_a", "", "Editor-Plugin-Version:"); status != 400 || len(c.Complaints()) != 1 {
		t.Errorf("no plugin: %d %s, %v", status, body, c.Complaints())
	}
	hold := demo.HoldAt(0)
	c.HoldExchange(hold)
	done := make(chan struct{})
	go func() {
		defer close(done)
		exchange("slow", "token ghu_a", 200, "refresh_in")
	}()
	<-hold.Reached()
	hold.Release()
	<-done
	if n := c.Exchanges(); n != 8 {
		t.Errorf("%d exchanges", n)
	}
	if err := c.WaitArrived(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if arrived, served := c.Arrived(), c.Requests(); len(served) != 4 || len(arrived) <= len(served) || arrived[0].Path != copilotPath {
		t.Errorf("%d arrived, %d served", len(arrived), len(served))
	}
}

func TestCopilotOtherShape(t *testing.T) {
	_, url := newCopilot(t, demo.CopilotOptions{OtherShape: true, NoEndpoint: true})
	status, body := copilotCall(t, http.MethodGet, url+copilotPath, "token ghu_a", "")
	if status != 200 || !strings.Contains(body, `"access_token"`) || !strings.Contains(body, `"expires_in":1800`) || strings.Contains(body, "endpoints") {
		t.Errorf("%d %s", status, body)
	}
}
