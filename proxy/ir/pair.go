package ir

import "strconv"

// Pair is a call of the history and what came of it.
type Pair struct {
	Call   *Block
	ID     string // on the wire, for both: legal, and no other call's
	Result *Block // nil: none is recorded

	turn int
}

// Pairing knows of every call its result: dialects refuse the one without the other, and a result in another place than
// behind its call.
type Pairing struct {
	calls   map[*Block]*Pair
	results map[*Block]bool // those that have a call

	rule NameRule
	last map[string]*alike    // by the client's id: of the last turn that has such a call
	bare []*Pair              // calls without an id
	name map[ToolName][]*Pair // the same, by name
	used map[string]int       // ids on the wire, and how often each was asked for
}

// alike are the calls of one turn that have the same id.
type alike struct {
	pairs []*Pair // in order; the first ones have their results
	next  int     // the first one without
}

// NewPairing reads the turns in order. A result belongs to the last call of its id before it, and of calls with one id in
// one turn each to its own, in order; of several results for one call the last counts. Results without an id go to the
// calls without one, by name and in order. Ids are the client's, made legal and unique, or by the call's place: they stay
// the same while the conversation grows.
func NewPairing(turns []Turn, rule NameRule) *Pairing {
	p := &Pairing{
		calls: map[*Block]*Pair{}, results: map[*Block]bool{}, rule: rule,
		last: map[string]*alike{}, name: map[ToolName][]*Pair{}, used: map[string]int{},
	}
	for i := range turns {
		for j := range turns[i].Blocks {
			switch b := &turns[i].Blocks[j]; b.Kind {
			case ToolCall:
				p.call(b, i, j)
			case ToolResult:
				if c := p.answered(b); c != nil {
					c.Result, p.results[b] = b, true
				}
			}
		}
	}
	return p
}

func (p *Pairing) call(b *Block, turn, block int) {
	c := &Pair{Call: b, turn: turn}
	if b.ID == "" {
		c.ID = "call_" + strconv.Itoa(turn) + "_" + strconv.Itoa(block)
		p.bare = append(p.bare, c)
		p.name[b.ToolName] = append(p.name[b.ToolName], c)
	} else {
		c.ID = p.rule.Fit(b.ID)
		same := p.last[b.ID]
		if same == nil || same.pairs[0].turn != turn {
			same = &alike{}
			p.last[b.ID] = same
		}
		same.pairs = append(same.pairs, c)
	}
	for id := c.ID; p.used[c.ID] > 0; {
		p.used[id]++
		c.ID = p.rule.Fit(id + "_" + strconv.Itoa(p.used[id]))
	}
	p.used[c.ID]++
	p.calls[b] = c
}

// answered finds the call that a result is of, nil where there is none.
func (p *Pairing) answered(b *Block) *Pair {
	switch {
	case b.ID != "":
		same := p.last[b.ID]
		if same == nil {
			return nil
		}
		if same.next < len(same.pairs) {
			same.next++
		}
		return same.pairs[same.next-1]
	case b.Name == "":
		return firstOpen(&p.bare)
	}
	list := p.name[b.ToolName]
	c := firstOpen(&list)
	p.name[b.ToolName] = list
	return c
}

// firstOpen takes the first call without a result off a list, and those before it.
func firstOpen(list *[]*Pair) *Pair {
	for i, c := range *list {
		if c.Result == nil {
			*list = (*list)[i+1:]
			return c
		}
	}
	*list = nil
	return nil
}

// Of returns what is known of a call.
func (p *Pairing) Of(call *Block) *Pair { return p.calls[call] }

// Orphan reports whether a result has no call.
func (p *Pairing) Orphan(result *Block) bool { return !p.results[result] }
