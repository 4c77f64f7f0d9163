package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"coding-proxy/proxy/codec"
	"coding-proxy/proxy/ir"
)

// The names of the dialects that endpoints beside the dialects' own are for.
const (
	Anthropic = "anthropic"
	chat      = "openai-chat"
	responses = "openai-responses"
	gemini    = "gemini"
)

// Dialects returns the names of all dialects, the one that a provider of several is rather asked in first.
func Dialects() []string {
	var names []string
	for _, d := range codec.All() {
		names = append(names, d.Name)
	}
	return names
}

// Guard says who may use a route.
type Guard uint8

// The guards.
const (
	GuardKey  Guard = iota // a request key, or loopback where none is configured
	GuardNone              // anybody: nothing is told and nothing kept
)

// Route is one client endpoint.
type Route struct {
	Methods []string
	Pattern string // {id} stands for one segment
	Dialect string
	Guard   Guard
	handle  func(*Proxy, http.ResponseWriter, *http.Request, Entry)

	prefix string // below "/"+prefix the path is the same one
	action string // what must follow the id behind its last colon; "" = the id has none
	stream bool   // the path itself asks for a stream
	free   bool   // it costs no tokens
	text   bool   // passed through, and the answer is text
	speaks string // passed through unchanged, to keys that speak one of these dialects (two words at most)
}

// Routes are the client endpoints: where the dialects' clients ask for an answer, and the others. Paths below a dialect's
// prefix (/anthropic, /openai, /gemini) are the same ones.
func Routes() []Route {
	const openai = chat + " " + responses
	pass := (*Proxy).pass
	routes := []Route{
		{Methods: []string{"POST"}, Pattern: "/v1/messages/count_tokens", Dialect: Anthropic, handle: (*Proxy).countTokens, speaks: Anthropic, free: true},
		{Methods: []string{"POST"}, Pattern: "/v1beta/models/{id}", Dialect: gemini, handle: (*Proxy).countTokens, action: "countTokens", speaks: gemini, free: true},
		{Methods: []string{"POST"}, Pattern: "/v1/models/{id}", Dialect: gemini, handle: (*Proxy).countTokens, action: "countTokens", speaks: gemini, free: true},

		{Methods: []string{"POST"}, Pattern: "/v1/responses/compact", Dialect: responses, handle: pass, speaks: responses, text: true},
		{Methods: []string{"POST"}, Pattern: "/v1/responses/input_tokens", Dialect: responses, handle: pass, speaks: responses, free: true},
		{Methods: []string{"GET"}, Pattern: "/v1/responses/{id}", Dialect: responses, handle: pass, speaks: responses},
		{Methods: []string{"POST"}, Pattern: "/v1/embeddings", Dialect: chat, handle: pass, speaks: openai},
		{Methods: []string{"POST"}, Pattern: "/v1/completions", Dialect: chat, handle: pass, speaks: openai, text: true},
		{Methods: []string{"POST"}, Pattern: "/v1/moderations", Dialect: chat, handle: pass, speaks: openai, free: true},
		{Methods: []string{"POST"}, Pattern: "/v1/images/{id}", Dialect: chat, handle: pass, speaks: openai},
		{Methods: []string{"POST"}, Pattern: "/v1/audio/{id}", Dialect: chat, handle: pass, speaks: openai},
		{Methods: []string{"POST"}, Pattern: "/v1beta/models/{id}", Dialect: gemini, handle: pass, action: "embedContent", speaks: gemini},
		{Methods: []string{"POST"}, Pattern: "/v1beta/models/{id}", Dialect: gemini, handle: pass, action: "batchEmbedContents", speaks: gemini},
		{Methods: []string{"POST"}, Pattern: "/v1/models/{id}", Dialect: gemini, handle: pass, action: "embedContent", speaks: gemini},
		{Methods: []string{"POST"}, Pattern: "/v1/models/{id}", Dialect: gemini, handle: pass, action: "batchEmbedContents", speaks: gemini},

		{Methods: []string{"GET"}, Pattern: "/v1/models", Dialect: chat, handle: (*Proxy).models, free: true},
		{Methods: []string{"GET"}, Pattern: "/v1/models/{id}", Dialect: chat, handle: (*Proxy).models, free: true},
		{Methods: []string{"GET"}, Pattern: "/v1beta/models", Dialect: gemini, handle: (*Proxy).models, free: true},
		{Methods: []string{"GET"}, Pattern: "/v1beta/models/{id}", Dialect: gemini, handle: (*Proxy).models, free: true},

		{Methods: []string{"POST", "GET", "DELETE"}, Pattern: "/mcp/{id}", Dialect: mcp, handle: (*Proxy).mcp, free: true},

		{Methods: []string{"POST"}, Pattern: "/api/event_logging/{id}", Dialect: Anthropic, Guard: GuardNone, handle: (*Proxy).nothing},
		{Methods: []string{"HEAD"}, Pattern: "/api/hello", Dialect: Anthropic, Guard: GuardNone, handle: (*Proxy).nothing},
		{Methods: []string{"GET", "HEAD"}, Pattern: "/", Dialect: Anthropic, Guard: GuardNone, handle: (*Proxy).root},
	}
	for _, d := range codec.All() {
		for _, e := range d.Endpoints {
			routes = append(routes, Route{Methods: []string{"POST"}, Pattern: e.Pattern, Dialect: d.Name, handle: (*Proxy).generate,
				prefix: d.Prefix, action: e.Action, stream: e.Stream})
		}
	}
	return routes
}

