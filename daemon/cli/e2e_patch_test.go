//go:build linux

package cli_test

import (
	"os"
	"path/filepath"
	"testing"

	"coding-proxy/proxy/demo"
)

// patch is what Codex's free-text tool takes.
const patch = `*** Begin Patch
*** Add File: new.txt
+"stripes" \ and spots
*** End Patch
`

// testPatch: Codex has a tool whose input is free text with a grammar; two of the dialects know only objects.
func (c *e2eClients) testPatch(t *testing.T) {
	for _, dialect := range e2eDialects {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			provider := e2eSpeak(t, "k1", dialect)
			call := demo.Tool{Name: "apply_patch", Custom: patch}
			if dialect == "openai-chat" {
				call = tool("apply_patch", "input", patch) // the model there is of a vendor that knows no such tools
			}
			provider.Push(demo.Step{Thinking: "A patch.", Tools: []demo.Tool{call}}, demo.Step{Text: e2eAnswer})
			u := c.newUser(t, c.start(t, "", provider))
			if run := u.codex(t, 0, nil, e2ePrompt); run.said != e2eAnswer {
				t.Errorf("the user was told %q: %s", run.said, run.stdout)
			}
			written, err := os.ReadFile(filepath.Join(u.dir, "new.txt"))
			if want := "\"stripes\" \\ and spots\n"; err != nil || string(written) != want {
				t.Errorf("the patch wrote %q, %v", written, err)
			}
			if provider.generated() != 2 {
				t.Errorf("%d requests at the provider", provider.generated())
			}
			u.proxy.wantOutcomes(t, "ok", "ok")
		})
	}
}
