// Package pool says which key gets a request: tiers, strategies, sessions, cooldowns, limits.
// Lease is its only door. It ranks ids and never sees a credential.
package pool

import "time"

// Strategy names a way to pick among the keys of a tier that may serve.
type Strategy string

// The strategies of design/routing.md, section 3.
const (
	SessionSticky Strategy = "session-sticky"
	FillFirst     Strategy = "fill-first"
	RoundRobin    Strategy = "round-robin"
	LeastUsed     Strategy = "least-used"
	LeastRecent   Strategy = "least-recent"
)

// Strategies lists the known names, the default first.
func Strategies() []Strategy {
	return []Strategy{SessionSticky, FillFirst, RoundRobin, LeastUsed, LeastRecent}
}

// TierReturn says when a session that a lower tier served goes back to a higher one that is open again.
type TierReturn string

// The ways back of design/routing.md, section 2.
const (
	ReturnImmediate TierReturn = "immediate" // with its next request
	ReturnIdle      TierReturn = "idle"      // once the prompt cache of the lower tier is cold anyway
)

// TierReturns lists the known names, the default first.
func TierReturns() []TierReturn { return []TierReturn{ReturnImmediate, ReturnIdle} }

// Options is the whole pool, tiers in failover order.
type Options struct {
	Tiers              []Tier
	Mapping            *Mapping      // requested to resolved model; nil = none
	RebalanceThreshold float64       // spread of used ratios (0…1) from which sessions move
	RebalanceCooldown  time.Duration // least time between two moves, pool-wide
	SessionIdle        time.Duration // a binding unused for longer is dropped
	MaxWait            time.Duration // how long a request waits for a key that will soon be free; 0 = never
	Count              Weights
}

// Tier is one step of the chain. Without a breaker and a guard it always lets requests in.
type Tier struct {
	Name     string
	Strategy Strategy
	Return   TierReturn      // "" = immediate
	Breaker  *BreakerOptions // nil = none
	Guard    *GuardOptions   // nil = none
	Mapping  *Mapping        // resolved to upstream model, for keys without Models; nil = none
	Keys     []Key
}

// Key is one credential at one provider, seen from the pool: its id, what it serves and its limits.
type Key struct {
	ID             string
	Provider       string
	Protocols      []string          // dialects that its upstream speaks
	Models         map[string]string // resolved name → upstream's; "*" serves any name; nil = any
	Preset         *Mapping          // the provider's own, where neither Models nor the tier's mapping says more; other names stay
	DailyLimit     int64             // weighted tokens per local calendar day; 0 = none
	MonthlyLimit   int64             // weighted tokens per local calendar month; 0 = none
	MaxConcurrent  int               // requests in flight; 0 = none
	Disabled       bool
	DisabledReason string // shown to operators, e.g. "environment variable NAME is not set"
	Incomplete     bool   // lacks its credential: stays disabled whatever an operator says
	Passthrough    bool   // carries the caller's own credential
}

// Weights turns a response's token counts into what the limits count.
type Weights struct {
	Input, Output, CacheCreation, CacheRead float64
}

// DefaultWeights counts cache reads at a tenth, as providers bill them.
func DefaultWeights() Weights { return Weights{1, 1, 1, 0.1} }

// Defaults returns the options of design/config.md without tiers.
func Defaults() Options {
	return Options{
		RebalanceThreshold: 0.2,
		RebalanceCooldown:  10 * time.Minute,
		SessionIdle:        24 * time.Hour,
		MaxWait:            5 * time.Second,
		Count:              DefaultWeights(),
	}
}
