package openaichat

import (
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

// reason takes the word for which a choice ended. Its blocks are whole then.
func (d *decoder) reason(choice int, word string, stop []byte) {
	switch word {
	case "network_error": // GLM
		d.fail(ir.Fault{Status: 500, Kind: ir.KindAPI, Type: word, Message: "the model broke off the answer"})
		return
	case "insufficient_system_resource": // DeepSeek
		d.fail(ir.Fault{Status: 503, Kind: ir.KindOverloaded, Type: word, Message: "the provider ran out of capacity"})
		return
	case "error": // OpenRouter
		d.fail(ir.Fault{Status: 500, Kind: ir.KindAPI, Type: word, Message: "the provider broke off the answer"})
		return
	}
	for _, c := range d.calls {
		if c.choice == choice {
			d.closeCall(c)
		}
	}
	if !d.busy() {
		d.closeText()
		d.release()
	}
	d.closeText()
	s := ir.Stop{Reason: reasonOf(word), Native: word}
	if met, _ := rawjson.String(stop); met != "" && s.Reason == ir.StopEnd && isSequence(met) {
		s.Reason, s.Sequence = ir.StopSequence, met
	}
	if d.refused && s.Reason == ir.StopEnd {
		s.Reason = ir.StopRefusal
	}
	d.stop = &s
	d.emit(ir.Event{Kind: ir.EventFinish, Stop: s})
}

// reasonOf is the canonical word for a finish_reason. What is not known counts as a natural end.
func reasonOf(word string) ir.StopReason {
	switch word {
	case "length", "max_tokens", "model_length":
		return ir.StopLength
	case "tool_calls", "function_call", "tool_use":
		return ir.StopTool
	case "content_filter", "sensitive", "refusal", "safety":
		return ir.StopRefusal
	}
	return ir.StopEnd
}

// isSequence tells a stop string from the reasons that some gateways put beside finish_reason.
func isSequence(s string) bool {
	switch s {
	case "stop", "end_turn", "length", "max_tokens", "tool_calls", "tool_use", "stop_sequence", "eos", "eos_token", "completed":
		return false
	}
	return true
}

// finishAll ends the answer. Where no reason was said it is told from what came: some vendors leave it out.
func (d *decoder) finishAll() {
	cut, calls := false, false
	for _, c := range d.calls {
		d.settle(c)
		cut = cut || c.open && c.args.cut()
		calls = calls || c.begun
		d.closeCall(c)
	}
	d.release()
	d.closeText()
	if d.blank != "" && !d.spoken && !calls { // the whole of it is white space
		d.begin(&ir.Block{Kind: ir.Text})
		d.emit(ir.Event{Kind: ir.EventDelta, Block: d.open.n, Text: d.blank})
		d.closeText()
	}
	if d.stop == nil {
		s := ir.Stop{Reason: ir.StopEnd, Assumed: true}
		switch {
		case cut:
			s.Reason = ir.StopLength
		case calls:
			s.Reason = ir.StopTool
		case d.refused:
			s.Reason = ir.StopRefusal
		}
		d.emit(ir.Event{Kind: ir.EventFinish, Stop: s})
	}
	d.ended = true
	d.emit(ir.Event{Kind: ir.EventEnd})
}
