package demo_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

const (
	itemAsks   = `{"role":"user","content":"hi"}`
	itemCall   = `{"type":"function_call","call_id":"c1","name":"a","arguments":"{}"}`
	itemResult = `{"type":"function_call_output","call_id":"c1","output":"done"}`
	itemCustom = `{"type":"custom_tool_call","call_id":"c2","name":"p","input":"raw"}`
	itemDone   = `{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"done"},{"type":"input_image","image_url":"` + pngURL + `"}]}`
	itemThinks = `{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"hm"}],"encrypted_content":"gAAAAx"}`
)

func itemsOf(items ...string) string {
	return `{"model":"gpt-5","store":false,"input":[` + strings.Join(items, ",") + `]}`
}

func TestResponsesRequests(t *testing.T) {
	h := func(members string) string { return with(responsesHello, members) }
	tool := `{"type":"function","name":"a","parameters":{"type":"object"},"strict":false}`
	part := func(p string) string { return itemsOf(`{"role":"user","content":[` + p + `]}`) }
	runChecks(t, demo.Options{}, responsesPath, map[string]check{
		"all kinds of fields":    {h(`"instructions":"be","include":["reasoning.encrypted_content"],"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"json_schema","name":"r","schema":{}},"verbosity":"low"},"tools":[` + tool + `,{"type":"web_search"},{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}},{"type":"namespace","name":"n","description":"d","tools":[` + tool + `]}],"tool_choice":{"type":"function","name":"a"},"max_output_tokens":16`), ""},
		"no JSON":                {`nope`, "could not parse"},
		"no model":               {`{"input":"a"}`, "'model'. param=model"},
		"no input":               {`{"model":"m"}`, "must be provided"},
		"empty input":            {`{"model":"m","input":[]}`, "Invalid 'input': empty array"},
		"unknown field":          {h(`"messages":[]`), "Unknown parameter: 'messages'. param=messages code=\"unknown_parameter\""},
		"chat's stop":            {h(`"stop":"a"`), "'stop'"},
		"chat's max_tokens":      {h(`"max_tokens":5`), "'max_tokens'"},
		"nested tool":            {h(`"tools":[` + functionTool("a", `{}`) + `]`), "'tools[0].name'"},
		"unknown tool":           {h(`"tools":[{"type":"bash"}]`), "Invalid value: 'bash'"},
		"unknown item":           {itemsOf(`{"type":"tool_use"}`), "Invalid value: 'tool_use'"},
		"unknown item field":     {itemsOf(`{"role":"user","content":"a","name":"x"}`), "'input[0].name'"},
		"unknown role":           {itemsOf(`{"role":"tool","content":"a"}`), "Invalid value: 'tool'"},
		"text part of chat":      {part(`{"type":"text","text":"a"}`), "Invalid value: 'text'. Supported values are: 'input_text'"},
		"input_text said":        {itemsOf(itemAsks, `{"role":"assistant","content":[{"type":"input_text","text":"a"}]}`), "Supported values are: 'output_text', 'refusal'"},
		"output_text asked":      {part(`{"type":"output_text","text":"a"}`), "Invalid value: 'output_text'"},
		"wrong type":             {h(`"store":"no"`), "Invalid type for 'store'"},
		"include":                {h(`"include":["everything"]`), "Invalid value: 'everything'"},
		"small maximum":          {h(`"max_output_tokens":5`), "param=max_output_tokens"},
		"temperature":            {h(`"temperature":3`), "param=temperature"},
		"temperature of gpt-5":   {strings.Replace(h(`"temperature":0.2`), "gpt-4.1", "gpt-5", 1), "does not support 0.2"},
		"tool name":              {h(`"tools":[{"type":"function","name":"a b"}]`), "param=tools[0].name"},
		"name in a namespace":    {h(`"tools":[{"type":"namespace","name":"n","description":"d","tools":[{"type":"function","name":"a.b"}]}]`), "param=tools[0].name"},
		"schema root":            {h(`"tools":[{"type":"function","name":"a","parameters":{"type":"array"}}]`), "Invalid schema for function 'a'"},
		"required without tools": {h(`"tool_choice":"required"`), "'required' must be specified with 'tools'"},
		"choice of no tool":      {h(`"tools":[` + tool + `],"tool_choice":{"type":"function","name":"b"}`), "not found in 'tools'"},
		"format name":            {h(`"text":{"format":{"type":"json_schema","name":"a b","schema":{}}}`), "text.format.name"},
		"image without source":   {part(`{"type":"input_image","detail":"auto"}`), "exactly one of 'image_url' and 'file_id'"},
		"image/tiff":             {part(`{"type":"input_image","detail":"auto","image_url":"data:image/tiff;base64,aaaa"}`), "unsupported image"},
		"file":                   {part(`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,aaaa"}`), ""},
		"raw file":               {part(`{"type":"input_file","filename":"a.pdf","file_data":"aaaa"}`), "data URL"},
		"file without source":    {part(`{"type":"input_file","filename":"a.pdf"}`), "exactly one"},
		"both states":            {h(`"previous_response_id":"resp_1","conversation":"c"`), "Mutually exclusive"},
		"unknown previous":       {h(`"previous_response_id":"resp_1"`), `404 'resp_1' not found. param=previous_response_id code="previous_response_not_found"`},
	})
}

