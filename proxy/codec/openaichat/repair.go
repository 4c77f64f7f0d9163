package openaichat

import (
	"slices"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// opaqueMembers are the members of a message that hold opaque state: OpenRouter's and Copilot's, and Google's.
var opaqueMembers = map[string]bool{"reasoning_details": true, "reasoning_opaque": true, "extra_content": true}

// repairer gathers the edits that take opaque state out of a request.
type repairer struct {
	body    []byte
	edits   []rawjson.Edit
	removed []string
}

// repair takes opaque state out of a request (routing.md, 10). Nothing else stands or falls with it here: the text of the
// reasoning stays, and no message becomes empty.
func repair(body []byte, how ir.Repair) (out []byte, removed []string, err error) {
	r := &repairer{body: body}
	messages := rawjson.Get(body, "messages")
	if !isArray(messages) {
		return nil, nil, nil
	}
	last := 0 // the index of the last message that is the user's own
	err = rawjson.Elements(messages, func(i int, v []byte) error {
		if string(rawjson.Get(v, "role")) == `"user"` {
			last = i
		}
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	err = rawjson.Elements(messages, func(i int, v []byte) error {
		if !isObject(v) {
			return nil
		}
		return r.message(v, how == ir.RepairAll || how == ir.RepairClosed && i < last)
	})
	if err != nil || len(r.edits) == 0 {
		return nil, nil, err
	}
	for _, piece := range rawjson.Splice(body, r.edits...) {
		out = append(out, piece...)
	}
	return out, r.removed, nil
}

// message takes state out of one message: all of it, or only what we sealed.
func (r *repairer) message(raw []byte, all bool) error {
	if all {
		if err := r.remove(raw); err != nil {
			return err
		}
	}
	calls := rawjson.Get(raw, "tool_calls")
	if !isArray(calls) {
		return nil
	}
	return rawjson.Elements(calls, func(_ int, v []byte) error {
		if !isObject(v) || !all && !sealed(rawjson.Get(v, "extra_content")) {
			return nil
		}
		return r.remove(v)
	})
}

func sealed(extra []byte) bool { return ir.Sealed(signature(extra)) }

// remove notes the edits that take opaque members out of an object of the body.
func (r *repairer) remove(object []byte) error {
	edits, err := rawjson.Remove(object, opaqueMembers)
	if err != nil || len(edits) == 0 {
		return err
	}
	at := cap(r.body) - cap(object) // both end with the same memory
	for _, e := range edits {
		e.Start, e.End = e.Start+at, e.End+at
		r.edits = append(r.edits, e)
	}
	return rawjson.Walk(object, func(key []byte, _ rawjson.Field) error {
		if opaqueMembers[string(key)] && !slices.Contains(r.removed, string(key)) {
			r.removed = append(r.removed, string(key))
		}
		return nil
	})
}
