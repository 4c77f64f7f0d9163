package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Anthropic is the dialect's name, in configurations, the journal and as the prefix of its paths.
const Anthropic = "anthropic"

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
}

// Routes are the client endpoints. Paths below /anthropic are the same ones.
func Routes() []Route {
	return []Route{
		{[]string{"POST"}, "/v1/messages", Anthropic, GuardKey, (*Proxy).messages},
		{[]string{"POST"}, "/v1/messages/count_tokens", Anthropic, GuardKey, (*Proxy).countTokens},
		{[]string{"GET"}, "/v1/models", Anthropic, GuardKey, (*Proxy).models},
		{[]string{"GET"}, "/v1/models/{id}", Anthropic, GuardKey, (*Proxy).models},
		{[]string{"POST"}, "/api/event_logging/{id}", Anthropic, GuardNone, (*Proxy).nothing},
		{[]string{"HEAD"}, "/api/hello", Anthropic, GuardNone, (*Proxy).nothing},
		{[]string{"GET", "HEAD"}, "/", Anthropic, GuardNone, (*Proxy).root},
	}
}

// Match finds the route of a request by its escaped path, and the id that the path names. Errors: *Error with 404,
// 405 or 400; route is nil then, and found says whether the path is a client's at all.
func Match(routes []Route, method, escapedPath string) (route *Route, path, id string, err error) {
	path = escapedPath
	if rest, ok := strings.CutPrefix(path, "/"+Anthropic); ok && strings.HasPrefix(rest, "/") {
		path = rest
	}
	var allow []string
	for i := range routes {
		segment, ok := matchPattern(routes[i].Pattern, path)
		if !ok {
			continue
		}
		if !slices.Contains(routes[i].Methods, method) {
			allow = append(allow, routes[i].Methods...)
			continue
		}
		if segment != "" {
			if segment, err = cleanID(segment); err != nil {
				return nil, path, "", err
			}
		}
		return &routes[i], path, segment, nil
	}
	if allow != nil {
		return nil, path, "", &Error{Status: http.StatusMethodNotAllowed, Type: "invalid_request_error",
			Message: "this path takes " + strings.Join(allow, ", "), Allow: strings.Join(allow, ", ")}
	}
	return nil, path, "", &Error{Status: http.StatusNotFound, Type: "not_found_error", Message: "no such path: " + printable(path)}
}

// matchPattern reports whether the path fits, and the segment that {id} stands for.
func matchPattern(pattern, path string) (segment string, ok bool) {
	prefix, _, found := strings.Cut(pattern, "{id}")
	if !found {
		return "", path == pattern
	}
	rest, ok := strings.CutPrefix(path, prefix)
	return rest, ok && rest != "" && !strings.Contains(rest, "/")
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
