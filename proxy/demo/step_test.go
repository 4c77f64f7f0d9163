package demo_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"coding-proxy/proxy/demo"
)

// everything is a step with every kind of block.
func everything() demo.Step {
	return demo.Step{
		Thinking: "They want a list.",
		Text:     "I'll look — one moment, dröge Prüfung. ",
		Tools: []demo.Tool{
			{Name: "Bash", Input: json.RawMessage(`{"command":"printf 'äöü %s' \"a long enough command to need pieces\""}`)},
			{ID: "toolu_mine", Name: "Now"},
		},
		Usage: demo.Usage{Input: 12, Output: 34, CacheCreation: 5, CacheRead: 6},
		Pings: 2,
	}
}

func TestStreamIsInOrder(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Text: "one two", Tools: []demo.Tool{{Name: "Bash"}}})
	list, err := stream(t, url)
	want := "message_start content_block_start ping content_block_delta content_block_delta content_block_stop " +
		"content_block_start content_block_delta content_block_stop message_delta message_stop"
	if !errors.Is(err, io.EOF) || names(list) != want {
		t.Errorf("%v\n got %s\nwant %s", err, names(list), want)
	}
	for _, f := range list {
		var data struct{ Type string }
		if err := json.Unmarshal([]byte(f.data), &data); err != nil || data.Type != f.event {
			t.Errorf("event %s has data %s", f.event, f.data)
		}
	}
	if !strings.Contains(list[0].data, `"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`) {
		t.Error(list[0].data)
	}
	if got := list[len(list)-2].data; !strings.Contains(got, `"delta":{"stop_reason":"tool_use","stop_sequence":null}`) {
		t.Error(got)
	}
}

func TestPlainIsTheFoldOfTheStream(t *testing.T) {
	steps := map[string]demo.Step{
		"default": {}, "everything": everything(), "text": {Text: "a  b"}, "thinking": {Thinking: "hm"},
		"tool": {Tools: []demo.Tool{{Name: "Now"}}, StopReason: "max_tokens"},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			var got [2]any // from two providers, so that the ids are the same
			for i, flag := range []string{`false`, `true `} {
				p, url := serve(t, demo.Options{})
				p.Push(step)
				body := read(t, post(t, url+"/v1/messages", `{`+hello+`,"stream":`+flag+`}`))
				if flag == `true ` {
					list, _ := frames(strings.NewReader(body))
					body = foldFrames(t, list)
				}
				if err := json.Unmarshal([]byte(body), &got[i]); err != nil {
					t.Fatalf("%v: %s", err, body)
				}
			}
			if !reflect.DeepEqual(got[0], got[1]) {
				t.Errorf("plain %v\n fold %v", got[0], got[1])
			}
		})
	}
}

// foldFrames does what the SDKs do, on raw JSON, with nothing of the package.
func foldFrames(t *testing.T, list []frame) string {
	t.Helper()
	var message map[string]any
	var blocks []any
	var partial string
	for _, f := range list {
		var e map[string]any
		if err := json.Unmarshal([]byte(f.data), &e); err != nil {
			t.Fatal(err)
		}
		delta, _ := e["delta"].(map[string]any)
		switch f.event {
		case "message_start":
			message = e["message"].(map[string]any)
		case "content_block_start":
			if int(e["index"].(float64)) != len(blocks) {
				t.Errorf("index %v of block %d", e["index"], len(blocks))
			}
			blocks, partial = append(blocks, e["content_block"]), ""
		case "content_block_delta":
			block := blocks[len(blocks)-1].(map[string]any)
			for _, field := range []string{"text", "thinking", "signature"} {
				if piece, ok := delta[field].(string); ok {
					block[field] = block[field].(string) + piece
				}
			}
			if piece, ok := delta["partial_json"].(string); ok {
				partial += piece
			}
		case "content_block_stop":
			if partial != "" {
				var input any
				if err := json.Unmarshal([]byte(partial), &input); err != nil {
					t.Fatalf("input %q: %v", partial, err)
				}
				blocks[len(blocks)-1].(map[string]any)["input"] = input
			}
		case "message_delta":
			message["stop_reason"], message["stop_sequence"] = delta["stop_reason"], delta["stop_sequence"]
			for name, value := range e["usage"].(map[string]any) {
				message["usage"].(map[string]any)[name] = value
			}
		}
	}
	message["content"] = blocks
	folded, err := json.Marshal(message)
	if err != nil {
		t.Fatal(err)
	}
	return string(folded)
}

