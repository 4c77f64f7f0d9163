package openairesponses

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// TestMediaRefused: what the dialect has no place for is refused, by its path in the client's body.
func TestMediaRefused(t *testing.T) {
	for _, b := range []ir.Block{
		{Kind: ir.Audio, Media: ir.Media{Data: "aGk="}}, {Kind: ir.Video, Media: ir.Media{URL: "u"}},
		{Kind: ir.Image, Media: ir.Media{FileID: "file_1"}}, {Kind: ir.Document, Media: ir.Media{FileID: "file_1"}},
	} {
		b.At = "messages[0].content[1]"
		r := &ir.Request{Turns: []ir.Turn{{Blocks: []ir.Block{text("x"), b}}}}
		_, err := encodeRequest(r, ir.Target{Model: "m"})
		var refused *ir.RefusedError
		if !errors.As(err, &refused) || refused.Field != b.At {
			t.Errorf("%+v: %v", b, err)
		}
		r.Turns = []ir.Turn{said(called("c", "f", "{}")), results(gave("c", b))}
		out := encode(t, r, ir.Target{Model: "m"}) // a result keeps its call: the loss is named
		if !strings.Contains(input(t, out), `"call_id":"c","output":[{"type":"input_text","text":"[a `) || len(out.Lost) != 1 {
			t.Errorf("%s lost %v", out.Body, out.Lost)
		}
	}
}

func TestDocuments(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{{Blocks: []ir.Block{
		{Kind: ir.Document, Title: "Notes", Text: "a\nb"},
		{Kind: ir.Document, Title: "Paper", Media: ir.Media{MIME: "application/pdf", Data: "JVBERi0="}},
		{Kind: ir.Document, Media: ir.Media{URL: "https://x.test/a.pdf"}},
	}}}}
	wants(t, input(t, encode(t, r, ir.Target{Model: "m"})), `{"type":"message","role":"user","content":[{"type":"input_text","text":"Notes\n\na\nb"},{"type":"input_file","filename":"Paper.pdf","file_data":"data:application/pdf;base64,JVBERi0="},{"type":"input_file","file_url":"https://x.test/a.pdf"}]}`)
}

// TestAssistantImage: a picture that a model drew goes on as the user's.
func TestAssistantImage(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{user("draw"), said(text("here"), ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: "aGk="}}), user("more")}}
	wants(t, input(t, encode(t, r, ir.Target{Model: "m"})), `
{"type":"message","role":"user","content":[{"type":"input_text","text":"draw"}]}
{"type":"message","role":"assistant","content":[{"type":"output_text","text":"here"}]}
{"type":"message","role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,aGk=","detail":"auto"}]}
{"type":"message","role":"user","content":[{"type":"input_text","text":"more"}]}`)
	out, lost := encoded(t, bridged([]ir.Event{
		{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Image, Media: ir.Media{MIME: "image/png", Data: "aGk="}}}, {Kind: ir.EventClose}, {Kind: ir.EventEnd},
	}, nil))
	if last := validate(t, out); !strings.Contains(string(last), `{"id":"ig_5eed_0","type":"image_generation_call","status":"completed","result":"aGk="}`) || lost != nil {
		t.Errorf("%s %v", last, lost)
	}
}

// TestHostedTools: web search is said, others are named, and refused where one of them is forced.
func TestHostedTools(t *testing.T) {
	hosted := func(typ string) ir.Tool {
		return ir.Tool{Kind: ir.ToolHosted, ToolName: ir.ToolName{Name: typ}, Hosted: ir.Hosted{Type: typ, AllowedDomains: []string{"a.b"}, BlockedDomains: []string{"c"}, MaxUses: 3, Location: []byte(`{"type":"approximate"}`)}}
	}
	names := ir.FieldNames{ir.FieldTools: "tools", ir.FieldToolChoice: "tool_choice"}
	r := &ir.Request{Names: &names, Turns: []ir.Turn{user("x")}, Tools: []ir.Tool{hosted("web_search"), hosted("code_execution")}}
	out := encode(t, r, ir.Target{Model: "m"})
	wants(t, string(rawjson.Get(out.Body, "tools")), `[{"type":"web_search","filters":{"allowed_domains":["a.b"]},"user_location":{"type":"approximate"}}]`)
	if !slices.Equal(out.Lost, []string{"blocked_domains", "max_uses", "tools"}) {
		t.Errorf("lost %v", out.Lost)
	}
	r.Choice = ir.Choice{Mode: ir.ChoiceOne, Names: []ir.ToolName{{Name: "web_search"}}}
	wants(t, string(rawjson.Get(encode(t, r, ir.Target{Model: "m"}).Body, "tool_choice")), `{"type":"web_search"}`)
	r.Choice.Names[0].Name = "code_execution"
	var refused *ir.RefusedError
	if _, err := encodeRequest(r, ir.Target{Model: "m"}); !errors.As(err, &refused) || refused.Field != "tool_choice" {
		t.Error(err)
	}
}

