package ir

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
	UsageInput UsageFields = 1 << iota
	UsageOutput
	UsageCacheCreation
	UsageCacheRead
	UsageReasoning
)

// Merge takes over the figures that v knows: the last one given wins, nothing is added up.
func (u *Usage) Merge(v Usage) {
	if v.Known&UsageInput != 0 {
		u.Input = v.Input
	}
	if v.Known&UsageOutput != 0 {
		u.Output = v.Output
	}
	if v.Known&UsageCacheCreation != 0 {
		u.CacheCreation = v.CacheCreation
	}
	if v.Known&UsageCacheRead != 0 {
		u.CacheRead = v.CacheRead
	}
	if v.Known&UsageReasoning != 0 {
		u.Reasoning = v.Reasoning
	}
	u.Known |= v.Known
}