func TestResponsesItems(t *testing.T) {
	runChecks(t, demo.Options{}, responsesPath, map[string]check{
		"turns":                {itemsOf(`{"role":"developer","content":"be"}`, itemAsks, `{"role":"assistant","content":"a"}`, itemAsks), ""},
		"a call":               {itemsOf(itemAsks, itemThinks, itemCall, itemResult), ""},
		"two calls":            {itemsOf(itemAsks, itemCall, itemCustom, itemDone, itemResult, itemAsks), ""},
		"no output":            {itemsOf(itemAsks, itemCall), "No tool output found for function call c1."},
		"no custom output":     {itemsOf(itemAsks, itemCustom), "No tool output found for custom tool call c2."},
		"output without call":  {itemsOf(itemAsks, itemResult), "No tool call found for function call output with call_id c1."},
		"output before call":   {itemsOf(itemAsks, itemResult, itemCall), "No tool call found"},
		"output of other kind": {itemsOf(itemAsks, strings.Replace(itemCustom, "c2", "c1", 1), itemResult), "No tool output found for custom tool call c1."},
		"output twice":         {itemsOf(itemAsks, itemCall, itemResult, itemResult), "No tool call found"},
		"call twice":           {itemsOf(itemAsks, itemCall, itemCall, itemResult), "Duplicate call_id"},
		"long call_id":         {itemsOf(itemAsks, strings.ReplaceAll(itemCall+","+itemResult, "c1", strings.Repeat("c", 65))), "maximum length 64"},
		"empty call_id":        {itemsOf(itemAsks, strings.ReplaceAll(itemCall+","+itemResult, "c1", "")), "empty string"},
		"name":                 {itemsOf(itemAsks, strings.Replace(itemCall, `"a"`, `"a.b"`, 1), itemResult), "param=input[1].name"},
		"arguments":            {itemsOf(itemAsks, strings.Replace(itemCall, `"{}"`, `{}`, 1), itemResult), "'input[1].arguments'"},
		"error flag":           {itemsOf(itemAsks, itemCall, strings.Replace(itemResult, `"done"`, `"done","is_error":true`, 1)), "'input[2].is_error'"},
		"item_reference":       {itemsOf(itemAsks, `{"type":"item_reference","id":"msg_1"}`), "404 Item with id 'msg_1' not found. Items are not persisted when `store` is set to false."},
		"bare reasoning":       {itemsOf(itemAsks, `{"type":"reasoning","id":"rs_9","summary":[]}`), "404 Item with id 'rs_9' not found."},
		"bare id":              {itemsOf(itemAsks, `{"id":"msg_7"}`), "404 Item with id 'msg_7' not found."},
		"reasoning without id": {itemsOf(itemAsks, `{"type":"reasoning","summary":[]}`), "'input[1].id'"},
		"reasoning of anyone":  {itemsOf(itemAsks, itemThinks, `{"role":"assistant","content":"a"}`), ""},
	})
}

func TestResponsesAreStored(t *testing.T) {
	p, url := serve(t, demo.Options{})
	p.Push(demo.Step{Text: "kept", Tools: []demo.Tool{{ID: "c1", Name: "a"}}}, demo.Step{Text: "not kept"})
	var kept struct{ ID string }
	body := read(t, ask(t, url, responsesPath, responsesHello))
	if err := json.Unmarshal([]byte(body), &kept); err != nil {
		t.Fatal(err)
	}
	if got := read(t, get(t, url+responsesPath+"/"+kept.ID)); !strings.Contains(got, "x-api-key") && !strings.Contains(got, "API key") {
		t.Error(got) // an Anthropic header is no credential here
	}
	look := func(id string) string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+responsesPath+"/"+id, nil)
		if err != nil {
			t.Fatal(err)
		}
		return read(t, send(t, request, sender("openai-responses")))
	}
	if got := look(kept.ID); got != body {
		t.Errorf("%s\nwant %s", got, body)
	}
	if got := look("resp_9"); !strings.Contains(got, "Response with id 'resp_9' not found.") {
		t.Error(got)
	}
	var other struct{ ID string }
	if err := json.Unmarshal([]byte(read(t, ask(t, url, responsesPath, with(responsesHello, `"store":false`)))), &other); err != nil {
		t.Fatal(err)
	}
	if got := look(other.ID); !strings.Contains(got, "not found") {
		t.Error(got)
	}
	goesOn := `{"model":"gpt-5","previous_response_id":"` + kept.ID + `","input":[` + itemResult + `]}`
	if response := ask(t, url, responsesPath, goesOn); response.StatusCode != http.StatusOK {
		t.Errorf("%d %s", response.StatusCode, read(t, response))
	}
}

func TestUpgradesAreRefused(t *testing.T) {
	_, url := serve(t, demo.Options{})
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+responsesPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := send(t, request, sender("openai-responses"), func(h http.Header) { h.Set("upgrade", "websocket") }); got.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("%d", got.StatusCode)
	}
}