// TestBreakpoints: marks go to models that know them, elsewhere they are named.
func TestBreakpoints(t *testing.T) {
	names := ir.FieldNames{ir.FieldCacheMark: "cache_control"}
	marked := text("x")
	marked.Cache = &ir.CacheMark{TTL: "1h"}
	r := &ir.Request{Names: &names, Turns: []ir.Turn{{Blocks: []ir.Block{marked}}}}
	out := encode(t, r, ir.Target{Model: "gpt-5.6"})
	if !strings.Contains(string(out.Body), `"prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}`) || len(out.Lost) != 0 {
		t.Errorf("%s %v", out.Body, out.Lost)
	}
	out = encode(t, r, ir.Target{Model: "gpt-5.5"})
	if strings.Contains(string(out.Body), "breakpoint") || !slices.Equal(out.Lost, []string{"cache_control"}) {
		t.Errorf("%s %v", out.Body, out.Lost)
	}
	r = &ir.Request{Names: &names, System: []ir.Block{marked}, Turns: []ir.Turn{user("x")}}
	if out = encode(t, r, ir.Target{Model: "gpt-5.6"}); !slices.Equal(out.Lost, []string{"cache_control"}) {
		t.Errorf("lost %v", out.Lost)
	}
}

// TestForeignHistory: what another dialect's provider did for itself is named, and the rest stays.
func TestForeignHistory(t *testing.T) {
	r := &ir.Request{Turns: []ir.Turn{user("x"), said(
		ir.Block{Kind: ir.HostedCall, Type: "server_tool_use", Raw: []byte(`{}`)},
		ir.Block{Kind: ir.HostedResult, Type: "web_search_tool_result", Raw: []byte(`{}`)}, text("found"))}}
	out := encode(t, r, ir.Target{Model: "m"})
	if got := input(t, out); strings.Count(got, "\n") != 1 || !slices.Equal(out.Lost, []string{"server_tool_use", "web_search_tool_result"}) {
		t.Errorf("%s lost %v", got, out.Lost)
	}
}

// TestPhases: messages of different phases are turns of their own.
func TestPhases(t *testing.T) {
	r := decode(t, `{"input":[{"type":"message","role":"assistant","phase":"commentary","content":"a"},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"message","role":"assistant","phase":"final_answer","content":"b"}]}`)
	if len(r.Turns) != 2 || r.Turns[0].Phase != "commentary" || len(r.Turns[0].Blocks) != 2 || r.Turns[1].Phase != "final_answer" {
		t.Fatalf("%+v", r.Turns)
	}
}

func TestAnswersOfOtherKinds(t *testing.T) {
	for _, body := range []string{``, `<html>`, `[]`, `{}`, `{"choices":[]}`, `{"status":"queued","output":[]}`, `"x"`, `{"output":"x"}`} {
		if events, err := decodeAnswer([]byte(body), ir.Source{}); err == nil {
			t.Errorf("%s: %s", body, show(events))
		}
	}
	for body, want := range map[string]string{
		`{"error":{"code":"server_is_overloaded","message":"m"}}`:                                "overloaded_error",
		`{"id":"r","status":"failed","output":[],"error":{"code":"server_error","message":"m"}}`: "api_error",
	} {
		events, err := decodeAnswer([]byte(body), ir.Source{})
		if err != nil || len(events) == 0 || events[len(events)-1].Kind != ir.EventFault || events[len(events)-1].Fault.Kind != want {
			t.Errorf("%s: %v %s", body, err, show(events))
		}
	}
}

// TestTooLong: what has to be kept of an answer is bounded.
func TestTooLong(t *testing.T) {
	e := newEncoder(reply())
	out := e.Append(nil, &ir.Event{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}})
	piece := strings.Repeat("x", 1<<20)
	for n := range 20 {
		out = e.Append(out[:0], &ir.Event{Kind: ir.EventDelta, Text: piece})
		if strings.Contains(string(out), "response.failed") {
			if n != 16 {
				t.Errorf("failed after %d MiB", n)
			}
			if more := e.Append(nil, &ir.Event{Kind: ir.EventDelta, Text: "y"}); more != nil {
				t.Error("it goes on")
			}
			return
		}
	}
	t.Error("never failed")
}