func TestUsage(t *testing.T) {
	p, url := serve(t, demo.Options{})
	body := `{` + hello + `}`
	p.Push(demo.Step{Text: "twelve bytes"}, everything())
	for _, want := range []string{
		fmt.Sprintf(`"usage":{"input_tokens":%d,`, len(body)/4) + `"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"cache_creation":{"ephemeral_5m_input_tokens":0,"ephemeral_1h_input_tokens":0},"output_tokens":3,`,
		`"usage":{"input_tokens":12,"cache_creation_input_tokens":5,"cache_read_input_tokens":6,"cache_creation":{"ephemeral_5m_input_tokens":5,"ephemeral_1h_input_tokens":0},"output_tokens":34,`,
	} {
		if got := read(t, post(t, url+"/v1/messages", body)); !strings.Contains(got, want) {
			t.Errorf("want %s in %s", want, got)
		}
	}
}

func TestOmittedThinkingKeepsItsSignature(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(everything())
	body := `{` + strings.Replace(hello, `"max_tokens"`, `"thinking":{"type":"adaptive","display":"omitted"},"max_tokens"`, 1) + `}`
	if got := read(t, post(t, url+"/v1/messages", body)); !strings.Contains(got, `{"type":"thinking","thinking":"","signature":"Z`) {
		t.Error(got)
	}
}

func TestErrorSteps(t *testing.T) {
	p, url := serve(t, demo.Options{})
	for _, test := range []struct {
		step                demo.Step
		kind, message       string
		header, headerValue string
	}{
		{step: demo.Step{Status: 429, Header: http.Header{"retry-after": {"7"}}}, kind: "rate_limit_error", message: "Too Many Requests", header: "Retry-After", headerValue: "7"},
		{step: demo.Step{Status: 529}, kind: "overloaded_error", message: "Overloaded"},
		{step: demo.Step{Status: 503}, kind: "overloaded_error", message: "Service Unavailable"},
		{step: demo.Step{Status: 500}, kind: "api_error", message: "Internal Server Error"},
		{step: demo.Step{Status: 402}, kind: "billing_error", message: "Payment Required"},
		{step: demo.Step{Status: 403}, kind: "permission_error", message: "Forbidden"},
		{step: demo.Step{Status: 400, Type: "own_error", Message: "own words"}, kind: "own_error", message: "own words"},
	} {
		p.Push(test.step, test.step)
		for _, flag := range []string{"false", "true"} {
			response := post(t, url+"/v1/messages", `{`+hello+`,"stream":`+flag+`}`)
			e := readError(t, response)
			if response.StatusCode != test.step.Status || e.Error.Type != test.kind || e.Error.Message != test.message {
				t.Errorf("%d: %+v", response.StatusCode, e)
			}
			if got := response.Header.Get(test.header); test.header != "" && got != test.headerValue {
				t.Errorf("%s: %q", test.header, got)
			}
		}
	}
}

