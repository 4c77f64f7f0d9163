// Package proxy takes one request in and gives one response out.
package proxy

import (
	"time"

	"coding-proxy/proxy/upstream"
)

// Options are the rules of the request path.
type Options struct {
	Failover     Failover
	Timeouts     Timeouts
	Limits       Limits
	AnswerProbes bool // answer /v1/messages with max_tokens <= 1 here

	CountUpstream bool                        // ask providers for token counts; false: estimate them here
	MCP           map[string]upstream.Options // servers for /mcp/{name}: one endpoint each, whose base URL is the whole address
}

// Failover says which answers of an upstream move a request to the next key (design/routing.md, section 4).
type Failover struct {
	StatusCodes     []int
	ErrorTypes      []string
	MessagePatterns []string // substrings, matched without regard to case
	CapPatterns     []string
	MaxAttempts     int
	MaxTime         time.Duration // no attempt starts later than this after the first
	HoldFirstEvent  time.Duration // how long the head of a stream is held back
}

// Timeouts bound the waiting for an upstream.
type Timeouts struct {
	Connect            time.Duration
	FirstByte          time.Duration // streams
	FirstByteNonstream time.Duration
	Idle               time.Duration // between two reads of an answer, and for a client that stops reading or sending
}

// Limits bound what a client may send.
type Limits struct {
	MaxBodyBytes   int64 // after decoding
	MaxHeaderBytes int
	MaxInFlight    int // requests being served; 0 = no limit
}

// Defaults returns the options of design/config.md.
func Defaults() Options {
	return Options{
		Failover: Failover{
			StatusCodes:     []int{429, 403, 500, 502, 503, 504, 529},
			ErrorTypes:      []string{"rate_limit_error", "overloaded_error", "api_error"},
			MessagePatterns: []string{"capacity", "internal network failure", "overloaded"},
			CapPatterns:     []string{"usage cap", "quota", "credit balance", "spending limit", "limit exceeded"},
			MaxAttempts:     6,
			MaxTime:         90 * time.Second,
			HoldFirstEvent:  10 * time.Second,
		},
		Timeouts: Timeouts{
			Connect:            10 * time.Second,
			FirstByte:          2 * time.Minute,
			FirstByteNonstream: 10 * time.Minute,
			Idle:               5 * time.Minute,
		},
		Limits:       Limits{MaxBodyBytes: 32 << 20, MaxHeaderBytes: 64 << 10},
		AnswerProbes: true,
	}
}
