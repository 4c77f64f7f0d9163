package openairesponses

import (
	"strconv"

	"coding-proxy/proxy/ir"
)

// call is a call of the history and what came of it.
type call struct {
	block  *ir.Block
	id     string    // on the wire: legal, and no other call's
	result *ir.Block // nil: none is recorded
}

// pairing knows of every call its result. The API refuses one without the other.
type pairing struct {
	calls  []call // in the order of the conversation
	orphan []bool // of each result, in the order of the conversation: no call has it
}

// pair finds the results of the calls. A result belongs to the last call of its id before it; of several for one call
// the last counts. Results without an id go to the calls without one, by name and in order.
func pair(r *ir.Request) pairing {
	var p pairing
	rule := nameRule()
	latest := map[string]int{}
	used := map[string]bool{}
	var nameless []int
	for i := range r.Turns {
		for j := range r.Turns[i].Blocks {
			switch b := &r.Turns[i].Blocks[j]; b.Kind {
			case ir.ToolCall:
				id := rule.Fit(b.ID)
				if b.ID == "" || used[id] {
					id = "call_" + strconv.Itoa(i) + "_" + strconv.Itoa(j)
					for used[id] {
						id += "_"
					}
					id = rule.Fit(id)
				}
				used[id] = true
				if b.ID == "" {
					nameless = append(nameless, len(p.calls))
				} else {
					latest[b.ID] = len(p.calls)
				}
				p.calls = append(p.calls, call{block: b, id: id})
			case ir.ToolResult:
				n, ok := latest[b.ID]
				if b.ID == "" {
					n, ok = p.nameless(nameless, b)
				}
				if ok {
					p.calls[n].result = b
				}
				p.orphan = append(p.orphan, !ok)
			}
		}
	}
	return p
}

// nameless finds the first open call without an id that a result without one fits.
func (p *pairing) nameless(open []int, result *ir.Block) (int, bool) {
	for _, n := range open {
		c := &p.calls[n]
		if c.result == nil && (result.Name == "" || result.ToolName == c.block.ToolName) {
			return n, true
		}
	}
	return 0, false
}