// TestTooMany: an answer of endless items or parts is a fault, not memory.
func TestTooMany(t *testing.T) {
	for _, format := range []string{
		`{"type":"response.output_text.delta","output_index":NNN,"content_index":0,"delta":"x"}`,
		`{"type":"response.output_text.delta","output_index":0,"content_index":NNN,"delta":"x"}`,
	} {
		d := newDecoder(ir.Source{})
		var last ir.Event
		for n := range maxItems + 2 {
			for _, e := range d.Event(nil, nil, []byte(strings.Replace(format, "NNN", itoa(int64(n)), 1))) {
				last = e
			}
			if last.Kind == ir.EventFault {
				break
			}
		}
		if last.Kind != ir.EventFault {
			t.Errorf("%s: no fault", format)
		}
	}
}

// TestFirstDeltaIsSentAtOnce: nothing is held back that can be said.
func TestFirstDeltaIsSentAtOnce(t *testing.T) {
	e := newEncoder(reply())
	out := e.Append(nil, &ir.Event{Kind: ir.EventStart})
	out = e.Append(out, &ir.Event{Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}})
	out = e.Append(out, &ir.Event{Kind: ir.EventDelta, Text: "x"})
	if got := string(out); !strings.Contains(got, `"delta":"x"`) || !strings.HasSuffix(got, "\n\n") {
		t.Error(got)
	}
	if got := string(e.Append(nil, &ir.Event{Kind: ir.EventAlive})); got != keepAlive {
		t.Errorf("SSE017: %q", got)
	}
}

// TestEcho: the answer repeats what the client asked, on one line whatever the client wrote.
func TestEcho(t *testing.T) {
	r := reply()
	r.Request = decode(t, "{\"input\":\"x\",\"temperature\":0.5,\"metadata\":{\n\"a\":\"b\\nc\"},\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"n\",\"schema\":{\n\"type\":\"object\"}}},\"tool_choice\":\"required\",\"parallel_tool_calls\":false,\"reasoning\":{\"effort\":\"high\"}}")
	e := newEncoder(r)
	var out []byte
	for _, ev := range bridged([]ir.Event{{Kind: ir.EventStart}, {Kind: ir.EventEnd}}, nil) {
		out = e.Append(out, &ev)
	}
	last := string(validate(t, string(out)))
	for _, want := range []string{`"temperature":0.5`, `"metadata":{ "a":"b\nc"}`, `"tool_choice":"required"`, `"parallel_tool_calls":false`, `"effort":"high"`, `"name":"n"`, `"instructions":null`, `"tools":[]`, `"usage":{"input_tokens":0`} {
		if !strings.Contains(last, want) {
			t.Errorf("no %s in %s", want, last)
		}
	}
}

// TestAnnotationOfChat: Chat nests what Responses has flat; others' citations are named.
func TestAnnotationOfChat(t *testing.T) {
	out, lost := encoded(t, bridged([]ir.Event{
		{Kind: ir.EventStart}, {Kind: ir.EventBlock, Start: &ir.Block{Kind: ir.Text}}, {Kind: ir.EventDelta, Text: "x"},
		{Kind: ir.EventCite, Raw: []byte(`{"type":"url_citation","url_citation":{"url":"u","title":"t"}}`)},
		{Kind: ir.EventCite, Raw: []byte(`{"type":"char_location","cited_text":"c"}`)},
		{Kind: ir.EventClose}, {Kind: ir.EventEnd},
	}, nil))
	if last := validate(t, out); !strings.Contains(string(last), `"annotations":[{"type":"url_citation","url":"u","title":"t"}]`) || !slices.Equal(lost, []string{"citations"}) {
		t.Errorf("%s %v", last, lost)
	}
}

// An item that ends as another type than it began closes what it has said: no block stays open behind it.
func TestItemEndsAsAnotherType(t *testing.T) {
	stream, err := os.ReadFile("../../../testdata/openai-responses/streams/parallel_interleaved.sse")
	if err != nil {
		t.Fatal(err)
	}
	done := bytes.Index(stream, []byte("event: response.output_item.done"))
	changed := append(bytes.Clone(stream[:done]), bytes.Replace(stream[done:], []byte(`"type": "function_call"`), []byte(`"type": "other_call"`), 1)...)
	if bytes.Equal(changed, stream) {
		t.Fatal("the stream has no such item")
	}
	sound(t, decodeFrames(framesOf(changed), "up"))
}
