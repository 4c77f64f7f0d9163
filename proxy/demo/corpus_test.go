package demo_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"coding-proxy/proxy/demo"
)

// captured is one request body that a real client sent.
type captured struct {
	name string
	path string // of the endpoint
	body string
}

const corpus = "../../testdata"

// bodies loads a dialect's captured requests; none is a broken checkout.
func bodies(t testing.TB, dialect string) []captured {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(corpus, dialect, "bodies", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no captured bodies of %s: %v", dialect, err)
	}
	var list []captured
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(file)
		list = append(list, captured{name, endpointOf(t, dialect, name), string(data)})
	}
	return list
}

func endpointOf(t testing.TB, dialect, name string) string {
	t.Helper()
	switch dialect {
	case "anthropic":
		return "/v1/messages"
	case "openai-chat":
		return "/v1/chat/completions"
	case "openai-responses":
		return "/v1/responses"
	}
	var index map[string]struct{ Version, Model, Action string }
	data, err := os.ReadFile(filepath.Join(corpus, dialect, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &index); err != nil || index[name].Model == "" {
		t.Fatalf("%s is not in the index: %v", name, err)
	}
	entry := index[name]
	return "/" + entry.Version + "/models/" + entry.Model + ":" + entry.Action + "?alt=sse"
}

// sender sets the headers that a client of the dialect sends.
func sender(dialect string) func(http.Header) {
	return func(h http.Header) {
		h.Del("x-api-key")
		h.Del("anthropic-version")
		switch dialect {
		case "anthropic":
			h.Set("x-api-key", "sk-sim-1")
			h.Set("anthropic-version", "2023-06-01")
			h.Set("anthropic-beta", "context-management-2025-06-27,structured-outputs-2025-12-15,mcp-client-2026-09-15")
		case "gemini":
			h.Set("x-goog-api-key", "sk-sim-1")
		default:
			h.Set("authorization", "Bearer sk-sim-1")
		}
	}
}

// TestRealRequestsAreAccepted: what the real APIs took from real clients is taken here.
func TestRealRequestsAreAccepted(t *testing.T) {
	for _, dialect := range []string{"anthropic", "openai-chat", "openai-responses", "gemini"} {
		_, url := serve(t, demo.Options{ReasoningContent: true})
		for _, c := range bodies(t, dialect) {
			t.Run(dialect+"/"+c.name, func(t *testing.T) {
				response := post(t, url+c.path, c.body, sender(dialect))
				if body := read(t, response); response.StatusCode != http.StatusOK {
					t.Errorf("%d %s", response.StatusCode, body)
				}
			})
		}
	}
}