// responsesTrace checks what SDKs check, and writes the types without their beginning.
func responsesTrace(t *testing.T, list []frame) string {
	t.Helper()
	var trace []string
	open, id := map[int]bool{}, ""
	for i, f := range list {
		var e struct {
			Type     string
			Sequence *int `json:"sequence_number"`
			Output   *int `json:"output_index"`
			Response *struct {
				ID, Status string
				Output     []json.RawMessage
				Usage      *struct {
					Total *int `json:"total_tokens"`
				}
			}
		}
		if err := json.Unmarshal([]byte(f.data), &e); err != nil || e.Type != f.event || e.Sequence == nil || *e.Sequence != i {
			t.Fatalf("event %d: %v: %+v", i, err, f)
		}
		if e.Response != nil {
			if id == "" {
				id = e.Response.ID
			}
			if e.Response.ID != id {
				t.Errorf("id %s, then %s", id, e.Response.ID)
			}
		}
		switch {
		case e.Type == "response.output_item.added":
			if open[*e.Output] || *e.Output != len(open) {
				t.Errorf("output_index %d of item %d", *e.Output, len(open))
			}
			open[*e.Output] = true
		case e.Output != nil && !open[*e.Output]:
			t.Errorf("%s for item %d that was not added", e.Type, *e.Output)
		case e.Response != nil && e.Response.Status != "in_progress":
			if len(e.Response.Output) != len(open) || e.Response.Usage == nil || e.Response.Usage.Total == nil {
				t.Errorf("the end has not all: %s", f.data)
			}
		}
		trace = append(trace, strings.TrimPrefix(e.Type, "response."))
	}
	return strings.Join(trace, " ")
}

func TestResponsesStreams(t *testing.T) {
	const text = "output_item.added content_part.added output_text.delta output_text.delta output_text.done content_part.done output_item.done"
	const thinks = "output_item.added reasoning_summary_part.added reasoning_summary_text.delta reasoning_summary_text.done reasoning_summary_part.done output_item.done"
	for name, test := range map[string]struct {
		step demo.Step
		want string
	}{
		"text":     {demo.Step{Text: "a b"}, "created in_progress " + text + " completed"},
		"thinking": {demo.Step{Thinking: "hm", Text: "a b"}, "created in_progress " + thinks + " " + text + " completed"},
		"calls": {demo.Step{Tools: []demo.Tool{{Name: "x", Input: json.RawMessage(`{"a":"0123456789012345678901"}`)}, {Name: "p", Custom: "raw"}}},
			"created in_progress output_item.added function_call_arguments.delta function_call_arguments.delta function_call_arguments.done output_item.done " +
				"output_item.added custom_tool_call_input.delta custom_tool_call_input.done output_item.done completed"},
		"length":  {demo.Step{Text: "a b", StopReason: "max_tokens"}, "created in_progress " + text + " incomplete"},
		"refusal": {demo.Step{Text: "no", StopReason: "refusal"}, "created in_progress output_item.added content_part.added refusal.delta refusal.done content_part.done output_item.done completed"},
		"filter":  {demo.Step{Thinking: "hm", StopReason: "refusal"}, "created in_progress " + thinks + " incomplete"},
	} {
		t.Run(name, func(t *testing.T) {
			p, url := serve(t, demo.Options{})
			test.step.Pings = 1
			p.Push(test.step)
			body := read(t, ask(t, url, responsesPath, with(responsesHello, `"stream":true`)))
			list, _ := frames(strings.NewReader(strings.Replace(body, ": ping\n\n", "", 1)))
			if got := responsesTrace(t, list); got != test.want {
				t.Errorf(" got %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestResponsesAnswerIsTheStreamsEnd(t *testing.T) {
	var got [2]string
	for i, flag := range []string{`"stream":false`, `"stream":true`} {
		at := 0
		p, url := serve(t, demo.Options{Now: fixed(&at)})
		step := everything()
		step.Usage.Reasoning = 9
		p.Push(step)
		got[i] = read(t, ask(t, url, responsesPath, with(responsesHello, flag)))
	}
	list, _ := frames(strings.NewReader(got[1][strings.Index(got[1], "event: response.completed"):]))
	var end struct{ Response json.RawMessage }
	if err := json.Unmarshal([]byte(list[0].data), &end); err != nil || strings.ReplaceAll(string(end.Response), `"input_tokens":11`, "") != strings.ReplaceAll(got[0], `"input_tokens":11`, "") {
		t.Errorf("plain %s\n  end %s", got[0], end.Response)
	}
	for _, want := range []string{
		`"usage":{"input_tokens":23,"input_tokens_details":{"cached_tokens":6,"cache_write_tokens":5},"output_tokens":34,"output_tokens_details":{"reasoning_tokens":9},"total_tokens":57}`,
		`"type":"reasoning","summary":[{"type":"summary_text","text":"They want a list."}],"encrypted_content":"gAAAA`,
		`"type":"function_call","status":"completed","call_id":"toolu_mine","name":"Now","arguments":"{}"`,
	} {
		if !strings.Contains(got[0], want) {
			t.Errorf("want %s in %s", want, got[0])
		}
	}
}
