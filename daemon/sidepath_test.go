package daemon

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// form is a multipart body with a model, behind a file that looks like one.
func form(t *testing.T, model string) (body, contentType string) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary("edge-of-a-part"); err != nil {
		t.Fatal(err)
	}
	f, err := w.CreateFormFile("file", `a"b.wav`)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = f.Write([]byte("RIFF\x00\xff\r\n--edge\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nnot-this\r\n"))
	_ = w.WriteField("language", "en")
	_ = w.WriteField("model", model)
	_ = w.WriteField("prompt", `{"model":"inner"}`)
	w.Close()
	return b.String(), w.FormDataContentType()
}

// sideCase is an endpoint that is passed through.
type sideCase struct {
	path, body, contentType string
	answer                  string
	answerType              string
	upstream                string // path; "" = the same
	old, new                string // in the body
	costs                   costs
	estimated               bool
	dialect                 string
}

func sideCases(t *testing.T) []sideCase {
	t.Helper()
	const usage = `"usage":{"prompt_tokens":5,"total_tokens":5}`
	recording, kind := form(t, "nice")
	return []sideCase{
		{path: "/v1/embeddings", body: `{ "input":"zebra","model":"nice","x":1.10}`, answer: `{"object":"list","data":[{"embedding":[0.10]}],` + usage + `}`,
			old: `"nice"`, new: `"house/1"`, costs: costs{5, 0, 0, 0, 0}, dialect: chat},
		{path: "/openai/v1/embeddings", body: `{"model":"nice","input":[[1,2]]}`, answer: `{"object":"list","data":[],` + usage + `}`, upstream: "/v1/embeddings",
			old: `"nice"`, new: `"house/1"`, costs: costs{5, 0, 0, 0, 0}, dialect: chat},
		{path: "/v1/completions", body: `{"model":"nice","prompt":"zebra"}`, answer: `{"id":"cmpl-1","object":"text_completion","choices":[{"text":"walrus","finish_reason":"length"}],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`,
			old: `"nice"`, new: `"house/1"`, costs: costs{5, 7, 0, 0, 0}, dialect: chat},
		{path: "/v1/moderations", body: `{"model":"nice","input":"zebra"}`, answer: `{"id":"modr-1","model":"m","results":[{"flagged":false}]}`,
			old: `"nice"`, new: `"house/1"`, dialect: chat},
		{path: "/v1/images/generations", body: `{"model":"nice","prompt":"zebra"}`, answer: `{"created":1,"data":[{"b64_json":"aQ=="}],"usage":{"input_tokens":5,"output_tokens":9}}`,
			old: `"nice"`, new: `"house/1"`, costs: costs{5, 9, 0, 0, 0}, dialect: chat},
		{path: "/v1/images/edits", body: recording, contentType: kind, answer: `{"created":1,"data":[]}`, old: "\r\n\r\nnice\r\n", new: "\r\n\r\nhouse/1\r\n", estimated: true, dialect: chat},
		{path: "/v1/audio/speech", body: `{"model":"nice","input":"zebra","voice":"v"}`, answer: "ID3\x00\xff\xfe walrus", answerType: "audio/mpeg", old: `"nice"`, new: `"house/1"`,
			estimated: true, dialect: chat},
		{path: "/v1/audio/transcriptions", body: recording, contentType: kind, answer: `{"text":"walrus","usage":{"type":"tokens","input_tokens":5,"output_tokens":9,"total_tokens":14}}`,
			old: "\r\n\r\nnice\r\n", new: "\r\n\r\nhouse/1\r\n", costs: costs{5, 9, 0, 0, 0}, dialect: chat},
		{path: "/v1/audio/translations", body: recording, contentType: kind, answer: "walrus\n", answerType: "text/plain; charset=utf-8", old: "\r\n\r\nnice\r\n", new: "\r\n\r\nhouse/1\r\n",
			estimated: true, dialect: chat},
		{path: "/v1/responses/compact", body: `{"model":"nice","input":"zebra"}`, answer: `{"id":"resp_9","object":"response.compaction","output":[],"usage":{"input_tokens":5,"output_tokens":9,"total_tokens":14}}`,
			old: `"nice"`, new: `"house/1"`, costs: costs{5, 9, 0, 0, 0}, dialect: responses},
		{path: "/v1/responses/input_tokens", body: `{"model":"nice","input":"zebra"}`, answer: `{"object":"response.input_tokens","input_tokens":5}`,
			old: `"nice"`, new: `"house/1"`, dialect: responses},
		{path: "/v1beta/models/nice:embedContent", body: `{"model":"models/nice","content":{"parts":[{"text":"zebra"}]}}`, answer: `{"embedding":{"values":[0.10]}}`,
			upstream: "/v1beta/models/house%2F1:embedContent", old: "models/nice", new: "models/house/1", estimated: true, dialect: gemini},
		{path: "/v1beta/models/nice:embedContent?key=x", body: `{"content":{"parts":[{"text":"zebra"}]}}`, answer: `{"embedding":{"values":[0.10]}}`,
			upstream: "/v1beta/models/house%2F1:embedContent", estimated: true, dialect: gemini},
		{path: "/v1/models/nice:batchEmbedContents", body: `{ "requests":[{"content":{"parts":[{"text":"zebra"}]} , "model":"models/nice"},{"model" : "models/nice","content":{"parts":[{"text":"models/nice"}]}}]}`,
			answer: `{"embeddings":[]}`, upstream: "/v1beta/models/house%2F1:batchEmbedContents", old: `"models/nice",`, new: `"models/house/1",`, estimated: true, dialect: gemini},
	}
}

