package auth

import "time"

// Options says who may ask.
type Options struct {
	RequestKeys []RequestKey
	Groups      []Group
	AdminKey    Secret // opens the pages and the admin calls from anywhere; empty = none

	ProtectPages   bool      // the pages ask for the admin key on this machine, too
	AllowAddresses Addresses // who may ask at all; empty = anybody
	DenyAddresses  Addresses // who may not, even if allowed
}

// RequestKey is what one caller shows. Code names the caller in statistics, Key is the secret it sends.
type RequestKey struct {
	Code    string
	Key     Secret
	Group   string    // "" = every pool key
	Models  []string  // globs that the resolved model must match; empty = any
	Expires time.Time // zero = never; the key is refused from this instant on

	Addresses Addresses // where the key may be used; empty = anywhere
	Limits
}

// Limits bound what one caller uses. Zero is no limit.
type Limits struct {
	RequestsPerMinute int
	MaxInFlight       int
	DailyTokens       int64   // weighted as pool.count says, by the local day
	MonthlyTokens     int64   // the same, by the local month
	DailyUSD          float64 // by list prices
}

// Counted reports whether tokens or costs are limited: then nothing may be used that nobody counts.
func (l Limits) Counted() bool { return l.DailyTokens > 0 || l.MonthlyTokens > 0 || l.DailyUSD > 0 }

// Group limits callers to some pool keys. A group without keys lets nobody in.
type Group struct {
	Name string
	Keys []string // ids of pool keys
}
