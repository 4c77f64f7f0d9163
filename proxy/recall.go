package proxy

import (
	"container/list"
	"sync"

	"coding-proxy/proxy/ir"
)

// Bounds of what is remembered for clients whose dialect has no place for opaque state.
const (
	maxRecalled      = 20_000
	maxRecalledBytes = 32 << 20
)

// recall remembers, by caller and call id, the reasoning that came before a call and the state of the call itself. Clients
// of Chat Completions send neither back, but providers want them (design/conversion.md, 10). In memory, the oldest go first.
type recall struct {
	mu    sync.Mutex
	m     map[string]*list.Element
	order list.List // of *recalled, the oldest in front
	bytes int
}

// recalled is what belongs to one call.
type recalled struct {
	id       string
	thinking []ir.Block
	state    *ir.State
	size     int
}

func (r *recall) put(caller, id string, thinking []ir.Block, state *ir.State) {
	e := &recalled{id: caller + "\x00" + id, thinking: thinking, state: state}
	e.size = len(e.id) + 64
	for _, b := range thinking {
		e.size += len(b.Text)
		if b.State != nil {
			e.size += len(b.State.Data)
		}
	}
	if state != nil {
		e.size += len(state.Data)
	}
	if e.size > maxRecalledBytes/8 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.m == nil {
		r.m = map[string]*list.Element{}
	}
	if old := r.m[e.id]; old != nil {
		r.drop(old)
	}
	r.m[e.id] = r.order.PushBack(e)
	r.bytes += e.size
	for len(r.m) > maxRecalled || r.bytes > maxRecalledBytes {
		r.drop(r.order.Front())
	}
}

func (r *recall) drop(e *list.Element) {
	old, _ := r.order.Remove(e).(*recalled)
	delete(r.m, old.id)
	r.bytes -= old.size
}

func (r *recall) get(caller, id string) *recalled {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.m[caller+"\x00"+id]
	if e == nil {
		return nil
	}
	r.order.MoveToBack(e)
	found, _ := e.Value.(*recalled)
	return found
}

// restore puts what is remembered back into a request: reasoning in front of its turn or, where there was more of it, of
// the calls that it came before, in place of what the client has kept of it; and the states of calls.
func (r *recall) restore(caller string, req *ir.Request) {
	for i := range req.Turns {
		if t := &req.Turns[i]; t.Role == ir.Assistant {
			t.Blocks = r.restoreTurn(caller, t.Blocks)
		}
	}
}

func (r *recall) restoreTurn(caller string, blocks []ir.Block) []ir.Block {
	before := make(map[int][]ir.Block) // by the index of the call
	first := -1
	for i := range blocks {
		b := &blocks[i]
		if b.Kind != ir.ToolCall {
			continue
		}
		found := r.get(caller, b.ID)
		if found == nil {
			continue
		}
		if b.State == nil {
			b.State = found.state
		}
		if len(found.thinking) == 0 {
			continue
		}
		if before[i] = found.thinking; first < 0 {
			first = i
		}
	}
	if first < 0 {
		return blocks
	}
	out := append([]ir.Block(nil), before[first]...)
	for i, b := range blocks {
		if i != first {
			out = append(out, before[i]...)
		}
		if b.Kind != ir.Thinking {
			out = append(out, b)
		}
	}
	return out
}

// listener gathers from the events of an answer what put keeps.
type listener struct {
	r        *recall
	caller   string
	id       func(string) string // nil: as it is
	blocks   map[int]*heard
	thinking []ir.Block
}

// heard is a block that has begun.
type heard struct {
	ir.Block
	text []byte
}

// hear takes the next event, as the client will see it.
func (l *listener) hear(e *ir.Event) {
	b := l.blocks[e.Block]
	switch {
	case e.Kind == ir.EventBlock:
		if k := e.Start.Kind; k == ir.Thinking || k == ir.ToolCall {
			if l.blocks == nil {
				l.blocks = map[int]*heard{}
			}
			l.blocks[e.Block] = &heard{Block: *e.Start}
		}
	case b == nil:
	case e.Kind == ir.EventDelta && b.Kind == ir.Thinking && len(b.text) < maxRecalledBytes/8:
		b.text = append(b.text, e.Text...)
	case e.Kind == ir.EventState:
		b.State = e.State
	case e.Kind == ir.EventClose:
		delete(l.blocks, e.Block)
		l.close(b)
	}
}

func (l *listener) close(b *heard) {
	if b.Kind == ir.Thinking {
		b.Text = string(b.text)
		l.thinking = append(l.thinking, b.Block)
		return
	}
	if l.id != nil && b.ID != "" {
		b.ID = l.id(b.ID)
	}
	if b.ID != "" && (b.State != nil || len(l.thinking) > 0) {
		l.r.put(l.caller, b.ID, l.thinking, b.State)
		l.thinking = nil // it belongs to the first call of the turn
	}
}
