package openaichat

import (
	"strconv"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// maxCalls bounds the calls of one answer.
const maxCalls = 1024

// call is a call of the answer as far as it has come.
type call struct {
	choice, index int
	id, name      string
	form          string
	minted        bool // the id is ours: one that comes late changes nothing
	begun, open   bool
	closed        bool
	n             int    // ordinal
	early         []byte // arguments that came before the name
	state         *ir.State
	args          progress
	pieces        rawjson.Pieces
}

// fragment is an element of delta.tool_calls.
type fragment struct {
	index          int // -1: not said
	id, name, form string
	args           []byte
	signature      string
}

// functionIndex is the index under which the deprecated function_call stands.
const functionIndex = -2

// toolCall reads an element of delta.tool_calls.
func (d *decoder) toolCall(choice, position int, raw []byte) {
	f := fragment{index: -1}
	var inner []byte
	_ = rawjson.Walk(raw, func(key []byte, field rawjson.Field) error {
		v := field.Value(raw)
		switch string(key) {
		case "index":
			if n, ok := rawjson.Int(v); ok && n >= 0 && n < 1<<20 {
				f.index = int(n)
			}
		case "id":
			f.id, _ = rawjson.String(v)
		case "function":
			inner = v
		case "custom":
			if isObject(v) {
				inner, f.form = v, ir.FormCustom
			}
		case "extra_content":
			f.signature = signature(v)
		}
		return nil
	})
	f.read(inner)
	d.fragment(d.find(choice, position, &f), &f)
}

// functionCall reads the deprecated delta.function_call.
func (d *decoder) functionCall(choice int, raw []byte) {
	f := fragment{index: functionIndex}
	f.read(raw)
	d.fragment(d.find(choice, 0, &f), &f)
}

// read takes the name and the arguments.
func (f *fragment) read(inner []byte) {
	if !isObject(inner) {
		return
	}
	_ = rawjson.Walk(inner, func(key []byte, field rawjson.Field) error {
		v := field.Value(inner)
		switch string(key) {
		case "name":
			f.name, _ = rawjson.String(v)
		case "arguments", "input":
			if !isNull(v) {
				f.args = v
			}
		}
		return nil
	})
}

// find returns the call to which a fragment belongs: by its index, else by its id, else the last one. A new id on a known
// index is a new call (some vendors send index 0 for all), and so is another name.
func (d *decoder) find(choice, position int, f *fragment) *call {
	var c *call
	for i := len(d.calls) - 1; i >= 0 && c == nil; i-- {
		k := d.calls[i]
		switch {
		case k.choice != choice:
		case f.index != -1 && k.index == f.index:
			c = k
		case f.index == -1 && f.id != "" && k.id == f.id:
			return k
		case f.index == -1 && f.id == "" && (f.name == "" || f.name == k.name && !k.args.whole()):
			c = k
		}
	}
	switch {
	case c == nil || d.isNew(c, f):
		if f.id != "" { // an earlier one of this index that is sent again
			for _, k := range d.calls {
				if k.choice == choice && k.id == f.id && (f.name == "" || k.name == f.name) {
					return k
				}
			}
		}
		index := f.index
		if index == -1 {
			index = position
		}
		c = &call{choice: choice, index: index}
		if len(d.calls) < maxCalls {
			d.calls = append(d.calls, c)
		}
	}
	return c
}

// isNew reports whether a fragment with the index of a call begins another one.
func (d *decoder) isNew(c *call, f *fragment) bool {
	switch {
	case f.id != "" && c.id != "" && !c.minted:
		return f.id != c.id
	case f.name == "" || c.name == "":
		return false
	case f.name != c.name:
		return true
	case !c.args.whole() || f.args == nil:
		return false
	}
	s, _ := rawjson.String(f.args) // the same name again behind whole arguments: sent twice, or a second call?
	var again progress
	again.add(s)
	return again.whole() && again.hash != c.args.hash
}

// fragment adds what came to a call.
func (d *decoder) fragment(c *call, f *fragment) {
	if c.id == "" {
		c.id = f.id
	}
	if c.name == "" {
		c.name = f.name
	}
	if f.form != "" {
		c.form = f.form
	}
	if f.signature != "" {
		c.state = &ir.State{Owner: d.src.Owner, Data: f.signature}
		if c.open {
			d.emit(ir.Event{Kind: ir.EventState, Block: c.n, State: c.state})
		}
	}
	s := ""
	switch {
	case isString(f.args):
		s, _ = c.pieces.Next(f.args)
	case f.args != nil: // an object instead of its text
		s = string(f.args)
	}
	if c.name == "" { // not yet: what is called is not known
		if len(c.early)+len(s) <= maxOpaque {
			c.early = append(c.early, s...)
		}
		return
	}
	if !c.begun {
		d.beginCall(c)
	}
	d.arguments(c, s, f.name != "" || f.id != "")
}

// beginCall opens a call. Calls before it that are whole are closed; half ones may go on beside it.
func (d *decoder) beginCall(c *call) {
	if len(d.calls) >= maxCalls && d.calls[len(d.calls)-1] != c {
		c.closed = true // too many: bounded memory
		return
	}
	d.closeText()
	d.blank = ""
	d.closeCalls()
	if !d.busy() {
		d.release()
		d.closeText()
	}
	c.begun, c.open, c.n = true, true, d.blocks
	d.blocks++
	if c.id == "" {
		c.id, c.minted = "call_"+d.src.Seed+"_"+strconv.Itoa(c.n), true
	}
	b := &ir.Block{Kind: ir.ToolCall, ID: c.id, ToolName: ir.ToolName{Name: c.name}, Form: c.form, State: c.state}
	d.emit(ir.Event{Kind: ir.EventBlock, Block: c.n, Start: b})
	if len(c.early) > 0 {
		d.arguments(c, string(c.early), false)
		c.early = nil
	}
}

// arguments passes on more of a call's arguments. headed: id or name came with them, as in an object that is sent again.
func (d *decoder) arguments(c *call, s string, headed bool) {
	if s == "" || !c.open {
		return
	}
	if c.form == "" {
		if c.args.whole() {
			return // sent twice, or white space behind
		}
		if headed && c.args.length > 0 && c.args.follows(s) {
			var all progress
			all.add(s)
			if all.whole() { // the whole of it: what has not come yet is new
				s = s[c.args.length:]
			}
		}
	}
	if s == "" {
		return
	}
	c.args.add(s)
	d.emit(ir.Event{Kind: ir.EventDelta, Block: c.n, Text: s})
}

// closeCalls closes the calls that are whole.
func (d *decoder) closeCalls() {
	for _, c := range d.calls {
		if c.open && c.form == "" && c.args.whole() {
			d.closeCall(c)
		}
	}
}

// settle makes a call of what had arguments or an id but never a name.
func (d *decoder) settle(c *call) {
	if !c.begun && !c.closed && (len(c.early) > 0 || c.id != "") {
		c.name = "unknown_tool"
		d.beginCall(c)
	}
}

func (d *decoder) closeCall(c *call) {
	d.settle(c)
	if !c.open {
		return
	}
	if s := c.pieces.End(); s != "" {
		d.emit(ir.Event{Kind: ir.EventDelta, Block: c.n, Text: s})
	}
	c.open, c.closed = false, true
	d.emit(ir.Event{Kind: ir.EventClose, Block: c.n})
}
