package stats

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Record is one request to a client endpoint, as the journal keeps it (design/data.md). No field holds a
// credential, a prompt or an answer.
type Record struct {
	TS            time.Time `json:"ts"` // end of the request
	Trace         string    `json:"trace"`
	Caller        string    `json:"caller,omitempty"`
	Group         string    `json:"group,omitempty"`
	Session       string    `json:"session,omitempty"` // hash
	Client        string    `json:"client,omitempty"`  // user-agent product
	Dialect       string    `json:"dialect,omitempty"`
	Upstream      string    `json:"upstream_dialect,omitempty"`
	Requested     string    `json:"requested_model,omitempty"`
	Resolved      string    `json:"resolved_model,omitempty"`
	UpstreamModel string    `json:"upstream_model,omitempty"`
	Tier          string    `json:"tier,omitempty"`
	Key           string    `json:"key,omitempty"`
	Provider      string    `json:"provider,omitempty"`
	Stream        bool      `json:"stream"`
	Status        int       `json:"status"`
	Outcome       string    `json:"outcome"` // one of the Outcome constants
	ErrorType     string    `json:"error_type,omitempty"`
	StopReason    string    `json:"stop_reason,omitempty"`
	Attempts      []Attempt `json:"attempts,omitempty"`
	Skipped       []Skip    `json:"skipped,omitempty"`
	Dropped       []string  `json:"dropped,omitempty"`

	InputTokens         int64   `json:"input_tokens"` // without cached ones
	OutputTokens        int64   `json:"output_tokens"`
	CacheCreationTokens int64   `json:"cache_creation_tokens"`
	CacheReadTokens     int64   `json:"cache_read_tokens"`
	ReasoningTokens     int64   `json:"reasoning_tokens"` // part of OutputTokens
	Estimated           bool    `json:"estimated,omitempty"`
	CostUSD             float64 `json:"cost_usd,omitempty"` // by list prices, when it was written
	Unpriced            bool    `json:"unpriced,omitempty"` // no price is known for the model

	FirstByteMS   int64 `json:"first_byte_ms"`
	DurationMS    int64 `json:"duration_ms"`
	RequestBytes  int64 `json:"request_bytes"`
	ResponseBytes int64 `json:"response_bytes"`
}

// What became of a request.
const (
	OutcomeOK        = "ok"
	OutcomeError     = "error"
	OutcomeCancelled = "cancelled"
	OutcomeBroken    = "broken"
	OutcomeExhausted = "exhausted"
	OutcomeLocal     = "local" // answered here; not counted as usage
)

// Attempt is one try with one key. Outcome and Reason are closed words, never a provider's message.
type Attempt struct {
	Tier    string `json:"tier,omitempty"`
	Key     string `json:"key"`
	Status  int    `json:"status,omitempty"` // 0: no answer came
	Outcome string `json:"outcome"`
	Reason  string `json:"reason,omitempty"`
	MS      int64  `json:"ms"`
}

// Skip is a tier or key that was passed over, and the gate that refused it.
type Skip struct {
	Tier string `json:"tier,omitempty"`
	Key  string `json:"key,omitempty"`
	Gate string `json:"gate"`
}

// appendLine appends the record as one line of JSON. It is what encoding/json would give for the struct, made harmless, at a
// tenth of the cost; a test compares the two.
func (r *Record) appendLine(b []byte) []byte {
	b = append(b, `{"ts":"`...)
	b = r.TS.AppendFormat(b, time.RFC3339Nano)
	b = append(b, `","trace":`...)
	b = appendText(b, r.Trace)
	for _, f := range [...]struct{ name, value string }{
		{`,"caller":`, r.Caller}, {`,"group":`, r.Group}, {`,"session":`, r.Session}, {`,"client":`, r.Client},
		{`,"dialect":`, r.Dialect}, {`,"upstream_dialect":`, r.Upstream}, {`,"requested_model":`, r.Requested},
		{`,"resolved_model":`, r.Resolved}, {`,"upstream_model":`, r.UpstreamModel}, {`,"tier":`, r.Tier},
		{`,"key":`, r.Key}, {`,"provider":`, r.Provider},
	} {
		b = appendOptional(b, f.name, f.value)
	}
	b = append(b, `,"stream":`...)
	b = strconv.AppendBool(b, r.Stream)
	b = appendInt(b, `,"status":`, int64(r.Status))
	b = append(b, `,"outcome":`...)
	b = appendText(b, r.Outcome)
	b = appendOptional(b, `,"error_type":`, r.ErrorType)
	b = appendOptional(b, `,"stop_reason":`, r.StopReason)
	b = r.appendPath(b)
	b = appendInt(b, `,"input_tokens":`, r.InputTokens)
	b = appendInt(b, `,"output_tokens":`, r.OutputTokens)
	b = appendInt(b, `,"cache_creation_tokens":`, r.CacheCreationTokens)
	b = appendInt(b, `,"cache_read_tokens":`, r.CacheReadTokens)
	b = appendInt(b, `,"reasoning_tokens":`, r.ReasoningTokens)
	if r.Estimated {
		b = append(b, `,"estimated":true`...)
	}
	if r.CostUSD != 0 {
		b = append(b, `,"cost_usd":`...)
		b = appendUSD(b, r.CostUSD)
	}
	if r.Unpriced {
		b = append(b, `,"unpriced":true`...)
	}
	b = appendInt(b, `,"first_byte_ms":`, r.FirstByteMS)
	b = appendInt(b, `,"duration_ms":`, r.DurationMS)
	b = appendInt(b, `,"request_bytes":`, r.RequestBytes)
	b = appendInt(b, `,"response_bytes":`, r.ResponseBytes)
	return append(b, "}\n"...)
}

