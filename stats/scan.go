package stats

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"strconv"
	"unicode/utf8"
)

// scanner decodes journal lines. The lines that appendLine writes take one flat pass, a tenth of what encoding/json
// needs; whatever looks different goes through encoding/json, which decides alone what it means.
type scanner struct {
	seed maphash.Seed
	// words interns: names of callers, models, keys come again and again. Each hash has room for the last few, so it is
	// bounded.
	words [256][4]string
}

func newScanner() *scanner { return &scanner{seed: maphash.MakeSeed()} }

// scan fills the record, whose lists are used again: what the record held before is overwritten.
func (s *scanner) scan(line []byte, r *Record) error {
	*r = Record{Attempts: r.Attempts[:0], Skipped: r.Skipped[:0], Dropped: r.Dropped[:0]}
	p := parser{scanner: s, in: line, plain: isPlain(line)}
	if p.record(r) && p.at == len(line) {
		return nil
	}
	*r = Record{}
	return json.Unmarshal(line, r)
}

// parser goes through one line. Its methods report false for anything that appendLine does not write.
type parser struct {
	*scanner
	in    []byte
	at    int
	plain bool // in is plain
}

// isPlain reports whether the line is ASCII without control characters and escapes, so that strings need no closer look.
func isPlain(line []byte) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	rest := line
	for ; len(rest) >= 8; rest = rest[8:] {
		w := binary.LittleEndian.Uint64(rest)
		if (w|(w-ones*0x20)&^w)&tops != 0 { // a byte from 0x80 on, or one below 0x20
			return false
		}
	}
	for _, c := range rest {
		if c < 0x20 || c >= utf8.RuneSelf {
			return false
		}
	}
	return bytes.IndexByte(line, '\\') < 0
}

func (p *parser) record(r *Record) bool {
	return p.object(func(name []byte) bool {
		switch {
		case p.at == len(p.in):
			return false
		case p.in[p.at] == '"':
			return p.texts(r, name)
		case p.in[p.at] == '[':
			return p.lists(r, name)
		}
		return p.figures(r, name)
	})
}

func (p *parser) texts(r *Record, name []byte) bool {
	switch string(name) {
	case "ts":
		from := p.at
		_, ok := p.text()
		return ok && r.TS.UnmarshalJSON(p.in[from:p.at]) == nil
	case "trace":
		v, ok := p.text()
		r.Trace = string(v) // each line has its own
		return ok
	case "caller":
		return p.word(&r.Caller)
	case "group":
		return p.word(&r.Group)
	case "session":
		return p.word(&r.Session)
	case "client":
		return p.word(&r.Client)
	case "dialect":
		return p.word(&r.Dialect)
	case "upstream_dialect":
		return p.word(&r.Upstream)
	case "requested_model":
		return p.word(&r.Requested)
	case "resolved_model":
		return p.word(&r.Resolved)
	case "upstream_model":
		return p.word(&r.UpstreamModel)
	case "tier":
		return p.word(&r.Tier)
	case "key":
		return p.word(&r.Key)
	case "provider":
		return p.word(&r.Provider)
	case "outcome":
		return p.word(&r.Outcome)
	case "error_type":
		return p.word(&r.ErrorType)
	case "stop_reason":
		return p.word(&r.StopReason)
	}
	return false
}

func (p *parser) lists(r *Record, name []byte) bool {
	switch string(name) {
	case "attempts":
		return len(r.Attempts) == 0 && p.list(func() bool {
			r.Attempts = append(r.Attempts, Attempt{})
			a := &r.Attempts[len(r.Attempts)-1]
			return p.object(func(name []byte) bool { return p.attempt(a, name) })
		})
	case "skipped":
		return len(r.Skipped) == 0 && p.list(func() bool {
			r.Skipped = append(r.Skipped, Skip{})
			s := &r.Skipped[len(r.Skipped)-1]
			return p.object(func(name []byte) bool { return p.skip(s, name) })
		})
	case "dropped":
		return len(r.Dropped) == 0 && p.list(func() bool {
			r.Dropped = append(r.Dropped, "")
			return p.word(&r.Dropped[len(r.Dropped)-1])
		})
	}
	return false
}

func (p *parser) figures(r *Record, name []byte) bool {
	switch string(name) {
	case "stream":
		return p.bool(&r.Stream)
	case "status":
		return p.status(&r.Status)
	case "input_tokens":
		return p.int(&r.InputTokens)
	case "output_tokens":
		return p.int(&r.OutputTokens)
	case "cache_creation_tokens":
		return p.int(&r.CacheCreationTokens)
	case "cache_read_tokens":
		return p.int(&r.CacheReadTokens)
	case "reasoning_tokens":
		return p.int(&r.ReasoningTokens)
	case "estimated":
		return p.bool(&r.Estimated)
	case "unpriced":
		return p.bool(&r.Unpriced)
	case "cost_usd":
		return p.float(&r.CostUSD)
	case "first_byte_ms":
		return p.int(&r.FirstByteMS)
	case "duration_ms":
		return p.int(&r.DurationMS)
	case "request_bytes":
		return p.int(&r.RequestBytes)
	case "response_bytes":
		return p.int(&r.ResponseBytes)
	}
	return false
}

