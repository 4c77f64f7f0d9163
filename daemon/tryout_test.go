package daemon

import (
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"coding-proxy/daemon/config"
)

// lister is a scripted provider that keeps what was asked of it: method, address and the header of its kind.
type lister struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newLister(t *testing.T, answer http.HandlerFunc) *lister {
	p := &lister{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		line := r.Method + " " + r.URL.RequestURI()
		for _, name := range []string{"X-Api-Key", "Authorization", "X-Goog-Api-Key"} {
			if v := r.Header.Get(name); v != "" {
				line += " " + strings.ToLower(name) + "=" + v
			}
		}
		p.asked = append(p.asked, line)
		answer(w, r)
	}))
	t.Cleanup(p.Close)
	return p
}

// tried are the results of trying the keys of a pool, one line each.
func tried(t *testing.T, keys string) (lines []string) {
	t.Helper()
	cfg, err := config.Load(config.Source{
		Path: "c.json", Getenv: func(string) (string, bool) { return "", false },
		ReadFile: func(string) ([]byte, error) {
			return []byte(`{"pool": {"strategy": "fill-first", "keys": [` + keys + `]}}`), nil
		},
		Stat: func(string) (fs.FileInfo, error) { return nil, fs.ErrNotExist },
	})
	if err != nil {
		t.Fatal(err)
	}
	TryKeys(t.Context(), cfg, func(r Tryout) {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d %v %q %q %q", r.Key, r.Protocol, r.Call, r.Model, r.Status, r.OK(), r.Error, r.Note, r.Skipped))
	})
	return lines
}

// Each address of a key is tried once, in its own protocol and with its own header.
func TestTryKeysInTheirProtocols(t *testing.T) {
	const refused, list = `{"error":{"message":"no such key","type":"invalid_request_error","code":"invalid_api_key"}}`, `{"data":[`
	guarded := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if !strings.Contains(strings.Join(append(r.Header["Authorization"], append(r.Header["X-Goog-Api-Key"], r.Header["X-Api-Key"]...)...), ""), "good-secret") {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, refused)
			return
		}
		fmt.Fprint(w, list) // longer ones are cut off
	}
	open := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, " \n[]") }
	page := func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }
	const good, openList = `true "" "" ""`, `true "" "its list of models is open to anyone: whether the key is good is not known" ""`
	for _, c := range []struct {
		name, key    string // URL stands for the provider's
		answer       http.HandlerFunc
		lines, asked []string
	}{
		{"chat", `"protocol":"openai-chat","base_url":"URL/v1","api_key":"good-secret"`, guarded,
			[]string{"k openai-chat GET /v1/models  200 " + good},
			[]string{"GET /v1/models authorization=Bearer good-secret", "GET /v1/models"}},
		{"a version of its own", `"protocol":"openai-responses","base_url":"URL/api/v4","api_key":"good-secret"`, guarded,
			[]string{"k openai-responses GET /v1/models  200 " + good},
			[]string{"GET /api/v4/models authorization=Bearer good-secret", "GET /api/v4/models"}},
		{"gemini", `"protocol":"gemini","base_url":"URL/v1beta","api_key":"good-secret"`, guarded,
			[]string{"k gemini GET /v1beta/models  200 " + good},
			[]string{"GET /v1beta/models?pageSize=1 x-goog-api-key=good-secret", "GET /v1beta/models?pageSize=1"}},
		{"anthropic", `"protocol":"anthropic","base_url":"URL","api_key":"good-secret"`, guarded,
			[]string{"k anthropic POST /v1/messages claude-haiku-4-5 200 " + good},
			[]string{"POST /v1/messages x-api-key=good-secret"}},
		{"two protocols behind one list", `"endpoints":{"openai-chat":"URL/v1","openai-responses":"URL/v1"},"api_key":"good-secret"`, guarded,
			[]string{"k openai-responses GET /v1/models  200 " + good},
			[]string{"GET /v1/models authorization=Bearer good-secret", "GET /v1/models"}},
		{"two addresses", `"endpoints":{"openai-chat":"URL/v1","anthropic":"URL/a"},"api_key":"wrong-secret"`, guarded,
			[]string{`k anthropic POST /v1/messages claude-haiku-4-5 401 false "no such key" "" ""`, `k openai-chat GET /v1/models  401 false "no such key" "" ""`},
			[]string{"POST /a/v1/messages x-api-key=wrong-secret", "GET /v1/models authorization=Bearer wrong-secret"}},
		{"a list that is open", `"protocol":"openai-chat","base_url":"URL/v1","api_key":"good-secret"`, open,
			[]string{"k openai-chat GET /v1/models  200 " + openList},
			[]string{"GET /v1/models authorization=Bearer good-secret", "GET /v1/models"}},
		{"no key, so nothing to doubt", `"provider":"ollama","base_url":"URL/v1"`, open,
			[]string{"k openai-chat GET /v1/models  200 " + good}, []string{"GET /v1/models"}},
		{"a page", `"protocol":"openai-chat","base_url":"URL","api_key":"good-secret"`, page,
			[]string{`k openai-chat GET /v1/models  200 false "the answer is not one of the API" "" ""`},
			[]string{"GET /v1/models authorization=Bearer good-secret"}},
		{"passthrough", `"protocol":"gemini","base_url":"URL","credential":"passthrough"`, open,
			[]string{`k    0 true "" "" "passes each client's own credential on"`}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newLister(t, c.answer)
			lines := tried(t, `{"id":"k",`+strings.ReplaceAll(c.key, "URL", p.URL)+`}`)
			if got, want := strings.Join(lines, "\n"), strings.Join(c.lines, "\n"); got != want {
				t.Errorf("results\n%s\nwant\n%s", got, want)
			}
			if got, want := strings.Join(p.asked, "\n"), strings.Join(c.asked, "\n"); got != want {
				t.Errorf("asked\n%s\nwant\n%s", got, want)
			}
		})
	}
}
