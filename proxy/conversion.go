package proxy

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/sse"
)

const (
	// maxConverted bounds what is held of an answer that is converted: one event, a plain answer, a fold.
	maxConverted = 32 << 20
)

// conversion turns an upstream's answer into the client's dialect.
type conversion struct {
	from, to *ir.Dialect
	source   ir.Source
	reply    ir.Reply
	dec      ir.Decoder
	enc      ir.Encoder
	bridge   ir.Bridge
	fold     *ir.Fold // of a client that wants a plain answer
	listen   *listener
	carry    *carrier

	heard, told []ir.Event // reused
	out         []byte     // for the client, not yet delivered
	at          int        // of out: what has been delivered
	lost        []string   // of a plain answer
	fault       *ir.Fault  // that ended it
	stop        *ir.Stop
	usage       ir.Usage
	deltas      int64 // bytes of text
	ended       bool
}

func newConversion(c *call, l *lane) *conversion {
	v := &conversion{from: l.dialect, to: c.dialect, source: ir.Source{Owner: l.owner, Seed: c.Trace}}
	v.reply = ir.Reply{Request: c.asked, Model: c.model, Seed: c.Trace, Created: c.p.now().Unix(), Array: c.array}
	v.bridge.Tools = l.out.Tools
	v.dec = l.dialect.NewDecoder(v.source)
	if c.stream {
		v.enc = c.dialect.NewEncoder(v.reply)
	} else {
		v.fold = &ir.Fold{Limit: maxConverted}
	}
	if c.dialect.CallsCarry {
		v.carry = &carrier{}
	}
	if c.dialect.Forgets {
		v.listen = &listener{r: &c.p.recall, caller: c.Caller.Code, id: c.dialect.CallID}
	}
	return v
}

// event converts one event of the upstream's stream.
func (v *conversion) event(raw []byte) {
	name, data := sse.Parse(raw)
	v.heard = v.dec.Event(v.heard[:0], name, data)
	v.pass(v.heard)
}

// end is told that the stream has ended without its terminal event; it reports whether that is a natural end.
func (v *conversion) end() bool {
	v.heard = v.dec.End(v.heard[:0])
	v.pass(v.heard)
	return v.ended
}

// plain converts a whole answer.
func (v *conversion) plain(body []byte) error {
	events, err := v.from.DecodeAnswer(body, v.source)
	if err != nil {
		return err
	}
	v.pass(events)
	return nil
}

// pass takes events to the client.
func (v *conversion) pass(events []ir.Event) {
	for i := range events {
		if v.ended {
			return
		}
		v.note(&events[i])
		v.told = v.bridge.Next(v.told[:0], events[i])
		for j := range v.told {
			v.tell(&v.told[j])
		}
	}
}

// note keeps what the journal wants.
func (v *conversion) note(e *ir.Event) {
	switch e.Kind {
	case ir.EventUsage:
		v.usage.Merge(e.Usage)
	case ir.EventDelta:
		v.deltas += int64(len(e.Text))
	}
}

func (v *conversion) tell(e *ir.Event) {
	if v.listen != nil {
		v.listen.hear(e)
	}
	if v.carry != nil {
		v.carry.hear(e)
	}
	switch e.Kind {
	case ir.EventFinish:
		stop := e.Stop
		v.stop = &stop
	case ir.EventFault:
		v.fault, v.ended = e.Fault, true
	case ir.EventEnd:
		v.ended = true
	}
	if v.enc != nil {
		v.out = v.enc.Append(v.out, e)
		return
	}
	if err := v.fold.Add(e); err != nil {
		v.fault, v.ended = &ir.Fault{Status: 502, Kind: ir.KindAPI, Message: "the upstream's answer is too long to be converted"}, true
	}
	if e.Kind == ir.EventEnd {
		a, _, _ := v.fold.Answer()
		v.out, v.lost = v.to.AppendAnswer(v.out, a, v.reply)
	}
}

// broken ends the answer with a fault that comes from here.
func (v *conversion) broken(f *ir.Fault) {
	v.pass([]ir.Event{{Kind: ir.EventFault, Fault: f}})
}

// dropped names what of the answer could not be said.
func (v *conversion) dropped() []string {
	if v.enc != nil {
		return v.enc.Lost()
	}
	return v.lost
}

// take copies what is ready into p.
func (v *conversion) take(p []byte) int {
	n := copy(p, v.out[v.at:])
	if v.at += n; v.at == len(v.out) {
		v.out, v.at = v.out[:0], 0
	}
	return n
}

// waits reports whether something is ready.
func (v *conversion) waits() bool { return v.at < len(v.out) }