func TestRawStep(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Raw: "<h1>502</h1>", Status: 502}, demo.Step{Raw: "{", ContentType: "application/json"})
	for _, want := range []string{"502 text/html; charset=utf-8 <h1>502</h1>", "200 application/json {"} {
		response := post(t, url+"/v1/messages", `{`+hello+`,"stream":true}`)
		got := response.Status[:3] + " " + response.Header.Get("content-type") + " " + read(t, response)
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBreaksOfAStream(t *testing.T) {
	p, url := serve(t, demo.Options{})
	header := http.Header{"anthropic-ratelimit-requests-remaining": {"3"}}
	p.Push(
		demo.Step{Break: demo.ErrorEvent, After: 4, Type: "api_error", Message: "broken", Header: header},
		demo.Step{Break: demo.Cut, After: 2},
		demo.Step{Break: demo.End, After: 3},
		demo.Step{Break: demo.ErrorEvent},
		demo.Step{Break: demo.End, After: 1000},
	)
	for _, want := range []struct {
		names string
		err   error
	}{
		{"message_start content_block_start ping content_block_delta error", io.EOF},
		{"message_start content_block_start", io.ErrUnexpectedEOF},
		{"message_start content_block_start ping", io.EOF},
		{"error", io.EOF},
		{"message_start content_block_start ping content_block_delta content_block_delta content_block_delta content_block_stop message_delta message_stop", io.EOF},
	} {
		list, err := stream(t, url)
		if names(list) != want.names || !errors.Is(err, want.err) {
			t.Errorf("%s, %v\nwant %s, %v", names(list), err, want.names, want.err)
		}
		if f := list[len(list)-1]; f.event == "error" && len(list) > 1 && !strings.HasPrefix(f.data, `{"type":"error","error":{"type":"api_error","message":"broken"},"request_id":"req_demo`) {
			t.Error(f.data)
		}
	}
	if err := p.Wait(t.Context(), 5); err != nil {
		t.Fatal(err)
	}
	for i, want := range []demo.Outcome{demo.Completed, demo.CutByStep, demo.Completed, demo.Completed, demo.Completed} {
		if got := p.Requests()[i].Outcome; got != want {
			t.Errorf("request %d: %q, want %q", i, got, want)
		}
	}
}

func TestCutBeforeTheHead(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Always(demo.Step{Break: demo.Cut})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/v1/messages", strings.NewReader(`{`+hello+`}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("authorization", "Bearer any")
	request.Header.Set("anthropic-version", "2026-10-21")
	response, err := new(http.Client).Do(request)
	if err == nil {
		response.Body.Close()
		t.Errorf("status %d, want no answer", response.StatusCode)
	}
}

func TestBreaksOfAPlainAnswer(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Break: demo.ErrorEvent, After: 3}, demo.Step{Break: demo.Cut, After: 3}, demo.Step{Break: demo.End, After: 3})
	response := post(t, url+"/v1/messages", `{`+hello+`}`)
	if e := readError(t, response); response.StatusCode != 529 || e.Error.Type != "overloaded_error" {
		t.Errorf("%d %+v", response.StatusCode, e)
	}
	for _, want := range []error{io.ErrUnexpectedEOF, nil} {
		body, err := io.ReadAll(post(t, url+"/v1/messages", `{`+hello+`}`).Body)
		if !errors.Is(err, want) || json.Valid(body) || len(body) == 0 {
			t.Errorf("%v, want %v: %s", err, want, body)
		}
	}
}

func TestHoldStopsBeforeTheHead(t *testing.T) {
	for _, flag := range []string{"false", "true"} {
		p, url := serve(t, demo.Options{})
		hold := demo.HoldAt(0)
		p.Push(demo.Step{Hold: hold, Text: "late"})
		go func() {
			<-hold.Reached()
			if got := p.Requests()[0].Outcome; got != demo.Open {
				t.Errorf("outcome %q while held", got)
			}
			hold.Release()
		}()
		if body := read(t, post(t, url+"/v1/messages", `{`+hello+`,"stream":`+flag+`}`)); !strings.Contains(body, "late") {
			t.Error(body)
		}
	}
}

func TestEachEventIsFlushedOnItsOwn(t *testing.T) {
	for n := 2; n <= 7; n++ {
		p, url := serve(t, demo.Options{})
		hold := demo.HoldAt(n)
		p.Push(demo.Step{Hold: hold, Text: "one"})
		reader := bufio.NewReader(post(t, url+"/v1/messages", `{`+hello+`,"stream":true}`).Body)
		for i := 1; i < n; i++ {
			if f, err := nextFrame(reader); err != nil || f.data == "" {
				t.Fatalf("event %d: %+v, %v", i, f, err)
			}
		}
		<-hold.Reached()
		hold.Release()
		if rest, _ := frames(reader); len(rest) != 7-n+1 {
			t.Errorf("%d events after the hold before %d: %s", len(rest), n, names(rest))
		}
	}
}

func TestClientThatGoesAwayIsSeen(t *testing.T) {
	p, url := serve(t, demo.Options{})
	hold := demo.HoldAt(4)
	p.Push(demo.Step{Hold: hold})
	response := post(t, url+"/v1/messages", `{`+hello+`,"stream":true}`)
	<-hold.Reached()
	response.Body.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := p.Wait(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if got := p.Requests()[0].Outcome; got != demo.CutByClient {
		t.Errorf("outcome %q", got)
	}
}

func TestEventDelay(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Always(demo.Step{EventDelay: time.Microsecond})
	if list, err := stream(t, url); !errors.Is(err, io.EOF) || len(list) == 0 {
		t.Errorf("%v after %s", err, names(list))
	}
	if body := read(t, post(t, url+"/v1/messages", `{`+hello+`}`)); !strings.Contains(body, "Hello") {
		t.Error(body)
	}
}
