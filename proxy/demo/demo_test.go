package demo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

const hello = `"model":"claude-opus-5-5","max_tokens":100,"messages":[{"role":"user","content":"say hi"}]`

// serve starts a provider on loopback.
func serve(t *testing.T, options demo.Options) (*demo.Provider, string) {
	t.Helper()
	p := demo.New(options)
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return p, server.URL
}

// post sends a body as a well-behaved client does; edits change the header.
func post(t *testing.T, url, body string, edits ...func(http.Header)) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return send(t, request, edits...)
}

func get(t *testing.T, url string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return send(t, request)
}

func send(t *testing.T, request *http.Request, edits ...func(http.Header)) *http.Response {
	t.Helper()
	request.Header.Set("x-api-key", "sk-sim-1")
	request.Header.Set("anthropic-version", "2023-06-01")
	for _, edit := range edits {
		edit(request.Header)
	}
	response, err := new(http.Client).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func read(t *testing.T, response *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatalf("body after %q: %v", body, err)
	}
	return string(body)
}

// envelope is the API's error body.
type envelope struct {
	Type  string
	Error struct{ Type, Message string }
	ID    string `json:"request_id"`
}

func readError(t *testing.T, response *http.Response) envelope {
	t.Helper()
	var e envelope
	body := read(t, response)
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Type != "error" {
		t.Fatalf("no error envelope: %s", body)
	}
	if e.ID == "" || e.ID != response.Header.Get("request-id") {
		t.Errorf("request_id %q, header %q", e.ID, response.Header.Get("request-id"))
	}
	return e
}

// frame is one server-sent event.
type frame struct{ event, data string }

// frames reads events until the body ends; err is how it ended.
func frames(body io.Reader) (list []frame, err error) {
	reader := bufio.NewReader(body)
	for {
		f, err := nextFrame(reader)
		if err != nil {
			return list, err
		}
		list = append(list, f)
	}
}

func nextFrame(reader *bufio.Reader) (f frame, err error) {
	for {
		line, err := reader.ReadString('\n')
		if err != nil {
			return f, err
		}
		line = strings.TrimRight(line, "\r\n")
		switch {
		case line == "":
			return f, nil
		case strings.HasPrefix(line, "event: "):
			f.event = strings.TrimPrefix(line, "event: ")
		case strings.HasPrefix(line, "data: "):
			f.data = strings.TrimPrefix(line, "data: ")
		}
	}
}

// stream sends a streaming request and reads it whole.
func stream(t *testing.T, url string) ([]frame, error) {
	t.Helper()
	response := post(t, url+"/v1/messages", `{`+hello+`,"stream":true}`)
	if got := response.Header.Get("content-type"); !strings.HasPrefix(got, "text/event-stream") {
		t.Fatalf("content-type %q: %s", got, read(t, response))
	}
	return frames(response.Body)
}

func names(list []frame) string {
	var names []string
	for _, f := range list {
		names = append(names, f.event)
	}
	return strings.Join(names, " ")
}

func TestDefaultAnswer(t *testing.T) {
	p, url := serve(t, demo.Options{Name: "sim"})
	body := read(t, post(t, url+"/any/prefix/v1/messages?beta=true", `{`+hello+`}`))
	if !strings.Contains(body, `"text":"Hello from sim."`) || !strings.Contains(body, `"stop_reason":"end_turn"`) {
		t.Error(body)
	}
	got := p.Requests()
	if len(got) != 1 || got[0].Method != "POST" || got[0].Path != "/any/prefix/v1/messages" || got[0].Query != "beta=true" ||
		string(got[0].Body) != `{`+hello+`}` || got[0].Header.Get("x-api-key") != "sk-sim-1" || got[0].Outcome != demo.Completed {
		t.Errorf("requests: %d, %+v", len(got), got)
	}
}

func TestStepsComeInOrderAndRefusedRequestsTakeNone(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Always(demo.Step{Text: "always"})
	p.Push(demo.Step{Text: "first"}, demo.Step{Text: "second"})
	if got := post(t, url+"/v1/messages", `{}`).StatusCode; got != http.StatusBadRequest {
		t.Errorf("status %d", got)
	}
	for _, want := range []string{"first", "second", "always", "always"} {
		if body := read(t, post(t, url+"/v1/messages", `{`+hello+`}`)); !strings.Contains(body, want) {
			t.Errorf("want %s: %s", want, body)
		}
	}
}

func TestCountTokensAndModels(t *testing.T) {
	_, url := serve(t, demo.Options{Models: []string{"m-1", "m-2", "m-3"}})
	body := `{"model":"m-1","messages":[{"role":"user","content":"hi"}]}`
	if got := read(t, post(t, url+"/p/v1/messages/count_tokens", body)); got != `{"input_tokens":14}` {
		t.Error(got)
	}
	for path, want := range map[string]string{
		"/v1/models":                      `"has_more":false,"first_id":"m-1","last_id":"m-3"`,
		"/v1/models?limit=2":              `"has_more":true,"first_id":"m-1","last_id":"m-2"`,
		"/v1/models?limit=2&after_id=m-2": `"has_more":false,"first_id":"m-3","last_id":"m-3"`,
		"/p/v1/models/m-2":                `"id":"m-2"`,
		"/v1/models/m-9":                  `"type":"not_found_error","message":"model: m-9"`,
		"/v1/models?limit=0":              `"invalid_request_error"`,
		"/v1/messages":                    `"not_found_error"`,
		"/v1/nothing":                     `"not_found_error"`,
	} {
		if got := read(t, get(t, url+path)); !strings.Contains(got, want) {
			t.Errorf("%s: %s", path, got)
		}
	}
}

func TestMemoryOfRequestsIsBounded(t *testing.T) {
	at := time.Date(2026, 11, 29, 0, 0, 0, 0, time.UTC)
	p := demo.New(demo.Options{Now: func() time.Time { at = at.Add(time.Second); return at }})
	for range 1005 {
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/messages", strings.NewReader("{}")))
	}
	got := p.Requests()
	if len(got) != 1000 || !got[999].At.Equal(at) || !got[0].At.Equal(at.Add(-999*time.Second)) {
		t.Errorf("%d requests, from %v to %v", len(got), got[0].At, got[len(got)-1].At)
	}
	if err := p.Wait(t.Context(), 1005); err != nil {
		t.Error(err)
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := demo.New(demo.Options{}).Wait(ctx, 1); err == nil || !strings.Contains(err.Error(), "0 of 1") {
		t.Error(err)
	}
}