// Match finds the route of a request by its escaped path, and the id that the path names. Errors: *Error with 404,
// 405 or 400; route is nil then, and path is without a dialect's prefix all the same.
func Match(routes []Route, method, escapedPath string) (route *Route, path, id string, err error) {
	path = escapedPath
	for i := range routes {
		rest, ok := strings.CutPrefix(path, "/"+routes[i].prefix)
		if ok && routes[i].prefix != "" && strings.HasPrefix(rest, "/") {
			path = rest
			break
		}
	}
	var allow []string
	for i := range routes {
		r := &routes[i]
		kind, segment, ok := r.match(path)
		if !ok {
			continue
		}
		if method == http.MethodPost && r.action == "" && strings.HasSuffix(r.Pattern, "/models/{id}") && strings.Contains(segment, ":") {
			continue // an action that is not known
		}
		if !slices.Contains(r.Methods, method) {
			if !slices.Contains(allow, r.Methods[0]) {
				allow = append(allow, r.Methods...)
			}
			continue
		}
		if segment != "" {
			if segment, err = cleanID(segment); err != nil {
				return nil, path, "", err
			}
		}
		return r, path, kind + segment, nil
	}
	if allow != nil {
		return nil, path, "", &Error{Status: http.StatusMethodNotAllowed, Type: ir.KindInvalid,
			Message: "this path takes " + strings.Join(allow, ", "), Allow: strings.Join(allow, ", ")}
	}
	return nil, path, "", &Error{Status: http.StatusNotFound, Type: ir.KindNotFound, code: "unknown_url", Message: "no such path: " + printable(path)}
}

// tuned are Gemini's tuned models: their names begin with it, and their paths have it in place of models/.
const tuned = "tunedModels/"

// match reports whether the path fits, and the id that {id} stands for. Where an action must follow, the last colon
// parts the two. kind is what belongs before the id in a model's name.
func (r *Route) match(path string) (kind, id string, ok bool) {
	prefix, _, found := strings.Cut(r.Pattern, "{id}")
	if !found {
		return "", "", path == r.Pattern
	}
	rest, ok := strings.CutPrefix(path, prefix)
	if base, models := strings.CutSuffix(prefix, "/models/"); !ok && models && r.Dialect == gemini {
		rest, ok = strings.CutPrefix(path, base+"/"+tuned)
		kind = tuned
	}
	if !ok || strings.Contains(rest, "/") {
		return "", "", false
	}
	if r.action != "" {
		colon := strings.LastIndexByte(rest, ':')
		if colon < 0 || rest[colon+1:] != r.action {
			return "", "", false
		}
		rest = rest[:colon]
	}
	return kind, rest, rest != ""
}

// dialectFor is the route's dialect. Three share the paths of model lists: their clients differ in a header.
func (r *Route) dialectFor(h http.Header) string {
	switch shared := strings.HasPrefix(r.Pattern, "/v1/models") && r.action == ""; {
	case !shared:
	case h.Get("X-Goog-Api-Key") != "" || h.Get("X-Goog-Api-Client") != "":
		return gemini
	case h.Get("Anthropic-Version") != "":
		return Anthropic
	}
	return r.Dialect
}

// Costs reports whether a request may use tokens of a provider.
func (r *Route) Costs() bool { return !r.free }

// Listens reports whether a request only waits for what a server may have to say.
func (r *Route) Listens(method string) bool { return r.Dialect == mcp && method == http.MethodGet }

// Path is the pattern with the action, as a person reads it.
func (r *Route) Path() string {
	if r.action == "" {
		return r.Pattern
	}
	return r.Pattern + ":" + r.action
}

// withModel is the path of the route for another model.
func (r *Route) withModel(name string) string {
	pattern := r.Pattern
	if rest, ok := strings.CutPrefix(name, tuned); ok {
		pattern, name = strings.Replace(pattern, "models/{id}", tuned+"{id}", 1), rest
	}
	return strings.Replace(pattern, "{id}", url.PathEscape(name), 1) + ":" + r.action
}

// cleanID unescapes one path segment once. What could lead elsewhere on the way upstream is refused.
func cleanID(segment string) (string, error) {
	id, err := url.PathUnescape(segment)
	if err != nil || id == "." || id == ".." || strings.ContainsAny(id, `/\?#%`) {
		return "", badRequest("the id in the path is not one that can be asked for")
	}
	for i := 0; i < len(id); i++ {
		if id[i] < 0x20 || id[i] == 0x7f {
			return "", badRequest("the id in the path is not one that can be asked for")
		}
	}
	return id, nil
}

// DialectOf guesses the dialect of a request that no route took, by its path and headers.
func DialectOf(r *http.Request) string {
	path, h := r.URL.Path, r.Header
	switch {
	case strings.HasPrefix(path, "/mcp/"):
		return mcp
	case strings.HasPrefix(path, "/gemini/"), strings.Contains(path, "/v1beta/"), h.Get("X-Goog-Api-Key") != "", h.Get("X-Goog-Api-Client") != "":
		return gemini
	case strings.HasPrefix(path, "/anthropic/"), h.Get("Anthropic-Version") != "", strings.HasSuffix(path, "/messages"):
		return Anthropic
	case strings.Contains(path, "/responses"):
		return responses
	case strings.HasPrefix(path, "/openai/"), strings.HasSuffix(path, "/completions"), h.Get("Openai-Organization") != "",
		strings.Contains(h.Get("User-Agent"), "OpenAI/"): // also AsyncOpenAI/, AzureOpenAI/
		return chat
	}
	return Anthropic
}
