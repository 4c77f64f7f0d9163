package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

const (
	geminiAsk    = `{"contents":[{"role":"user","parts":[{"text":"hi"}]}]}`
	geminiStream = "data: {\"candidates\":[{\"content\":{\"role\":\"model\",\"parts\":[{\"text\":\"late\"}]},\"finishReason\":\"STOP\",\"index\":0}]," +
		"\"usageMetadata\":{\"promptTokenCount\":3,\"candidatesTokenCount\":2,\"totalTokenCount\":5}}\n\n"
)

// late asks for a stream as a client that has waited so long already that it is about to give up.
func (r *rig) late(t *testing.T, path string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(geminiAsk))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Test-Late", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// gemini-cli gives up 60 s after its request when no header has come: it gets one, and the answer follows.
func TestPatientStreamBeginsBeforeItsHead(t *testing.T) {
	for _, form := range []struct{ path, kind, want string }{
		{"/v1beta/models/m:streamGenerateContent?alt=sse", "text/event-stream; charset=utf-8", geminiStream},
		{"/v1beta/models/m:streamGenerateContent", "application/json", "[" + strings.TrimSpace(strings.TrimPrefix(geminiStream, "data: ")) + "]"},
	} {
		release := make(chan struct{})
		r := newRigOf(t, gemini, 1, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
			<-release
			w.Header().Set("Content-Type", form.kind)
			_, _ = io.WriteString(w, form.want)
		})
		resp := r.late(t, form.path)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != form.kind || resp.Header.Get(traceHeader) == "" {
			t.Errorf("%d %v", resp.StatusCode, resp.Header)
		}
		close(release)
		body, err := io.ReadAll(resp.Body)
		if err != nil || string(body) != form.want {
			t.Errorf("%q %v", body, err)
		}
		if rec := r.records.last(t); rec.Outcome != "ok" || rec.InputTokens != 3 || rec.OutputTokens != 2 || len(rec.Attempts) != 1 {
			t.Errorf("%+v", rec)
		}
	}
}

// After that an attempt that fails ends the connection: no error can be told, and no other key is tried.
func TestPatientStreamIsAborted(t *testing.T) {
	release := make(chan struct{})
	var asked atomic.Int32
	r := newRigOf(t, gemini, 3, nil, nil, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		<-release
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	resp := r.late(t, "/v1beta/models/m:streamGenerateContent?alt=sse")
	close(release)
	if body, err := io.ReadAll(resp.Body); err == nil || strings.TrimSpace(string(body)) != "" {
		t.Errorf("a clean end after %q", body)
	}
	if rec := r.records.last(t); asked.Load() != 1 || len(rec.Attempts) != 1 || rec.Outcome != "error" {
		t.Errorf("%d attempts, %+v", asked.Load(), rec)
	}
}

// A client that leaves while its answer waits ends the attempt.
func TestPatientStreamOfAClientThatLeft(t *testing.T) {
	arrived, left := make(chan struct{}), make(chan struct{})
	r := newRigOf(t, gemini, 1, nil, nil, func(_ http.ResponseWriter, q *http.Request) {
		close(arrived)
		_, _ = io.Copy(io.Discard, q.Body) // net/http looks for a client that leaves once the body is read
		<-q.Context().Done()
		close(left)
	})
	resp := r.late(t, "/v1beta/models/m:streamGenerateContent?alt=sse")
	<-arrived
	resp.Body.Close()
	<-left
}
