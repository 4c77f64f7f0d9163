package openaichat

import (
	"strconv"

	"coding-proxy/proxy/ir"
)

// noResult stands for the result that a history has lost.
const noResult = "[no result recorded]"

// pair is a call and its result.
type pair struct {
	id     string    // on the wire, for both
	result *ir.Block // nil: there is none
}

// pairing brings the calls and the results of a conversation together: an upstream refuses a history in which a call has
// not exactly one result right after it.
type pairing struct {
	pairs   []pair // in the order of the calls
	orphans map[*ir.Block]bool

	open map[string][]int // the last calls of an id, by index in pairs
	bare []bareCall       // calls without an id that have no result yet
}

type bareCall struct {
	name string
	pair int
}

// pairUp reads the turns in order. A result belongs to the last call of its id before it; of two results the later wins.
func pairUp(turns []ir.Turn) *pairing {
	p := &pairing{open: map[string][]int{}}
	rule := callIDs()
	for t := range turns {
		first := len(p.pairs) // of the turn
		for b := range turns[t].Blocks {
			switch c := &turns[t].Blocks[b]; c.Kind {
			case ir.ToolCall:
				if turns[t].Role == ir.Assistant {
					p.call(c, t, b, first, rule)
				}
			case ir.ToolResult:
				p.result(c)
			}
		}
	}
	return p
}

func (p *pairing) call(c *ir.Block, turn, block, first int, rule ir.NameRule) {
	n := len(p.pairs)
	minted := "call_" + strconv.Itoa(turn) + "_" + strconv.Itoa(block)
	if c.ID == "" {
		p.bare = append(p.bare, bareCall{c.Name, n})
		p.pairs = append(p.pairs, pair{id: minted})
		return
	}
	same := p.open[c.ID]
	if len(same) > 0 && same[0] >= first { // twice in one turn: the results come in the same order
		p.open[c.ID] = append(same, n)
		p.pairs = append(p.pairs, pair{id: minted})
		return
	}
	p.open[c.ID] = []int{n}
	p.pairs = append(p.pairs, pair{id: rule.Fit(c.ID)})
}

func (p *pairing) result(r *ir.Block) {
	if r.ID == "" {
		for i, c := range p.bare {
			if r.Name == "" || c.name == r.Name {
				p.pairs[c.pair].result = r
				p.bare = append(p.bare[:i], p.bare[i+1:]...)
				return
			}
		}
		p.orphan(r)
		return
	}
	same := p.open[r.ID]
	if len(same) == 0 {
		p.orphan(r)
		return
	}
	for _, n := range same {
		if p.pairs[n].result == nil {
			p.pairs[n].result = r
			return
		}
	}
	p.pairs[same[len(same)-1]].result = r
}

func (p *pairing) orphan(r *ir.Block) {
	if p.orphans == nil {
		p.orphans = map[*ir.Block]bool{}
	}
	p.orphans[r] = true
}
