package openairesponses

import (
	"bytes"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
	"coding-proxy/proxy/sse"
)

// tap reads a stream on the side. It asks every event, as it must know the last sequence number.
type tap struct {
	id       string
	model    string
	created  int64
	sequence int64 // of the last event, -1 before the first
}

// Mark tells what an event means.
func (t *tap) Mark(name, data []byte) ir.Mark {
	w, ok := scanEvent(name, data)
	if !ok {
		return ir.Mark{}
	}
	t.sequence = max(t.sequence, w.sequence)
	switch string(w.typ) {
	case "response.created", "response.in_progress", "response.queued":
		if t.id == "" {
			t.id, t.model = stringOf(w.response, "id"), stringOf(w.response, "model")
			t.created, _ = rawjson.Int(rawjson.Get(w.response, "created_at"))
		}
		if string(w.typ) != "response.created" {
			return ir.Mark{}
		}
		return ir.Mark{Kind: ir.MarkStart, ID: t.id, Usage: readUsage(rawjson.Get(w.response, "usage"))}
	case "response.completed", "response.incomplete":
		output := rawjson.Get(w.response, "output")
		usage, reason := plain(func(name string) []byte { return rawjson.Get(w.response, name) })
		return ir.Mark{Kind: ir.MarkStop, Content: hasElements(output), Usage: usage, StopReason: reason}
	case "response.failed", "response.cancelled":
		f := readFault(0, w.response)
		return ir.Mark{Kind: ir.MarkError, Usage: readUsage(rawjson.Get(w.response, "usage")), Fault: &f}
	case "error":
		f := readFault(0, data)
		return ir.Mark{Kind: ir.MarkError, Fault: &f}
	case "response.output_item.added", "response.output_item.done":
		m := content(itemSays(w.item))
		if string(w.typ) == "response.output_item.done" {
			m.ID = stringOf(w.item, "id")
		}
		return m
	}
	return content(says(w.delta) || says(w.text) || says(w.refusal) || says(w.args) || says(w.input))
}

func content(is bool) ir.Mark {
	if is {
		return ir.Mark{Kind: ir.MarkDelta, Content: true}
	}
	return ir.Mark{}
}

// says reports whether a raw string is not empty.
func says(raw []byte) bool { return len(raw) > 2 && raw[0] == '"' }

func hasElements(list []byte) bool {
	return len(list) > 2 && list[0] == '[' && len(bytes.TrimSpace(list[1:len(list)-1])) > 0
}

// itemSays reports whether an item is content: a call's name is, a message or reasoning without any text is not.
func itemSays(raw []byte) bool {
	if !isObjectRaw(raw) {
		return false
	}
	switch stringOf(raw, "type") {
	case "", "reasoning":
		return hasElements(rawjson.Get(raw, "summary")) || hasElements(rawjson.Get(raw, "content"))
	case "message":
		content, some := rawjson.Get(raw, "content"), false
		if !hasElements(content) {
			return false
		}
		_ = rawjson.Elements(content, func(_ int, p []byte) error {
			some = some || says(rawjson.Get(p, "text")) || says(rawjson.Get(p, "refusal"))
			return nil
		})
		return some
	}
	return true
}

// Break ends a broken stream: Codex knows no other end (facts/clients.md, 2).
func (t *tap) Break(dst []byte, f *ir.Fault, trace string) []byte {
	id := t.id
	if id == "" {
		id = "resp_" + trace
	}
	var w rawjson.Writer
	w.Open('{')
	w.Field("type", "response.failed")
	w.Number("sequence_number", t.sequence+1)
	w.Key("response")
	w.Open('{')
	w.Field("id", id)
	w.Field("object", "response")
	w.Number("created_at", t.created)
	w.Field("status", "failed")
	w.Key("error")
	writeError(&w, f)
	w.Key("incomplete_details")
	w.Null()
	w.Field("model", t.model)
	w.Key("output")
	w.Raw([]byte("[]"))
	w.Key("usage")
	w.Null()
	w.Close('}')
	w.Close('}')
	return sse.Append(dst, "response.failed", w.Buf)
}

// Finish cannot be: a stream without its last event is broken.
func (t *tap) Finish([]byte) (out []byte, reason string) { return nil, "" }

// plain reads a plain answer's usage and why it ended, in the API's words.
func plain(value func(name string) []byte) (ir.Usage, string) {
	reason, _ := rawjson.String(value("status"))
	if detail := stringOf(value("incomplete_details"), "reason"); detail != "" {
		reason = detail
	}
	return readUsage(value("usage")), reason
}

// repair takes reasoning that its reader cannot decrypt out of a request.
func repair(body []byte, how ir.Repair) (out []byte, removed []string, err error) {
	var edits []rawjson.Edit
	err = rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		if v := f.Value(body); string(key) == "input" && v[0] == '[' {
			text, err := repairInput(v, how)
			if text != nil {
				edits = append(edits, rawjson.Edit{Start: f.ValueStart, End: f.ValueEnd, Text: text})
			}
			return err
		}
		return nil
	})
	if err != nil || len(edits) == 0 {
		return nil, nil, err
	}
	return bytes.Join(rawjson.Splice(body, edits...), nil), []string{"reasoning"}, nil
}

// repairInput returns the input without what has to go, nil where nothing has. The items that stay are the same bytes.
func repairInput(input []byte, how ir.Repair) ([]byte, error) {
	var items [][]byte
	lastUser := -1
	err := rawjson.Elements(input, func(i int, raw []byte) error {
		items = append(items, raw)
		if how == ir.RepairClosed && isObjectRaw(raw) && stringOf(raw, "role") == "user" {
			lastUser = i
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := append(make([]byte, 0, len(input)), '[')
	kept := 0
	for i, raw := range items {
		if isObjectRaw(raw) && mustGo(raw, how == ir.RepairAll || i < lastUser) {
			continue
		}
		if kept++; kept > 1 {
			out = append(out, ',')
		}
		out = append(out, raw...)
	}
	if kept == len(items) || kept == 0 { // an empty input is refused: better what its reader says of this one
		return nil, nil
	}
	return append(out, ']'), nil
}

// mustGo reports whether an item is reasoning with opaque state, or an id in its place: any, or what we
// sealed for another owner.
func mustGo(raw []byte, any bool) bool {
	if stringOf(raw, "type") != "reasoning" {
		return false
	}
	opaque := stringOf(raw, "encrypted_content")
	if opaque == "" {
		return any && stringOf(raw, "id") != ""
	}
	return any || ir.Sealed(opaque)
}
