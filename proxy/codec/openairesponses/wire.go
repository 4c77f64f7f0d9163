package openairesponses

import "coding-proxy/proxy/rawjson"

// wire holds the raw members of an event of a stream; which of them count is a matter of its type.
type wire struct {
	typ             []byte // without quotes
	output          int    // output_index, -1 where it is not said
	part            int    // content_index or summary_index
	sequence        int64  // -1 where it is not said
	itemID          []byte
	delta, text     []byte
	refusal, args   []byte
	input, item     []byte
	piece           []byte // the member called part
	annotation      []byte
	response, fault []byte
}

// scanEvent sorts an event's members. The name serves where the data has no type.
func scanEvent(name, data []byte) (w wire, ok bool) {
	w.output, w.sequence = -1, -1
	if len(data) == 0 || data[0] != '{' {
		return w, false
	}
	err := rawjson.Walk(data, func(key []byte, f rawjson.Field) error {
		w.put(key, f.Value(data))
		return nil
	})
	if len(w.typ) == 0 {
		w.typ = name
	}
	return w, err == nil
}

func (w *wire) put(key, v []byte) {
	switch string(key) {
	case "type":
		if len(v) > 2 && v[0] == '"' {
			w.typ = v[1 : len(v)-1]
		}
	case "output_index":
		if n, ok := rawjson.Int(v); ok && n >= 0 && n < 1<<31 {
			w.output = int(n)
		}
	case "content_index", "summary_index":
		if n, ok := rawjson.Int(v); ok && n >= 0 && n < 1<<31 {
			w.part = int(n)
		}
	case "sequence_number":
		if n, ok := rawjson.Int(v); ok && n >= 0 {
			w.sequence = n
		}
	case "item_id":
		w.itemID = v
	case "delta":
		w.delta = v
	case "text":
		w.text = v
	case "refusal":
		w.refusal = v
	case "arguments":
		w.args = v
	case "input":
		w.input = v
	case "item":
		w.item = v
	case "part":
		w.piece = v
	case "annotation":
		w.annotation = v
	case "response":
		w.response = v
	case "error":
		w.fault = v
	}
}