// What is passed through goes as it came, with the model replaced wherever it stands, and so comes the answer.
func TestPassesThrough(t *testing.T) {
	t.Parallel()
	for _, c := range sideCases(t) {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			if c.contentType == "" {
				c.contentType = "application/json"
			}
			if c.answerType == "" {
				c.answerType = "application/json"
			}
			b := newBackend(t, says(200, c.answer, "Content-Type: "+c.answerType, "X-Request-Id: up-1"))
			wrong := newBackend(t, says(200, whole))
			other := map[string]string{chat: gemini, responses: chat, gemini: responses}[c.dialect]
			i := start(t, oneCaller(), poolOf(protocolKey(k1, claude, wrong.URL), protocolKey(k2, other, wrong.URL), protocolKey(k3, c.dialect, b.URL, `"models":{"nice":"house/1"}`)))
			if c.dialect == chat { // a key of either OpenAI dialect will do
				i = start(t, oneCaller(), poolOf(protocolKey(k1, claude, wrong.URL), protocolKey(k3, responses, b.URL, `"models":{"nice":"house/1"}`)))
			}
			r := i.ask("POST", c.path, c.body, "Content-Type: "+c.contentType, "x-proxy-key: "+requestKey)
			if r.status != 200 || r.err != nil || r.body != c.answer || r.header.Get("Content-Type") != c.answerType || r.header.Get("X-Request-Id") != "up-1" || r.header.Get("X-Proxy-Dropped") != "" {
				t.Fatalf("status %d, %v, %v: %q", r.status, r.err, r.header, r.body)
			}
			got, want := b.only(t), c.body
			if c.old != "" {
				n := 1
				if c.dialect == gemini {
					n = strings.Count(c.body, c.old)
				}
				want = strings.Replace(c.body, c.old, c.new, n)
			}
			if strings.Contains(c.path, "batch") {
				want = strings.Replace(strings.Replace(c.body, `"model":"models/nice"`, `"model":"models/house/1"`, 1), `"model" : "models/nice"`, `"model" : "models/house/1"`, 1)
			}
			if got.body != want || got.length != int64(len(want)) {
				t.Errorf("upstream body %s", differ(got.body, want))
			}
			path := c.upstream
			if path == "" {
				path = c.path
			}
			if got.uri != path || got.header.Get("Content-Type") != c.contentType || strings.Contains(got.text(), requestKey) {
				t.Errorf("upstream %s %v", got.uri, got.header)
			}
			rec := i.record(r.trace())
			if rec.Key != k3 || rec.Requested != "nice" || rec.UpstreamModel != "house/1" || rec.Outcome != "ok" || rec.Estimated != c.estimated || costsOf(rec) != c.costs && !c.estimated || len(rec.Dropped) > 0 {
				t.Errorf("journal: %+v", rec)
			}
			if n := len(wrong.requests()); n != 0 {
				t.Errorf("%d requests went to a provider of another dialect", n)
			}
		})
	}
}