func (p *parser) attempt(a *Attempt, name []byte) bool {
	switch string(name) {
	case "tier":
		return p.word(&a.Tier)
	case "key":
		return p.word(&a.Key)
	case "status":
		return p.status(&a.Status)
	case "outcome":
		return p.word(&a.Outcome)
	case "reason":
		return p.word(&a.Reason)
	case "ms":
		return p.int(&a.MS)
	}
	return false
}

func (p *parser) skip(s *Skip, name []byte) bool {
	switch string(name) {
	case "tier":
		return p.word(&s.Tier)
	case "key":
		return p.word(&s.Key)
	case "gate":
		return p.word(&s.Gate)
	}
	return false
}

// object calls member for each member, with the value next in line.
func (p *parser) object(member func(name []byte) bool) bool {
	if !p.next('{') {
		return false
	}
	if p.next('}') {
		return true
	}
	for {
		name, ok := p.text()
		if !ok || !p.next(':') || !member(name) {
			return false
		}
		if !p.next(',') {
			return p.next('}')
		}
	}
}

func (p *parser) list(element func() bool) bool {
	if !p.next('[') {
		return false
	}
	if p.next(']') {
		return true
	}
	for {
		if !element() {
			return false
		}
		if !p.next(',') {
			return p.next(']')
		}
	}
}

func (p *parser) next(c byte) bool {
	if p.at < len(p.in) && p.in[p.at] == c {
		p.at++
		return true
	}
	return false
}

// text reads a string without escapes.
func (p *parser) text() ([]byte, bool) {
	if !p.next('"') {
		return nil, false
	}
	n := bytes.IndexByte(p.in[p.at:], '"')
	if n < 0 {
		return nil, false
	}
	v := p.in[p.at : p.at+n]
	p.at += n + 1
	if p.plain {
		return v, true
	}
	ascii := true
	for _, c := range v {
		if c < 0x20 || c == '\\' {
			return nil, false
		}
		ascii = ascii && c < utf8.RuneSelf
	}
	return v, ascii || utf8.Valid(v)
}

// word reads a string that may be interned.
func (p *parser) word(to *string) bool {
	v, ok := p.text()
	if !ok || len(v) > 64 {
		*to = string(v)
		return ok
	}
	room := &p.words[maphash.Bytes(p.seed, v)%uint64(len(p.words))]
	for i := range room {
		if room[i] == string(v) {
			*to = room[i]
			return true
		}
	}
	copy(room[1:], room[:])
	room[0] = string(v)
	*to = room[0]
	return true
}

func (p *parser) bool(to *bool) bool {
	for _, word := range [...]string{"false", "true"} {
		if end := p.at + len(word); end <= len(p.in) && string(p.in[p.at:end]) == word {
			p.at, *to = end, word == "true"
			return true
		}
	}
	return false
}

func (p *parser) int(to *int64) bool {
	minus := p.next('-')
	from, n := p.at, int64(0)
	for p.at < len(p.in) && isDigit(p.in[p.at]) {
		n = n*10 + int64(p.in[p.at]-'0')
		p.at++
	}
	digits := p.at - from
	if digits == 0 || digits > 18 || digits > 1 && p.in[from] == '0' {
		return false
	}
	if minus {
		n = -n
	}
	*to = n
	return true
}

func (p *parser) status(to *int) bool {
	var n int64
	ok := p.int(&n)
	*to = int(n)
	return ok && int64(int32(n)) == n
}

// float reads a number by the grammar of JSON, which is narrower than strconv's.
func (p *parser) float(to *float64) bool {
	from := p.at
	p.next('-')
	if whole := p.at; !p.digits() || p.in[whole] == '0' && p.at > whole+1 {
		return false
	}
	if p.next('.') && !p.digits() {
		return false
	}
	if p.next('e') || p.next('E') {
		if !p.next('+') {
			p.next('-')
		}
		if !p.digits() {
			return false
		}
	}
	n, err := strconv.ParseFloat(string(p.in[from:p.at]), 64)
	*to = n
	return err == nil
}

func (p *parser) digits() bool {
	from := p.at
	for p.at < len(p.in) && isDigit(p.in[p.at]) {
		p.at++
	}
	return p.at > from
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
