package demo

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// freeTier is the tier that every account is allowed.
const freeTier = "free-tier"

// load answers loadCodeAssist: the account's tier and project.
func (s *CodeAssist) load(a *answer, tree *node) {
	if tree.get("metadata").str("ideType") == "" {
		a.refuse(badField("metadata.ideType", "metadata.ideType is not specified"))
		return
	}
	type tier struct {
		ID      string `json:"id"`
		Default bool   `json:"isDefault,omitempty"`
		Reason  string `json:"reasonCode,omitempty"`
		Message string `json:"reasonMessage,omitempty"`
	}
	account := struct {
		Current    *tier  `json:"currentTier,omitempty"`
		Allowed    []tier `json:"allowedTiers,omitempty"`
		Ineligible []tier `json:"ineligibleTiers,omitempty"`
		Project    any    `json:"cloudaicompanionProject,omitempty"`
	}{Allowed: []tier{{ID: "standard-tier"}, {ID: freeTier, Default: true}}}
	switch {
	case s.options.Ineligible != "":
		account.Allowed, account.Ineligible = nil, []tier{{ID: freeTier, Reason: s.options.Ineligible, Message: "Your current account is not eligible."}}
	case s.hasProject():
		account.Current, account.Project = &tier{ID: freeTier}, s.project()
	}
	a.json(http.StatusOK, account)
}

func (s *CodeAssist) hasProject() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.onboarded >= s.options.Onboarding
}

func (s *CodeAssist) project() any {
	if !s.options.AsObject {
		return s.options.Project
	}
	return struct {
		ID     string `json:"id"`
		Number string `json:"projectNumber"`
	}{s.options.Project, "1"}
}

// onboard answers onboardUser: an operation that is asked for again until it is done.
func (s *CodeAssist) onboard(a *answer, tree *node) {
	if tree.str("tierId") != freeTier { // the tree finds tier_id, too
		a.refuse(badField("tierId", "tierId is not one that the account is allowed"))
		return
	}
	s.mu.Lock()
	s.onboarded++
	s.mu.Unlock()
	operation := struct {
		Name     string `json:"name"`
		Done     bool   `json:"done,omitempty"`
		Response any    `json:"response,omitempty"`
	}{Name: "operations/demo"}
	if s.hasProject() {
		operation.Done = true
		operation.Response = struct {
			Project any `json:"cloudaicompanionProject"`
		}{s.project()}
	}
	a.json(http.StatusOK, operation)
}

// available answers fetchAvailableModels.
func (s *CodeAssist) available(a *answer, tree *node) {
	if tree.str("project") != s.options.Project {
		a.refuse(refuse(http.StatusForbidden, "Permission denied on resource project "+tree.str("project")+"."))
		return
	}
	type quota struct {
		Remaining float64 `json:"remainingFraction"`
		Reset     string  `json:"resetTime"`
	}
	type model struct {
		Name     string `json:"displayName"`
		Thinking bool   `json:"supportsThinking"`
		Quota    quota  `json:"quotaInfo"`
	}
	models := map[string]model{}
	for _, name := range s.options.Provider.names(gemini) {
		models[name] = model{name, true, quota{1, s.options.Now().Add(5 * time.Hour).UTC().Format(time.RFC3339)}}
	}
	a.json(http.StatusOK, struct {
		Models map[string]model `json:"models"`
	}{models})
}

// enveloper puts each answer that is written through it under "response".
type enveloper struct {
	http.ResponseWriter
	trace  string
	status int
}

// Unwrap lets the writer be flushed.
func (e *enveloper) Unwrap() http.ResponseWriter { return e.ResponseWriter }

func (e *enveloper) WriteHeader(status int) {
	if e.status = status; status == http.StatusOK {
		e.Header().Del("content-length")
	}
	e.ResponseWriter.WriteHeader(status)
}

// Write takes what the provider writes at once: an event, an element of an array, or the whole of a plain body.
func (e *enveloper) Write(p []byte) (int, error) {
	out := p
	isPage := strings.HasPrefix(e.Header().Get("content-type"), "text/html")
	if from := bytes.IndexByte(p, '{'); e.status == http.StatusOK && !isPage && from >= 0 && !bytes.HasPrefix(p[from:], []byte(`{"error"`)) {
		value := bytes.TrimRight(p[from:], "\r\n")
		var b bytes.Buffer
		b.Write(p[:from])
		b.WriteString(`{"response": `)
		b.Write(value)
		if json.Valid(value) { // what breaks off stays broken
			b.WriteString(`,"traceId": "` + e.trace + `","metadata": {}}`)
		}
		b.WriteString(strings.TrimPrefix(string(p[from:]), string(value)))
		out = b.Bytes()
	}
	if _, err := e.ResponseWriter.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
