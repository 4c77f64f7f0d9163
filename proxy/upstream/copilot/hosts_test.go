package copilot

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
	"coding-proxy/proxy/ir"
)

func TestDefaultHosts(t *testing.T) {
	for _, test := range []struct {
		token, kind string
		want        []string
	}{
		{"https://api.github.com/copilot_internal/v2/token", "", []string{"https://api.githubcopilot.com", "https://api.individual.githubcopilot.com"}},
		{"https://api.github.com/copilot_internal/v2/token", " Individual ", []string{"https://api.githubcopilot.com", "https://api.individual.githubcopilot.com"}},
		{"https://api.github.com/copilot_internal/v2/token", "Business", []string{"https://api.business.githubcopilot.com", "https://api.githubcopilot.com"}},
		{"https://api.github.com/copilot_internal/v2/token", "enterprise", []string{"https://api.enterprise.githubcopilot.com", "https://api.githubcopilot.com"}},
		{"https://api.firm.ghe.com/copilot_internal/v2/token", "enterprise", []string{"https://copilot-api.firm.ghe.com"}},
		{"https://relay.example/token", "business", []string{"https://api.business.githubcopilot.com", "https://api.githubcopilot.com"}},
	} {
		var got []string
		for _, u := range defaultHosts(&Options{TokenURL: parse(t, test.token), AccountType: test.kind}) {
			got = append(got, u.String())
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s, %q: %v", test.token, test.kind, got)
		}
	}
	if d := New(Options{}).Diagnose(); d.TokenURL != "https://api.github.com/copilot_internal/v2/token" || d.BaseURL != "https://api.githubcopilot.com" || d.AccountType != "individual" {
		t.Errorf("%+v", d)
	}
}

// The exchange's address counts, unless the configuration names one.
func TestAddressOfTheExchange(t *testing.T) {
	h := newHosts(&Options{TokenURL: parse(t, "https://api.github.com/x")})
	if text := h.use(parse(t, "https://api.one.githubcopilot.com")); text == "" {
		t.Error("it does not count")
	}
	if base, _ := h.pick(); base.Host != "api.one.githubcopilot.com" {
		t.Errorf("it is %s", base)
	}
	h.use(nil)
	if base, _ := h.pick(); base.Host != defaultHost {
		t.Errorf("then %s", base)
	}
	h = newHosts(&Options{TokenURL: parse(t, "https://api.github.com/x"), BaseURL: parse(t, "https://mine.example")})
	if text := h.use(parse(t, "https://api.one.githubcopilot.com")); text != "" {
		t.Error("it counts")
	}
	if base, _ := h.pick(); base.Host != "mine.example" {
		t.Errorf("it is %s", base)
	}
}

// twoHosts are an account without an address of its own, and the names under which both candidates are reached.
func twoHosts(t *testing.T, first, second func(r *http.Request) bool) (a *account, one, two string) {
	t.Helper()
	a = newAccount(t, demo.CopilotOptions{NoEndpoint: true}, nil)
	list := func(wrong func(r *http.Request) bool) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if wrong(r) {
				w.WriteHeader(http.StatusMisdirectedRequest)
				return
			}
			a.demo.ServeHTTP(w, r)
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	u1, u2 := parse(t, list(first)), parse(t, list(second))
	a.hosts.defaults = []*url.URL{u1, u2}
	a.hosts.candidates = a.hosts.defaults
	return a, u1.Host, u2.Host
}

func always(*http.Request) bool { return true }
func never(*http.Request) bool  { return false }

// reused is a host that takes requests on connections of their own only.
func reused(r *http.Request) bool { return r.Header.Get("Connection") != "close" }

