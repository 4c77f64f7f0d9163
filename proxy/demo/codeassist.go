package demo

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// CodeAssistOptions describe a simulated Code Assist service. The zero value takes any bearer token.
type CodeAssistOptions struct {
	Provider   *Provider               // answers what comes in the envelopes; nil = a new one that speaks Gemini's dialect
	Valid      func(token string) bool // of bearer tokens, as Identity.Valid; nil = any
	Project    string                  // the account's; empty = "demo-project"
	AsObject   bool                    // the project is told as {"id": …}
	Onboarding int                     // calls of onboardUser until the account has its project; 0 = it has one already
	Ineligible string                  // why the account may have none at all, e.g. "UNSUPPORTED_LOCATION"
	Now        func() time.Time        // nil = time.Now
}

// CodeAssist is a simulated Code Assist service: Gemini's requests in envelopes at /v1internal:generateContent,
// :streamGenerateContent and :countTokens, and the calls by which an account finds its project. It is reached under
// several addresses, each a Host.
type CodeAssist struct {
	options CodeAssistOptions

	mu        sync.Mutex
	onboarded int
	serial    int
	seen      map[string]bool // request ids
}

// CodeAssistHost is one address of the service: an http.Handler below any path prefix.
type CodeAssistHost struct {
	service *CodeAssist
	log     recorder

	mu     sync.Mutex
	steps  map[string][]AssistStep // by action, "" for both of generating
	always AssistStep
}

// AssistStep says how one request is answered. The zero value answers as the request deserves.
type AssistStep struct {
	Status     int    // from 400 on: an error
	Reason     string // in its ErrorInfo, e.g. "QUOTA_EXHAUSTED"
	Message    string
	ResetDelay string // quotaResetDelay of the ErrorInfo, e.g. "1h2m3.5s"
	ResetAt    string // quotaResetTimeStamp of it, RFC 3339
	RetryDelay string // of a RetryInfo, e.g. "0.5s"
	Array      bool   // the error comes in an array
	Enveloped  bool   // the error comes under "response"
	Raw        string // the whole body instead, as it is, with Status
	Bare       bool   // a good answer comes without its envelope
	Hold       *Hold  // HoldAt(0): waits before anything is looked at
}

// NewCodeAssist returns a service.
func NewCodeAssist(options CodeAssistOptions) *CodeAssist {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Provider == nil {
		options.Provider = New(Options{Dialects: []string{gemini}, Now: options.Now})
	}
	options.Project = cmp.Or(options.Project, "demo-project")
	return &CodeAssist{options: options, seen: map[string]bool{}}
}

// Provider answers what comes in the envelopes: push its steps there.
func (s *CodeAssist) Provider() *Provider { return s.options.Provider }

// Host returns one more address of the service.
func (s *CodeAssist) Host() *CodeAssistHost {
	return &CodeAssistHost{service: s, log: newRecorder(), steps: map[string][]AssistStep{}}
}

// Push queues answers of an action, e.g. "loadCodeAssist"; "" stands for generateContent and streamGenerateContent.
func (h *CodeAssistHost) Push(action string, steps ...AssistStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.steps[action] = append(h.steps[action], steps...)
}

// Always sets what every action answers when no step is queued.
func (h *CodeAssistHost) Always(step AssistStep) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.always = step
}

// Requests returns what arrived here, the oldest first.
func (h *CodeAssistHost) Requests() []Request { return h.log.list() }

// Count returns how often an action was asked for here, whatever came of it.
func (h *CodeAssistHost) Count(action string) int {
	n := 0
	for _, r := range h.log.list() {
		if strings.HasSuffix(r.Path, ":"+action) {
			n++
		}
	}
	return n
}

