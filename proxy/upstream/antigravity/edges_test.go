package antigravity_test

import (
	"testing"

	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/upstream/antigravity"
)

// A token that has ended is renewed also where an address had failed before it.
func TestTokenEndsBehindAFailedAddress(t *testing.T) {
	g := newRig(t, 2, demo.CodeAssistOptions{}, antigravity.Options{})
	g.service.Provider().Always(demo.Step{Text: "hello world"})
	if status, _, _, f := g.ask(plainPath, "", body); status != 200 {
		t.Fatal(status, f)
	}
	g.id.Expire()
	g.sim[0].Push("", demo.AssistStep{Status: 500})
	if status, _, tries, f := g.ask(plainPath, "", body); status != 200 || tries != 3 {
		t.Errorf("status %d after %d tries: %v", status, tries, f)
	}
}

// What is refused of a token that was fetched during the search is refused of that one.
func TestProjectScopeBehindAnEndedToken(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{})
	g.sim[0].Push("loadCodeAssist", demo.AssistStep{Status: 401}, demo.AssistStep{Status: 403, Reason: "ACCESS_TOKEN_SCOPE_INSUFFICIENT"})
	g.ask(plainPath, "", body)
	if d := g.kind.Diagnose(); !d.Token.NeedsReauth || d.Token.ErrorKind != "insufficient_scope" {
		t.Errorf("%+v", d.Token)
	}
}
