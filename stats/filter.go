package stats

import (
	"bytes"
	"slices"
	"time"
)

// Filter says which journal lines are asked for; the zero value asks for all.
type Filter struct {
	Trace    string
	Caller   string
	Model    string // requested, resolved or upstream
	Key      string // of the answer or of any attempt
	Tier     string // of the answer or of any attempt
	Outcome  string
	Failed   bool      // outcomes error, broken, exhausted
	From, To time.Time // From <= ts < To; zero = open
}

// failures are the outcomes that Filter.Failed asks for.
func failures() []string { return []string{OutcomeError, OutcomeBroken, OutcomeExhausted} }

// passes reports whether the record is asked for.
func (f *Filter) passes(r *Record) bool {
	if !f.spans(r.TS) || f.Failed && !slices.Contains(failures(), r.Outcome) {
		return false
	}
	if f.Trace != "" && f.Trace != r.Trace || f.Caller != "" && f.Caller != r.Caller || f.Outcome != "" && f.Outcome != r.Outcome {
		return false
	}
	if f.Model != "" && f.Model != r.Requested && f.Model != r.Resolved && f.Model != r.UpstreamModel {
		return false
	}
	if f.Key != "" && f.Key != r.Key && !slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Key == f.Key }) {
		return false
	}
	return f.Tier == "" || f.Tier == r.Tier || slices.ContainsFunc(r.Attempts, func(a Attempt) bool { return a.Tier == f.Tier })
}

func (f *Filter) spans(ts time.Time) bool {
	return (f.From.IsZero() || !ts.Before(f.From)) && (f.To.IsZero() || ts.Before(f.To))
}

// query is a filter made ready for many lines and blocks.
type query struct {
	Filter
	all    bool     // nothing is filtered
	quoted [][]byte // what a line without escapes must hold to pass: each of these…
	anyOf  [][]byte // …and one of these
	terms  []uint64 // the same for a block's terms
	either []uint64
}

func newQuery(f Filter) *query {
	q := &query{Filter: f, all: f == Filter{}}
	for _, v := range []struct {
		kind byte
		text string
	}{
		{termTrace, f.Trace}, {termCaller, f.Caller}, {termModel, f.Model}, {termKey, f.Key}, {termTier, f.Tier}, {termOutcome, f.Outcome},
	} {
		if v.text == "" {
			continue
		}
		q.terms = append(q.terms, term(v.kind, v.text))
		if quoted := appendText(nil, v.text); bytes.IndexByte(quoted, '\\') < 0 { // others need no escapes where they are not ours
			q.quoted = append(q.quoted, quoted)
		}
	}
	if f.Failed {
		for _, o := range failures() {
			q.either, q.anyOf = append(q.either, term(termOutcome, o)), append(q.anyOf, appendText(nil, o))
		}
	}
	return q
}

// mayPass is a quick look at a line's bytes; it never refuses one that passes. A text can be escaped in more than one way,
// so a line with escapes is not judged by its bytes.
func (q *query) mayPass(line []byte) bool {
	if q.all {
		return true
	}
	has := func(quoted []byte) bool { return bytes.Contains(line, quoted) }
	if !slices.ContainsFunc(q.quoted, func(v []byte) bool { return !has(v) }) && (len(q.anyOf) == 0 || slices.ContainsFunc(q.anyOf, has)) {
		return q.mayBeThen(line)
	}
	return bytes.IndexByte(line, '\\') >= 0
}

// mayBeThen judges the time of a line that begins with it.
func (q *query) mayBeThen(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(`{"ts":`))
	if !ok || q.From.IsZero() && q.To.IsZero() {
		return true
	}
	end := bytes.IndexByte(rest, ',')
	var ts time.Time
	return end < 0 || ts.UnmarshalJSON(rest[:end]) != nil || q.spans(ts)
}

// mayHave reports whether a block may have a line that passes.
func (q *query) mayHave(b *block, bloom []byte) bool {
	if !q.From.IsZero() && b.last < q.From.UnixMilli() || !q.To.IsZero() && b.first > q.To.UnixMilli() {
		return false
	}
	may := func(t uint64) bool { return bloomHas(bloom, t) }
	return !slices.ContainsFunc(q.terms, func(t uint64) bool { return !may(t) }) && (len(q.either) == 0 || slices.ContainsFunc(q.either, may))
}
