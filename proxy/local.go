package proxy

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"coding-proxy/proxy/estimate"
	"coding-proxy/proxy/ir"
	"coding-proxy/stats"
)

// probeText is what a one-token probe is answered.
const probeText = "OK"

// isProbe reports whether the request only asks whether anybody is there.
func (c *call) isProbe() bool {
	return c.set.opt.AnswerProbes && c.dialect.Name == Anthropic && c.maxTokens >= 0 && c.maxTokens <= 1
}

// probe answers with a message that cost nothing, if a key would have served the model.
func (c *call) probe(w http.ResponseWriter) {
	if err := c.p.pool.Serves(&c.want); err != nil {
		c.fail(w, err)
		return
	}
	n, err := estimate.Anthropic(c.body.bytes)
	if err != nil {
		c.fail(w, estimateError(err))
		return
	}
	a := &ir.Answer{Blocks: []ir.Block{{Kind: ir.Text, Text: probeText}}, Stop: ir.Stop{Reason: ir.StopLength},
		Usage: ir.Usage{Input: int64(n), Output: 1, Known: ir.UsageInput | ir.UsageOutput | ir.UsageCacheCreation | ir.UsageCacheRead}}
	reply := ir.Reply{Request: &ir.Request{}, Model: c.model, Seed: c.Trace, Created: c.p.now().Unix()}
	var body []byte
	if c.stream {
		enc := c.dialect.NewEncoder(reply)
		for _, e := range ir.Unfold(nil, a) {
			body = enc.Append(body, &e)
		}
	} else {
		body, _ = c.dialect.AppendAnswer(nil, a, reply)
	}
	c.answer(w, body, contentType(c.stream))
}

// answer sends what was answered here.
func (c *call) answer(w http.ResponseWriter, body []byte, contentType string) {
	c.record.ResponseBytes = int64(len(body))
	c.finish(stats.OutcomeLocal, http.StatusOK)
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set(traceHeader, c.Trace)
	_, _ = w.Write(body) // a client that is gone needs no error
}

func (c *call) answerJSON(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		c.fail(w, err)
		return
	}
	c.answer(w, body, "application/json")
}

// nothing answers connectivity checks and telemetry: 200, nothing read, kept or sent on.
func (p *Proxy) nothing(w http.ResponseWriter, _ *http.Request, e Entry) {
	w.Header().Set(traceHeader, e.Trace)
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

// root greets: a browser goes to the statistics.
func (p *Proxy) root(w http.ResponseWriter, r *http.Request, e Entry) {
	h := w.Header()
	h.Set(traceHeader, e.Trace)
	if r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Location", "/stats")
		w.WriteHeader(http.StatusFound)
		return
	}
	const text = "coding-proxy is running; statistics are at /stats\n"
	h.Set("Content-Type", "text/plain; charset=utf-8")
	h.Set("Content-Length", strconv.Itoa(len(text)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = w.Write([]byte(text)) // a client that is gone needs no error
	}
}
