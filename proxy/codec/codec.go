// Package codec is the table of dialects.
package codec

import (
	"coding-proxy/proxy/codec/anthropic"
	"coding-proxy/proxy/codec/gemini"
	"coding-proxy/proxy/codec/openaichat"
	"coding-proxy/proxy/codec/openairesponses"
	"coding-proxy/proxy/ir"
)

// All returns every dialect, in the order in which a provider that speaks several is asked where it does not speak the
// client's own: the one that can say most comes first.
func All() []*ir.Dialect {
	return []*ir.Dialect{
		anthropic.Dialect(),
		openairesponses.Dialect(),
		openaichat.Dialect(),
		gemini.Dialect(),
	}
}