// Where no key speaks a dialect that has the endpoint, the model is not served there.
func TestPassThroughNeedsItsDialect(t *testing.T) {
	t.Parallel()
	p, url := strict(t, "far", claude)
	i := start(t, poolOf(protocolKey(k1, claude, url)))
	for _, c := range sideCases(t) {
		if c.contentType == "" {
			c.contentType = "application/json"
		}
		i.refuses(c.dialect, i.ask("POST", c.path, c.body, "Content-Type: "+c.contentType), 404, "not_found_error")
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}

// The strict provider understands what was rewritten, a form with a file included; failover works here, too.
func TestPassThroughFailsOver(t *testing.T) {
	t.Parallel()
	recording, kind := form(t, "nice")
	for _, c := range []struct{ dialect, path, body, contentType, says string }{
		{chat, "/v1/audio/transcriptions", recording, kind, `"model":"house-1"`},
		{chat, "/v1/embeddings", `{"model":"nice","input":"zebra"}`, "application/json", `"model":"house-1"`},
		{gemini, "/v1beta/models/nice:batchEmbedContents", `{"requests":[{"model":"models/nice","content":{"parts":[{"text":"zebra"}]}}]}`, "application/json", `"embeddings"`},
		{responses, "/v1/responses/input_tokens", `{"model":"nice","input":"zebra"}`, "application/json", `"input_tokens"`},
	} {
		t.Run(c.path, func(t *testing.T) {
			t.Parallel()
			p := demo.New(demo.Options{Dialects: []string{c.dialect}, Models: []string{"house-1"}})
			down := newBackend(t, says(503, `{"error":{"message":"busy","type":"server_error","code":"server_is_overloaded","status":"UNAVAILABLE"}}`))
			i := start(t, poolOf(protocolKey(k1, c.dialect, down.URL, `"models":{"nice":"house-1"}`), protocolKey(k2, c.dialect, listen(t, p), `"models":{"nice":"house-1"}`)))
			r := i.ask("POST", c.path, c.body, "Content-Type: "+c.contentType)
			if r.status != 200 || !strings.Contains(r.body, c.says) || i.servedBy(r) != k2 {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
			i = start(t, poolOf(protocolKey(k1, c.dialect, down.URL, `"models":{"nice":"house-1"}`)))
			if r := i.ask("POST", c.path, c.body, "Content-Type: "+c.contentType); r.status != 503 || !strings.Contains(r.body, "busy") {
				t.Errorf("alone: status %d: %s", r.status, r.body)
			}
		})
	}
}

// Streams are passed through, too, as they come.
func TestPassThroughStreams(t *testing.T) {
	t.Parallel()
	const text = "data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{\"text\":\"walrus\",\"index\":0,\"finish_reason\":null}]}\n\n" +
		"data: {\"id\":\"cmpl-1\",\"object\":\"text_completion\",\"choices\":[{\"text\":\"\",\"index\":0,\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":7}}\n\ndata: [DONE]\n\n"
	const image = "event: image_generation.partial_image\ndata: {\"type\":\"image_generation.partial_image\",\"b64_json\":\"aQ==\"}\n\n" +
		"event: image_generation.completed\ndata: {\"type\":\"image_generation.completed\",\"b64_json\":\"aQ==\"}\n\n"
	for path, c := range map[string][2]string{
		"/v1/completions":        {`{"model":"m","prompt":"zebra","stream":true}`, text},
		"/v1/images/generations": {`{"model":"m","prompt":"zebra","stream":true}`, image},
	} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			i := start(t, poolOf(protocolKey(k1, chat, newBackend(t, pours(cutIn(c[1], 9)...)).URL)))
			r := i.ask("POST", path, c[0], "Content-Type: application/json")
			if r.status != 200 || r.err != nil || r.body != c[1] {
				t.Errorf("status %d, %v: %s", r.status, r.err, differ(r.body, c[1]))
			}
			if rec := i.record(r.trace()); rec.Outcome != "ok" || !rec.Stream {
				t.Errorf("journal: %+v", rec)
			}
		})
	}
}

// SEC-019: the caller's group and its list of models hold in every endpoint, and no other caller's answers are there.
func TestSEC019ScopesHoldEverywhere(t *testing.T) {
	t.Parallel()
	own, ownURL := strict(t, "own")
	foreign, foreignURL := strict(t, "foreign")
	i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q,"group":"g"},{"code":"few","api_key":%q,"models":["allowed-*"]}],"groups":[{"name":"g","keys":[%q]}]}`,
		requestKey+"-1", requestKey+"-2", k1),
		poolOf(polyglotKey(k1, ownURL, nil, `"models":{"m1":"m1","generations":"m1"}`), polyglotKey(k2, foreignURL, nil, `"models":{"m2":"m2","allowed-1":"m1"}`), polyglotKey(k3, foreignURL, nil)))
	recording, kind := form(t, "m2")
	type ask struct{ dialect, path, body, contentType string }
	asks := []ask{{chat, "/v1/audio/transcriptions", recording, kind}}
	for _, d := range allDialects() {
		asks = append(asks, ask{d, pathOf(d, "m2", false), bodyOf(d, "m2", false), ""}, ask{d, pathOf(d, "m2", true), bodyOf(d, "m2", true), ""})
	}
	for path, member := range map[string]string{"embeddings": "input", "completions": "prompt", "moderations": "input", "images/generations": "prompt", "audio/speech": "input",
		"responses/compact": "input", "responses/input_tokens": "input"} {
		d := chat
		if strings.HasPrefix(path, "responses") {
			d = responses
		}
		asks = append(asks, ask{d, "/v1/" + path, fmt.Sprintf(`{"model":"m2",%q:"zebra"}`, member), ""})
	}
	for _, action := range []string{"embedContent", "batchEmbedContents"} {
		asks = append(asks, ask{gemini, "/v1beta/models/m2:" + action, `{"content":{},"requests":[{"model":"models/m2"}]}`, ""})
	}
	for _, a := range asks {
		if a.contentType == "" {
			a.contentType = "application/json"
		}
		header := []string{"Content-Type: " + a.contentType}
		if a.dialect == claude {
			header = append(header, version)
		}
		r := i.ask("POST", a.path, a.body, append(header, "x-proxy-key: "+requestKey+"-1")...)
		i.refuses(a.dialect, r, 404, "not_found_error")
		if strings.Contains(r.body, "allowed-1") {
			t.Errorf("%s: a name of another group: %s", a.path, r.body)
		}
		i.refuses(a.dialect, i.ask("POST", a.path, a.body, append(header, "x-proxy-key: "+requestKey+"-2")...), 403, "permission_error")
	}
	if n := len(own.Requests()) + len(foreign.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
}
