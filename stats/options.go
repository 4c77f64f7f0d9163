// Package stats keeps what happened: one Record a request, a journal line, an aggregate, windows.
package stats

// Options say where statistics live and how long they are kept.
type Options struct {
	Dir         string // data directory
	UsageFile   string // "" = usage.json in Dir
	JournalDays int    // journal days kept
	UsageDays   int    // days kept in the aggregate
	Pricing     []PriceRule
}

// Defaults returns the options of design/config.md without Dir.
func Defaults() Options { return Options{JournalDays: 62, UsageDays: 400} }