// mostListed are elements of each list of a line that would be too long.
const mostListed = 300

// short returns the record with shorter lists, for a line that readers would take for none of ours: thousands of keys can
// be passed over. The first attempt and the last tell whether there was a failover.
func (r *Record) short() *Record {
	s := *r
	if n := len(s.Attempts); n > mostListed {
		s.Attempts = append(slices.Clone(s.Attempts[:mostListed-1]), s.Attempts[n-1])
	}
	if len(s.Skipped) > mostListed {
		s.Skipped = append(slices.Clone(s.Skipped[:mostListed-1]), Skip{Gate: other})
	}
	s.Dropped = s.Dropped[:min(len(s.Dropped), mostListed)]
	return &s
}

// appendPath appends how the request found its key: attempts, skips, losses.
func (r *Record) appendPath(b []byte) []byte {
	for i, a := range r.Attempts {
		b = append(b, listStart(i, `,"attempts":[`)...)
		if a.Tier != "" {
			b = append(b, `"tier":`...)
			b = appendText(b, a.Tier)
			b = append(b, ',')
		}
		b = append(b, `"key":`...)
		b = appendText(b, a.Key)
		if a.Status != 0 {
			b = appendInt(b, `,"status":`, int64(a.Status))
		}
		b = append(b, `,"outcome":`...)
		b = appendText(b, a.Outcome)
		b = appendOptional(b, `,"reason":`, a.Reason)
		b = appendInt(b, `,"ms":`, a.MS)
		b = append(b, '}')
	}
	b = listEnd(b, len(r.Attempts))
	for i, s := range r.Skipped {
		b = append(b, listStart(i, `,"skipped":[`)...)
		if s.Tier != "" {
			b = append(b, `"tier":`...)
			b = appendText(b, s.Tier)
			b = append(b, ',')
		}
		if s.Key != "" {
			b = append(b, `"key":`...)
			b = appendText(b, s.Key)
			b = append(b, ',')
		}
		b = append(b, `"gate":`...)
		b = appendText(b, s.Gate)
		b = append(b, '}')
	}
	b = listEnd(b, len(r.Skipped))
	for i, d := range r.Dropped {
		if i == 0 {
			b = append(b, `,"dropped":[`...)
		} else {
			b = append(b, ',')
		}
		b = appendText(b, d)
	}
	return listEnd(b, len(r.Dropped))
}

func listStart(i int, first string) string {
	if i == 0 {
		return first + "{"
	}
	return ",{"
}

func listEnd(b []byte, n int) []byte {
	if n > 0 {
		b = append(b, ']')
	}
	return b
}

func appendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendUSD writes very small and very large figures as encoding/json does, with an exponent.
func appendUSD(b []byte, usd float64) []byte {
	if usd < 1e-6 || usd >= 1e21 {
		exact, _ := json.Marshal(usd) // no cost is infinite
		return append(b, exact...)
	}
	return strconv.AppendFloat(b, usd, 'f', -1, 64)
}

func appendOptional(b []byte, name, value string) []byte {
	if value == "" {
		return b
	}
	return appendText(append(b, name...), value)
}

// appendText appends s as a JSON string. Whatever is not printable ASCII goes through encoding/json, which escapes
// what could forge a line; what else a terminal would obey is escaped, too: people read the journal with cat and zcat.
func appendText(b []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // a string cannot fail
			return appendHarmless(b, quoted)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}
