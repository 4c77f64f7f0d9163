//go:build linux

package cli_test

import (
	"testing"

	"coding-proxy/proxy/demo"
)

// What the simulated accounts sign in with. checkSecrets looks for it.
const (
	e2eGitHubToken  = "ghu_sk-sim-0123456789"
	e2eRefreshToken = "sk-sim-refresh"
	e2eClientSecret = "sk-sim-client-secret"
)

// testProviders: clients hold their conversation before providers that need more than a key. Copilot is asked at each of its
// endpoints by one of them.
func (c *e2eClients) testProviders(t *testing.T) {
	matrix := &e2eMatrix{cells: map[[2]string][]e2eMark{}}
	for _, v := range []struct {
		agent    *e2eAgent
		endpoint string // of Copilot
		dialect  string // that is spoken there
	}{
		{claudeAgent(), "/v1/messages", "anthropic"},
		{codexAgent(), "/responses", "openai-responses"},
		{geminiAgent(), "/chat/completions", "openai-chat"},
		{opencodeAgents()[0], "/chat/completions", "openai-chat"},
	} {
		t.Run(v.agent.name+" with Copilot", func(t *testing.T) {
			t.Parallel()
			hub, provider := e2eCopilot(t, v.endpoint, v.dialect)
			c.testConversationBefore(t, matrix, v.agent, v.dialect, provider)
			if list, n := hub.Complaints(), hub.Exchanges(); len(list) > 0 || n < 1 || n > 2 { // one a key
				t.Errorf("%d exchanges, complaints %q", n, list)
			}
		})
		t.Run(v.agent.name+" with Antigravity", func(t *testing.T) {
			t.Parallel()
			identity, provider := e2eAntigravity(t)
			c.testConversationBefore(t, matrix, v.agent, "gemini", provider)
			if n := identity.Counts(); n.Refresh < 1 || n.Refresh > 2 || n.Refused > 0 {
				t.Errorf("exchanges: %+v", n)
			}
		})
	}
}

// e2eAnswers are what a model is like that thinks.
func e2eAnswers(dialect string) demo.Options {
	return demo.Options{Name: "k1", CheckSignatures: true, ReplayReasoning: true, Dialects: []string{dialect}, Models: []string{e2eModels[dialect]}}
}

// e2eCopilot starts a simulated Copilot that has one model, at one endpoint.
func e2eCopilot(t *testing.T, endpoint, dialect string) (*demo.Copilot, *e2eProvider) {
	t.Helper()
	model := e2eModels[dialect]
	c := demo.NewCopilot(demo.CopilotOptions{
		Answers: e2eAnswers(dialect), GitHubTokens: []string{e2eGitHubToken}, Models: []demo.CopilotModel{{ID: model, Endpoints: []string{endpoint}}},
	})
	c.Always(demo.Step{Text: e2eAnswer})
	t.Cleanup(func() { e2eKeepBodies(t, "copilot", c.Provider) })
	return c, &e2eProvider{c.Provider, e2eKey{
		ID: "k1", Provider: "copilot", GitHubToken: e2eGitHubToken, TokenURL: serve(t, c) + "/copilot_internal/v2/token",
		DailyLimit: 1_000_000_000, Models: map[string]string{"*": model},
	}}
}

// e2eAntigravity starts a simulated Code Assist service and the identity provider of its tokens.
func e2eAntigravity(t *testing.T) (*demo.Identity, *e2eProvider) {
	t.Helper()
	identity := demo.NewIdentity(demo.IdentityOptions{ClientID: "app", ClientSecret: e2eClientSecret, RefreshTokens: []string{e2eRefreshToken}})
	service := demo.NewCodeAssist(demo.CodeAssistOptions{Valid: identity.Valid, Provider: demo.New(e2eAnswers("gemini"))})
	service.Provider().Always(demo.Step{Text: e2eAnswer})
	t.Cleanup(func() { e2eKeepBodies(t, "antigravity", service.Provider()) })
	return identity, &e2eProvider{service.Provider(), e2eKey{
		ID: "k1", Provider: "antigravity", ClientID: "app", ClientSecret: e2eClientSecret, RefreshToken: e2eRefreshToken,
		TokenURL: serve(t, identity) + "/token", BaseURL: serve(t, service.Host()),
		DailyLimit: 1_000_000_000, Models: map[string]string{"*": e2eModels["gemini"]},
	}}
}
