package stats

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// names returns the journal's plain files in order of their days.
func (j *journal) names() (names []string, err error) {
	days, err := journalDays(j.dir)
	for _, date := range days {
		names = append(names, date+journalSuffix)
	}
	return names, err
}

// typical is a request as a team's proxy sees them, about 600 bytes as a line.
func typical(rnd *rand.Rand, ts time.Time, n int) *Record {
	pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
	model := pick("claude-sonnet-4-5", "claude-opus-4-5", "claude-haiku-4-5")
	r := &Record{
		TS: ts, Trace: fmt.Sprintf("%08x%08x", uint32(n)*2654435761, n), Caller: pick("laptop", "ci", "desk-7", "review-bot"), Group: "team",
		Session: fmt.Sprintf("%016x", rnd.IntN(200)*7919), Client: pick("claude-cli", "codex", "opencode"), Dialect: "anthropic", Upstream: "openai-chat",
		Requested: model, Resolved: model, UpstreamModel: "glm-4.6", Tier: pick("first", "second"), Key: pick("k1", "k2", "k3"), Provider: "openai",
		Stream: true, Status: 200, Outcome: OutcomeOK, StopReason: pick("tool_use", "end_turn"),
		InputTokens: rnd.Int64N(3000), OutputTokens: rnd.Int64N(2000), CacheReadTokens: rnd.Int64N(120_000), CostUSD: float64(rnd.IntN(1_000_000)) / 1e6,
		FirstByteMS: rnd.Int64N(4000), DurationMS: rnd.Int64N(40_000), RequestBytes: rnd.Int64N(900_000), ResponseBytes: rnd.Int64N(90_000),
	}
	if rnd.IntN(10) == 0 {
		r.Attempts = append(r.Attempts, Attempt{"first", "k0", 429, "retryable", "rate_limit", rnd.Int64N(900)})
	}
	r.Attempts = append(r.Attempts, Attempt{r.Tier, r.Key, 200, "ok", "", r.DurationMS})
	if rnd.IntN(50) == 0 {
		r.Outcome, r.ErrorType = OutcomeBroken, "api_error"
	}
	return r
}
