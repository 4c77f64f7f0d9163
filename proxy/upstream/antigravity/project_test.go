package antigravity_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/upstream/antigravity"
)

func TestProject(t *testing.T) {
	for _, tc := range []struct {
		name     string
		service  demo.CodeAssistOptions
		onboards int
	}{
		{"as text", demo.CodeAssistOptions{}, 0},
		{"as an object", demo.CodeAssistOptions{AsObject: true}, 0},
		{"made at once", demo.CodeAssistOptions{Onboarding: 1, AsObject: true}, 1},
		{"made in the end", demo.CodeAssistOptions{Onboarding: 5}, 5},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, 1, tc.service, antigravity.Options{})
			start := time.Now()
			if status, answer, _, f := g.ask(plainPath, "", body); status != 200 {
				t.Errorf("%s: %d %s %v", tc.name, status, answer, f)
			}
			if n := g.sim[0].Count("onboardUser"); n != tc.onboards || time.Since(start) != time.Duration(max(n-1, 0))*2*time.Second {
				t.Errorf("%s: %d calls in %v", tc.name, n, time.Since(start))
			}
			if d := g.kind.Diagnose(); d.Project != "demo-project" || d.Problem != "" {
				t.Errorf("%s: the diagnosis: %+v", tc.name, d)
			}
		})
	}
}

func TestProjectIsNotFound(t *testing.T) {
	unavailable := demo.AssistStep{Status: 503}
	for _, tc := range []struct {
		name    string
		service demo.CodeAssistOptions
		load    []demo.AssistStep
		status  int
		word    string
		calls   int // of loadCodeAssist
	}{
		{"never made", demo.CodeAssistOptions{Onboarding: 9}, nil, 503, "still setting this account up", 1},
		{"not for this account", demo.CodeAssistOptions{Ineligible: "UNSUPPORTED_LOCATION"}, nil, 403, "(UNSUPPORTED_LOCATION)", 1},
		{"away", demo.CodeAssistOptions{}, []demo.AssistStep{unavailable}, 503, "could not be asked", 1},
		{"not this", demo.CodeAssistOptions{}, []demo.AssistStep{{Status: 400, Reason: "NOT_THIS"}}, 503, "refuses to tell the account's project (NOT_THIS)", 1},
		{"a reason with words", demo.CodeAssistOptions{}, []demo.AssistStep{{Status: 403, Reason: "see https://x"}}, 403, "refuses to tell the account's project", 1},
		{"verification", demo.CodeAssistOptions{}, []demo.AssistStep{{Status: 403, Reason: "VALIDATION_REQUIRED"}}, 403, "verified", 1},
		{"too often", demo.CodeAssistOptions{}, []demo.AssistStep{{Status: 429}}, 429, "limits how often", 1},
		{"a page", demo.CodeAssistOptions{}, []demo.AssistStep{{Raw: "<p>"}}, 503, "could not be asked", 1},
		{"no tier", demo.CodeAssistOptions{}, []demo.AssistStep{{Raw: "{}"}}, 503, "set the key's project", 1},
		{"unreadable", demo.CodeAssistOptions{}, []demo.AssistStep{{Raw: "[]"}}, 503, "could not be read", 1},
		{"token refused", demo.CodeAssistOptions{}, []demo.AssistStep{{Status: 401}, {Status: 401}}, 401, "refuses the account's token", 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, 1, tc.service, antigravity.Options{})
			g.sim[0].Push("loadCodeAssist", tc.load...)
			_, _, tries, f := g.ask(plainPath, "", body)
			if f == nil || tries != 0 || f.Status != tc.status || !strings.Contains(f.Message, tc.word) || strings.Contains(f.Message, "x.test") || f.Kind == "" || f.Type == "" {
				t.Fatalf("%s: %+v", tc.name, f)
			}
			if f.Reset <= 0 && tc.name != "verification" {
				t.Errorf("%s: no word of when to come again", tc.name)
			}
			// The next request does not ask again at once; a later one does.
			if _, _, _, f := g.ask(plainPath, "", body); f == nil || g.sim[0].Count("loadCodeAssist") != tc.calls {
				t.Errorf("%s: %d calls", tc.name, g.sim[0].Count("loadCodeAssist"))
			}
			if d := g.kind.Diagnose(); !strings.Contains(d.Problem, tc.word) {
				t.Errorf("%s: the diagnosis: %+v", tc.name, d)
			}
			time.Sleep(time.Minute)
			g.ask(plainPath, "", body)
			if got := g.sim[0].Count("loadCodeAssist"); got != tc.calls+1 {
				t.Errorf("%s: %d calls after a minute", tc.name, got)
			}
		})
	}
}

// TestProjectToken: a token that is refused in the search is replaced, once.
func TestProjectToken(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{})
	g.sim[0].Push("loadCodeAssist", demo.AssistStep{Status: 401})
	if status, _, tries, f := g.ask(plainPath, "", body); status != 200 || tries != 1 || g.id.Counts().Refresh != 2 {
		t.Errorf("%d after %d tries, %v, %d exchanges", status, tries, f, g.id.Counts().Refresh)
	}
}

// TestProjectHosts: the search tries the addresses in turn.
func TestProjectHosts(t *testing.T) {
	g := newRig(t, 3, demo.CodeAssistOptions{}, antigravity.Options{})
	g.sim[0].Push("loadCodeAssist", demo.AssistStep{Status: 404, Raw: "<p>"})
	delete(g.hosts, "b.test")
	if status, _, _, f := g.ask(plainPath, "", body); status != 200 {
		t.Errorf("%d %v", status, f)
	}
	if g.sim[2].Count("loadCodeAssist") != 1 || g.sim[2].Count("generateContent") != 1 {
		t.Error("the address that works is not the one that is asked")
	}
}

// TestProjectOnce: many requests at once search once, and one that leaves ends it for nobody.
func TestProjectOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, demo.CodeAssistOptions{Onboarding: 3}, antigravity.Options{})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if status, _, _, f := g.ask(plainPath, "", body); status != 200 {
					t.Errorf("%d %v", status, f)
				}
			})
		}
		wg.Wait()
		if g.sim[0].Count("loadCodeAssist") != 1 || g.sim[0].Count("onboardUser") != 3 {
			t.Errorf("%d and %d calls", g.sim[0].Count("loadCodeAssist"), g.sim[0].Count("onboardUser"))
		}
	})
}

func TestProjectIsNotWaitedForByWhoLeaves(t *testing.T) {
	g := newRig(t, 1, demo.CodeAssistOptions{}, antigravity.Options{})
	hold := demo.HoldAt(0)
	g.sim[0].Push("loadCodeAssist", demo.AssistStep{Hold: hold})
	stays := make(chan *ir.Fault)
	go func() {
		_, _, _, f := g.ask(plainPath, "", body)
		stays <- f
	}()
	<-hold.Reached()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, plainPath, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if f := g.kind.Sign(req, 0); f == nil || f.Status != http.StatusGatewayTimeout || f.Reset != 0 {
		t.Errorf("who leaves is told %+v", f)
	}
	hold.Release()
	if f := <-stays; f != nil {
		t.Errorf("who stays is told %+v", f)
	}
}