func (h *CodeAssistHost) next(action string) AssistStep {
	if action == "generateContent" || action == "streamGenerateContent" {
		action = ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if queue := h.steps[action]; len(queue) > 0 {
		h.steps[action] = queue[1:]
		return queue[0]
	}
	return h.always
}

// ServeHTTP answers one request and remembers it.
func (h *CodeAssistHost) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry := h.log.begin(r, h.service.options.Now())
	end := CutByClient
	defer func() { h.log.finish(entry, end) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	h.log.setBody(entry, body)
	if err != nil {
		return
	}
	before, action, _ := cutLast(r.URL.Path, ":")
	a := &answer{w: w, r: r, dialect: gemini, end: &end, array: action == "streamGenerateContent" && r.URL.Query().Get("alt") != "sse"}
	if !strings.HasSuffix(before, "/v1internal") || strings.Count(before, "v1internal") != 1 || r.Method != http.MethodPost {
		a.body(http.StatusNotFound, "text/html; charset=utf-8", []byte(page("Error 404 (Not Found)!!1", "")))
		return
	}
	step := h.next(action)
	if step.Hold != nil && !step.Hold.wait(r.Context().Done()) {
		return
	}
	switch {
	case step.Raw != "":
		a.body(max(step.Status, http.StatusOK), "text/html; charset=utf-8", []byte(step.Raw))
	case step.Status >= http.StatusBadRequest:
		a.body(step.Status, "application/json; charset=UTF-8", step.failure())
	default:
		h.service.serve(a, action, body, step.Bare)
	}
}

// failure is the error's body.
func (s AssistStep) failure() []byte {
	type detail struct {
		Type       string            `json:"@type"`
		Reason     string            `json:"reason,omitempty"`
		Domain     string            `json:"domain,omitempty"`
		Metadata   map[string]string `json:"metadata,omitempty"`
		RetryDelay string            `json:"retryDelay,omitempty"`
	}
	type failure struct {
		Error struct {
			Code    int      `json:"code"`
			Message string   `json:"message"`
			Status  string   `json:"status"`
			Details []detail `json:"details,omitempty"`
		} `json:"error"`
	}
	var f failure
	f.Error.Code, f.Error.Message, f.Error.Status = s.Status, cmp.Or(s.Message, http.StatusText(s.Status)), googleStatus(s.Status)
	if s.Reason != "" {
		metadata := map[string]string{}
		if s.ResetDelay != "" {
			metadata["quotaResetDelay"] = s.ResetDelay
		}
		if s.ResetAt != "" {
			metadata["quotaResetTimeStamp"] = s.ResetAt
		}
		f.Error.Details = append(f.Error.Details, detail{Type: "type.googleapis.com/google.rpc.ErrorInfo", Reason: s.Reason,
			Domain: "cloudcode-pa.googleapis.com", Metadata: metadata})
	}
	if s.RetryDelay != "" {
		f.Error.Details = append(f.Error.Details, detail{Type: "type.googleapis.com/google.rpc.RetryInfo", RetryDelay: s.RetryDelay})
	}
	var body any = f
	if s.Enveloped {
		body = struct {
			Response failure `json:"response"`
		}{f}
	}
	if s.Array {
		body = []any{body}
	}
	return encode(body)
}

// serve checks the credential and goes on to the action.
func (s *CodeAssist) serve(a *answer, action string, body []byte, bare bool) {
	sent, malformed := credentials(a.r)
	bearer := sent["bearer"]
	switch {
	case len(sent["x-api-key"])+len(sent["x-goog-api-key"])+len(sent["api-key"])+len(sent["key"]) > 0:
		a.refuse(bad("A credential of another kind was sent along: that is a leak."))
		return
	case malformed || len(bearer) != 1 || s.options.Valid != nil && !s.options.Valid(bearer[0]):
		a.refuse(unauthorized(gemini, ""))
		return
	case !strings.HasPrefix(a.r.Header.Get("content-type"), "application/json"):
		a.refuse(bad("The content type must be application/json."))
		return
	}
	tree, err := parseTree(body)
	if err != nil || tree.kind != object {
		a.refuse(bad("Invalid JSON payload received. Unexpected token."))
		return
	}
	switch action {
	case "generateContent", "streamGenerateContent", "countTokens":
		s.generate(a, action, tree, body, bare)
	case "loadCodeAssist":
		s.load(a, tree)
	case "onboardUser":
		s.onboard(a, tree)
	case "fetchAvailableModels":
		s.available(a, tree)
	default:
		a.refuse(refuse(http.StatusNotFound, "Method not found."))
	}
}

// generate takes a request out of its envelope, and puts the provider's answer into one.
func (s *CodeAssist) generate(a *answer, action string, tree *node, body []byte, bare bool) {
	if refusal := s.checkEnvelope(action, tree); refusal != nil {
		a.refuse(refusal)
		return
	}
	var outer struct {
		Request map[string]json.RawMessage `json:"request"`
	}
	_ = json.Unmarshal(body, &outer) // it has been read already
	model := tree.str("model")
	if action == "countTokens" {
		model = cmp.Or(strings.TrimPrefix(tree.path("request").str("model"), "models/"), "gemini-2.5-flash")
		delete(outer.Request, "model")
	}
	delete(outer.Request, "sessionId")
	inner := encode(outer.Request)
	r := a.r.Clone(a.r.Context())
	r.URL.Path = "/v1beta/models/" + model + ":" + action
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(inner)), int64(len(inner))
	*a.end = Completed // else the provider cuts it, which panics
	defer func() {
		if problem := recover(); problem != nil {
			*a.end = CutByStep
			panic(problem)
		}
	}()
	if action == "countTokens" || bare {
		s.options.Provider.ServeHTTP(a.w, r)
		return
	}
	s.options.Provider.ServeHTTP(&enveloper{ResponseWriter: a.w, trace: s.id("trace"), status: http.StatusOK}, r)
}

