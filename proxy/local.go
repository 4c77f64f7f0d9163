package proxy

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/pool"
	"coding-proxy/proxy/codec/anthropic"
	"coding-proxy/proxy/estimate"
	"coding-proxy/stats"
)

// probeText is what a one-token probe is answered.
const probeText = "OK"

// countTokens estimates here what a request would cost.
func (p *Proxy) countTokens(w http.ResponseWriter, r *http.Request, e Entry) {
	c, err := p.newCall(w, r, e)
	defer c.releaseBody()
	if err != nil {
		c.fail(w, err)
		return
	}
	n, err := estimate.Anthropic(c.body.bytes)
	if err != nil {
		c.fail(w, estimateError(err))
		return
	}
	c.answer(w, []byte(`{"input_tokens":`+strconv.Itoa(n)+`}`), "application/json")
}

func estimateError(err error) error {
	var f *estimate.FieldError
	if errors.As(err, &f) {
		return badRequest("%s", f.Error())
	}
	return badRequest("the request body is not what this endpoint takes")
}

// isProbe reports whether the request only asks whether anybody is there.
func (c *call) isProbe() bool { return c.set.opt.AnswerProbes && c.maxTokens >= 0 && c.maxTokens <= 1 }

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
	contentType := "application/json"
	if c.stream {
		contentType = "text/event-stream; charset=utf-8"
	}
	c.answer(w, anthropic.AppendMessage(nil, "msg_proxy_"+c.Trace, c.model, probeText, int64(n), 1, c.stream), contentType)
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

// modelInfo is an entry of a model list, in the shape of both vendors.
type modelInfo struct {
	Type        string `json:"type,omitempty"`
	Object      string `json:"object,omitempty"`
	ID          string `json:"id"`
	DisplayName string `json:"display_name,omitempty"`
	CreatedAt   string `json:"created_at,omitempty"`
	OwnedBy     string `json:"owned_by,omitempty"`
}

// knownModels are Anthropic's names, listed where a key serves them.
var knownModels = [...]string{
	"claude-haiku-4-5", "claude-haiku-5-5", "claude-opus-4-5", "claude-opus-5-5", "claude-sonnet-4-5", "claude-sonnet-5-5",
}

// models lists the names that the caller's scope can reach, or one of them.
func (p *Proxy) models(w http.ResponseWriter, r *http.Request, e Entry) {
	c := p.start(r, e)
	scope := pool.Everything()
	if e.Caller.Limited {
		scope = pool.Only(e.Caller.Keys...)
	}
	names := slices.DeleteFunc(p.pool.Models(scope, knownModels[:]), func(n string) bool { return !e.Caller.MayUse(p.pool.Resolve(n)) })
	asAnthropic := r.Header.Get("Anthropic-Version") != ""
	if e.ID != "" {
		c.record.Requested, c.record.Resolved = printable(e.ID), ""
		if !slices.Contains(names, e.ID) {
			c.fail(w, &pool.ModelError{Model: e.ID})
			return
		}
		c.answerJSON(w, describe(e.ID, asAnthropic))
		return
	}
	list := make([]modelInfo, 0, len(names))
	for _, n := range names {
		list = append(list, describe(n, asAnthropic))
	}
	if !asAnthropic {
		c.answerJSON(w, struct {
			Object string      `json:"object"`
			Data   []modelInfo `json:"data"`
		}{"list", list})
		return
	}
	page := struct {
		Data    []modelInfo `json:"data"`
		HasMore bool        `json:"has_more"`
		FirstID *string     `json:"first_id"`
		LastID  *string     `json:"last_id"`
	}{Data: list}
	if len(names) > 0 {
		page.FirstID, page.LastID = &names[0], &names[len(names)-1]
	}
	c.answerJSON(w, page)
}

func describe(name string, asAnthropic bool) modelInfo {
	if asAnthropic {
		return modelInfo{Type: "model", ID: name, DisplayName: name, CreatedAt: "1970-01-01T00:00:00Z"}
	}
	return modelInfo{Object: "model", ID: name, OwnedBy: "coding-proxy"}
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
