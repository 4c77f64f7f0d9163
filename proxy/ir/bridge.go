package ir

// Bridge stands between the decoder of an upstream's answer and the encoder of the client's. It guarantees to the
// encoder: EventStart first and once; blocks closed before EventFinish; EventUsage before EventFinish wherever the
// upstream sent it at all, and none after it; exactly one EventFinish, then EventEnd; nothing after EventEnd or
// EventFault. It restores the client's tool names and forms, and settles the reason of the end by the calls that were
// made. The zero Bridge with its fields set is ready.
type Bridge struct {
	Tools *ToolBook

	started, ended bool
	blocks         []open
	calls          int // whole ones
	args           int // bytes of all calls' arguments
	stop           *Stop
	usage          Usage
}

// Bounds of an answer: of each block the bridge and the encoder remember something to the end, and calls are gathered
// where the client's dialect has them whole.
const (
	maxBlocks = 1 << 14
	maxArgs   = 32 << 20 // bytes
)

// open is what the bridge knows of a block that has begun.
type open struct {
	open   bool
	call   bool
	unwrap bool   // the input of a free-text call, wrapped into JSON on the wire
	args   []byte // of unwrap: gathered
}

// Next turns a decoder's event into those for the encoder.
func (b *Bridge) Next(dst []Event, e Event) []Event {
	if b.ended {
		return dst
	}
	switch e.Kind {
	case EventStart:
		if b.started {
			return dst
		}
		b.started = true
		return append(dst, e)
	case EventAlive:
		return append(dst, e)
	case EventFault:
		b.ended = true
		return append(dst, e)
	case EventUsage:
		b.usage.Merge(e.Usage)
		return dst
	case EventFinish:
		if b.stop == nil || b.stop.Assumed || e.Stop.Reason != StopEnd {
			if b.stop == nil || b.stop.Reason != StopTool { // tool_calls that a later "stop" would overwrite
				s := e.Stop
				b.stop = &s
			}
		}
		return dst
	case EventEnd:
		return b.end(dst)
	}
	if !b.started {
		b.started = true
		dst = append(dst, Event{Kind: EventStart})
	}
	return b.block(dst, e)
}

// block passes on what concerns a block.
func (b *Bridge) block(dst []Event, e Event) []Event {
	if e.Kind == EventBlock {
		if e.Block >= maxBlocks {
			return b.tooMuch(dst, "the upstream's answer has too many parts")
		}
		for len(b.blocks) <= e.Block {
			b.blocks = append(b.blocks, open{})
		}
		o := open{open: true, call: e.Start.Kind == ToolCall}
		if o.call {
			wrapped := e.Start.Form == "" // the upstream took it for a function
			if e.Start.Name == "" {       // it must be answered all the same, and every dialect wants a name
				e.Start.Name = "unknown_tool"
			}
			b.Tools.Restore(e.Start)
			o.unwrap = wrapped && e.Start.Form == FormCustom
		}
		b.blocks[e.Block] = o
		return append(dst, e)
	}
	if e.Block >= len(b.blocks) || !b.blocks[e.Block].open {
		return dst
	}
	o := &b.blocks[e.Block]
	switch {
	case e.Kind == EventClose:
		return b.close(dst, e.Block)
	case e.Kind == EventDelta && o.call:
		if b.args += len(e.Text); b.args > maxArgs {
			return b.tooMuch(dst, "the upstream's answer holds calls that are too long")
		}
		if o.unwrap {
			o.args = append(o.args, e.Text...)
			return dst
		}
	}
	return append(dst, e)
}

// tooMuch ends an answer that nobody could mean.
func (b *Bridge) tooMuch(dst []Event, problem string) []Event {
	b.ended = true
	return append(dst, Event{Kind: EventFault, Fault: &Fault{Status: 502, Kind: KindAPI, Type: KindAPI, Message: problem}})
}

func (b *Bridge) close(dst []Event, n int) []Event {
	o := &b.blocks[n]
	if o.unwrap {
		if text := unwrap(o.args); text != "" {
			dst = append(dst, Event{Kind: EventDelta, Block: n, Text: text})
		}
	}
	if o.call {
		b.calls++
	}
	*o = open{call: o.call}
	return append(dst, Event{Kind: EventClose, Block: n})
}

// end closes what is open and says why.
func (b *Bridge) end(dst []Event) []Event {
	b.ended = true
	if !b.started {
		dst = append(dst, Event{Kind: EventStart})
	}
	cut := false
	for n := range b.blocks {
		if b.blocks[n].open {
			cut = cut || b.blocks[n].call
			dst = b.close(dst, n)
		}
	}
	s := Stop{Reason: StopEnd, Assumed: true}
	if b.stop != nil {
		s = *b.stop
	}
	switch {
	case s.Assumed && cut:
		s.Reason = StopLength
	case b.calls > 0 && s.Reason == StopEnd:
		s.Reason = StopTool
	case b.calls == 0 && s.Reason == StopTool:
		s.Reason = StopEnd
	}
	if b.usage.Known != 0 {
		dst = append(dst, Event{Kind: EventUsage, Usage: b.usage})
	}
	return append(dst, Event{Kind: EventFinish, Stop: s}, Event{Kind: EventEnd})
}

// Ended reports whether EventEnd or EventFault has passed.
func (b *Bridge) Ended() bool { return b.ended }