// checkEnvelope refuses what the service would.
func (s *CodeAssist) checkEnvelope(action string, tree *node) *refusal {
	known := []string{"project", "model", "request", "requestId", "requestType", "userAgent", "user_prompt_id", "enabledCreditTypes"}
	if action == "countTokens" {
		known = []string{"request"}
	}
	for _, name := range tree.names {
		if !slices.Contains(known, name) {
			return bad("Invalid JSON payload received. Unknown name %q: Cannot find field.", name)
		}
	}
	request := tree.get("request")
	switch session := request.get("sessionId"); {
	case !request.is(object):
		return bad("request is not specified")
	case request.has("safetySettings"):
		return badField("request.safetySettings", "safety settings are the service's own")
	case action == "countTokens":
		return nil
	case request.has("model"):
		return badField("request.model", `Invalid JSON payload received. Unknown name "model" at 'request': Cannot find field.`)
	case tree.str("project") != s.options.Project:
		return refuse(http.StatusForbidden, "Permission denied on resource project "+tree.str("project")+".")
	case tree.str("model") == "" || strings.HasPrefix(tree.str("model"), "models/"):
		return badField("model", "model is not specified")
	case tree.has("requestType") && !slices.Contains([]string{"agent", "image_gen", "web_search"}, tree.str("requestType")):
		return badField("requestType", "Invalid value at 'requestType' (TYPE_ENUM)")
	case !strings.HasPrefix(tree.str("requestId"), "agent-") || !s.fresh(tree.str("requestId")):
		return badField("requestId", "requestId must be a new one, agent-<uuid>")
	case !isSessionID(session.string()):
		return badField("request.sessionId", "sessionId must be a negative number of 63 bits")
	}
	if strings.HasPrefix(tree.str("model"), "claude") {
		return checkClaude(request)
	}
	return nil
}

// checkClaude refuses tools that Claude's models are not handed: a schema counts only under "parameters", and the mode
// VALIDATED wants a required parameter of each function.
func checkClaude(request *node) *refusal {
	mode := request.path("toolConfig", "functionCallingConfig").str("mode")
	for _, tool := range request.items("tools") {
		for n, f := range tool.items("functionDeclarations") {
			switch schema := f.get("parameters"); {
			case !schema.is(object):
				return bad(`{"type":"error","error":{"type":"invalid_request_error","message":"tools.%d.custom.input_schema: Field required"}}`, n)
			case mode == "VALIDATED" && len(schema.items("required")) == 0:
				return badField("request.toolConfig.functionCallingConfig.mode", "Request contains an invalid argument.")
			}
		}
	}
	return nil
}

// fresh reports whether a request id has not been seen before.
func (s *CodeAssist) fresh(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.seen[id]
	s.seen[id] = true
	return !was
}

func isSessionID(id string) bool {
	digits, negative := strings.CutPrefix(id, "-")
	return negative && len(digits) > 0 && len(digits) <= 19 && strings.Trim(digits, "0123456789") == ""
}

func (s *CodeAssist) id(kind string) string { return s.options.Provider.id(kind) }
