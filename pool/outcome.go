package pool

import "time"

// Class is what an attempt meant for the key that made it (design/routing.md, section 4).
type Class uint8

// The classes. Which answers belong to which is for proxy/outcome.go to say.
const (
	OK           Class = iota
	Cancelled          // the client went away: says nothing of the key
	Passthrough        // the client's own fault, or one that another key would answer alike
	Stale              // a reused connection had died: says nothing of the key
	RateLimit          // 429: cools (key, upstream model), or as wide as the provider says
	Overload           // 503, 529: cools (key, upstream model), counts for the tier
	Fault              // other 5xx, network, rubbish: cools the key, counts for the tier
	Credential         // 401, 403: cools the key for an hour
	Cap                // used up, unpaid: cools the key until the stated reset, else an hour
	UnknownModel       // the provider does not know the model: cools (key, upstream model)
	Repair             // it refuses state of another provider: says nothing of the key
	Renew              // its token or its host was the wrong one, and another is there: says nothing of the key
)

// String returns the word that pages and the journal use.
func (c Class) String() string {
	switch c {
	case OK:
		return "ok"
	case Cancelled:
		return "cancelled"
	case Passthrough:
		return "passthrough"
	case Stale:
		return "stale"
	case RateLimit:
		return "rate_limit"
	case Overload:
		return "overload"
	case Fault:
		return "fault"
	case Credential:
		return "credential"
	case Cap:
		return "cap"
	case UnknownModel:
		return "unknown_model"
	case Repair:
		return "repair"
	case Renew:
		return "renew"
	}
	return "unknown"
}

// Outcome is what an attempt meant.
type Outcome struct {
	Class   Class
	Reset   time.Duration // stated by the provider: free again after this long; 0 = not stated
	KeyWide bool          // a rate limit that the provider names as the whole account's
	// FamilyWide: a rate limit that it names as that of the model's family.
	FamilyWide bool
}

// Tokens are one response's counts as Anthropic counts them: Input is without the cached ones.
type Tokens struct {
	Input, Output, CacheCreation, CacheRead int64
}

func (t *Tokens) add(n Tokens) {
	t.Input += n.Input
	t.Output += n.Output
	t.CacheCreation += n.CacheCreation
	t.CacheRead += n.CacheRead
}

func (w Weights) of(t Tokens) float64 {
	return w.Input*float64(t.Input) + w.Output*float64(t.Output) +
		w.CacheCreation*float64(t.CacheCreation) + w.CacheRead*float64(t.CacheRead)
}
