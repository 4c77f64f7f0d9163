// Package ir is WHAT is said, in no one's dialect.
package ir

import "time"

// Fault is an error of an upstream: what its answer, or an event of a stream, says.
type Fault struct {
	Status  int    // HTTP status; of an event, the one that its type stands for
	Type    string // the dialect's word, e.g. "overloaded_error"
	Code    string // machine-readable detail, "" where there is none
	Message string // for matching alone: it may echo prompts and never reaches a log
	Reset   time.Duration
	// KeyWide says that the provider names the exhausted window as the whole account's.
	KeyWide bool
}

// Usage is what an answer says of its tokens, as Anthropic counts: Input without cached ones, Reasoning a part of
// Output. Known says which figures were given: absent is not zero.
type Usage struct {
	Input, Output, CacheCreation, CacheRead, Reasoning int64
	Known                                              UsageFields
}

// UsageFields is a set of figures.
type UsageFields uint8

// The figures of a Usage.
const (
	Input UsageFields = 1 << iota
	Output
	CacheCreation
	CacheRead
	Reasoning
)

// Merge takes over the figures that v knows: the last one given wins, nothing is added up.
func (u *Usage) Merge(v Usage) {
	if v.Known&Input != 0 {
		u.Input = v.Input
	}
	if v.Known&Output != 0 {
		u.Output = v.Output
	}
	if v.Known&CacheCreation != 0 {
		u.CacheCreation = v.CacheCreation
	}
	if v.Known&CacheRead != 0 {
		u.CacheRead = v.CacheRead
	}
	if v.Known&Reasoning != 0 {
		u.Reasoning = v.Reasoning
	}
	u.Known |= v.Known
}

// EventKind is what an event of a stream does.
type EventKind uint8

// The kinds.
const (
	EventOther  EventKind = iota // keep-alives, starts of empty blocks, what we do not know
	EventStart                   // the message begins
	EventDelta                   // content
	EventFinish                  // the stop reason is said
	EventStop                    // the terminal event: nothing comes after it
	EventError                   // the terminal event of a stream that failed
)

// Event is what the relay needs of an event of a stream: enough to know when the head has proved good, when the end
// has come, and what it cost.
type Event struct {
	Kind       EventKind
	Usage      Usage
	StopReason string
	Fault      *Fault
}