func TestMisdirected(t *testing.T) {
	for name, test := range map[string]struct {
		first, second func(r *http.Request) bool
		status        int
		sends, next   func(one, two string) []string
	}{
		"the connection was": {reused, always, 200,
			func(one, two string) []string { return []string{one, one + "!"} }, func(one, two string) []string { return []string{one, one + "!"} }},
		"the host was": {always, never, 200,
			func(one, two string) []string { return []string{one, one + "!", two + "!"} }, func(one, two string) []string { return []string{two} }},
		"all are": {always, always, 421,
			func(one, two string) []string { return []string{one, one + "!", two + "!"} }, func(one, two string) []string { return []string{one, one + "!", two + "!"} }},
	} {
		a, one, two := twoHosts(t, test.first, test.second)
		if r := a.ask("/v1/messages", askClaude); r.status != test.status || !slices.Equal(r.sends, test.sends(one, two)) {
			t.Errorf("%s: status %d, sent to %v", name, r.status, r.sends)
		}
		if r := a.ask("/v1/messages", askClaude); r.status != test.status || !slices.Equal(r.sends, test.next(one, two)) {
			t.Errorf("%s, the next: status %d, sent to %v", name, r.status, r.sends)
		}
		if d := a.Diagnose(); d.Misdirected == nil || !d.Misdirected.Equal(noon) || len(d.Candidates) != 2 {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// An address that the configuration or the exchange names is not left.
func TestMisdirectedStays(t *testing.T) {
	for name, change := range map[string]func(o *Options){
		"exchange": nil,
		"explicit": func(o *Options) { o.BaseURL = o.TokenURL.JoinPath("../../..") },
	} {
		a := newAccount(t, demo.CopilotOptions{}, change)
		a.demo.Misdirect(9)
		host := a.base.Host
		if r := a.ask("/v1/messages", askClaude); r.status != 421 || !slices.Equal(r.sends, []string{host, host + "!"}) {
			t.Errorf("%s: status %d, sent to %v", name, r.status, r.sends)
		}
	}
}

// A token that is refused behind a 421 is still exchanged once.
func TestMisdirectedThenRefused(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.wantGood("/v1/messages", askClaude)
	a.demo.Refuse(421, 401)
	if r := a.wantGood("/v1/messages", askClaude); len(r.sends) != 3 || a.demo.Exchanges() != 2 {
		t.Errorf("sent to %v, %d exchanges", r.sends, a.demo.Exchanges())
	}
	a.advance(5 * time.Minute) // tokens that are refused one after the other are a reason to wait
	a.demo.Refuse(403)
	if r := a.wantGood("/v1/messages", askClaude); len(r.sends) != 2 || a.demo.Exchanges() != 3 {
		t.Errorf("sent to %v, %d exchanges", r.sends, a.demo.Exchanges())
	}
	a.advance(5 * time.Minute)
	a.demo.Refuse(421, 401, 401)
	if r := a.ask("/v1/messages", askClaude); r.status != 401 || len(r.sends) != 3 {
		t.Errorf("status %d, sent to %v", r.status, r.sends)
	}
}

// Many that are misdirected at once all find the way.
func TestMisdirectedCrowd(t *testing.T) {
	a, _, two := twoHosts(t, always, never)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if r := a.ask("/v1/messages", askClaude); r.status != 200 {
				t.Errorf("status %d, sent to %v", r.status, r.sends)
			}
		})
	}
	wg.Wait()
	if r := a.ask("/v1/messages", askClaude); !slices.Equal(r.sends, []string{two}) {
		t.Errorf("then to %v", r.sends)
	}
}

// However the hosts move, one attempt ends.
func TestTriesEnd(t *testing.T) {
	a, _, _ := twoHosts(t, always, always)
	req := &http.Request{URL: parse(t, "http://elsewhere.example"), Header: http.Header{}}
	for try, want := range []bool{true, true, true, false, false} {
		if got := a.Again(req, try, &ir.Fault{Status: 421}); got != want {
			t.Errorf("try %d: %v", try, got)
		}
	}
	if a.Again(req, 0, nil) {
		t.Error("without a fault")
	}
}
