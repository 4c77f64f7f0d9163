package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
	"coding-proxy/stats"
)

// Pool is what is shown of the pool.
type Pool interface {
	View() pool.View
}

// Stats is what is shown of the statistics.
type Stats interface {
	Totals(stats.Range) stats.Totals
	KeyWindows(time.Time) map[string]*stats.Windows[stats.Figures]
	CallerWindows(time.Time) map[string]*stats.Windows[stats.Figures]
	Metrics() stats.Metrics
}

// Limiter says how callers stand towards their limits (auth.Limiter).
type Limiter interface {
	Standing(code string, of auth.Limits, now time.Time) auth.Standing
}

// Sources are the rooms whose state is shown.
type Sources struct {
	Pool     Pool
	Stats    Stats
	Accounts Accounts
	Limiter  Limiter
	Journal  Journal
}

// Web serves the pages and their JSON.
type Web struct {
	pool     Pool
	stats    Stats
	accounts Accounts
	limiter  Limiter
	journal  Journal
	callers  []auth.RequestKey
	opt      Options
	now      func() time.Time
	pages    pages
}

// New returns the watchers' endpoints.
func New(from Sources, callers []auth.RequestKey, opt Options, now func() time.Time) *Web {
	return &Web{pool: from.Pool, stats: from.Stats, accounts: from.Accounts, limiter: from.Limiter, journal: from.Journal, callers: callers, opt: opt, now: now, pages: newPages()}
}

// Route is one watchers' endpoint.
type Route struct {
	Path   string   // {trace} at its end stands for one segment
	Public bool     // answers to any address and host
	Health bool     // says whether the program serves
	Style  bool     // the form of the admin key needs it
	params []string // query parameters that it takes
	handle func(*Web, http.ResponseWriter, *http.Request) error
}

// Routes are the watchers' endpoints; all take GET and HEAD.
func Routes() []Route {
	return []Route{
		{Path: "/stats", params: []string{"window", "lang"}, handle: (*Web).statsPage},
		{Path: "/stats/pool", params: []string{"lang"}, handle: (*Web).poolPage},
		{Path: "/stats/pool/usage", params: []string{"lang"}, handle: (*Web).usagePage},
		{Path: "/stats/request-keys", params: []string{"lang"}, handle: (*Web).callersPage},
		{Path: cssPath, Style: true, handle: (*Web).css},
		{Path: scriptPath, handle: (*Web).script},
		{Path: "/api/stats", params: []string{"window"}, handle: (*Web).apiStats},
		{Path: "/api/pool/stats", handle: (*Web).apiPool},
		{Path: "/api/pool/usage", handle: (*Web).apiPoolUsage},
		{Path: "/api/request-keys/usage", handle: (*Web).apiCallers},
		{Path: requestsPath, params: requestsParams(), handle: (*Web).apiRequests},
		{Path: requestsPath + "/" + traceSegment, handle: (*Web).apiRequest},
		{Path: "/healthz", Public: true, Health: true, handle: (*Web).healthz},
		{Path: "/readyz", Health: true, handle: (*Web).readyz},
		{Path: "/metrics", handle: (*Web).metrics},
		{Path: "/health", Public: true, Health: true, handle: (*Web).health},
		{Path: "/api/status", handle: (*Web).status},
		{Path: "/api/copilot/diagnostics", handle: (*Web).copilotDiagnostics},
		{Path: "/api/copilot/models", handle: (*Web).copilotModels},
		{Path: "/api/reauth/status", handle: (*Web).reauthStatus},
	}
}

// Page reports whether the route is a page for people: those have languages.
func (r *Route) Page() bool { return slices.Contains(r.params, "lang") }

// Find returns the route of a path, nil when it is not a watchers' one.
func Find(routes []Route, path string) *Route {
	for i := range routes {
		if routes[i].Path == path {
			return &routes[i]
		}
		if prefix, ok := strings.CutSuffix(routes[i].Path, traceSegment); ok {
			if segment, ok := strings.CutPrefix(path, prefix); ok && segment != "" && !strings.Contains(segment, "/") {
				return &routes[i]
			}
		}
	}
	return nil
}

// Error is an answer that is an error.
type Error struct {
	Status        int
	Type, Message string
}

func (e *Error) Error() string { return e.Message }

// Serve answers a request to the route.
func (x *Web) Serve(w http.ResponseWriter, r *http.Request, route *Route) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		WriteError(w, &Error{http.StatusMethodNotAllowed, "invalid_request_error", "this path takes GET"})
		return
	}
	err := checkQuery(r, route.params)
	if err == nil {
		err = route.handle(x, w, r)
	}
	if err != nil {
		WriteError(w, err)
	}
}

// checkQuery refuses parameters that are unknown, cannot be read or are there more than once: passed over, they would
// widen what is asked.
func checkQuery(r *http.Request, known []string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &Error{http.StatusBadRequest, "invalid_request_error", "the query cannot be read"}
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return &Error{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("unknown parameter %q", name)}
		}
		if len(values) > 1 {
			return &Error{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf("%s is there more than once", name)}
		}
	}
	return nil
}

// WriteError renders an error of these endpoints.
func WriteError(w http.ResponseWriter, err error) {
	var e *Error
	if !errors.As(err, &e) {
		e = &Error{http.StatusInternalServerError, "api_error", "internal error of the proxy"}
	}
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	body.Error.Type, body.Error.Message = e.Type, e.Message
	writeJSON(w, e.Status, body)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"type":"api_error","message":"internal error of the proxy"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(data)))
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that is gone needs no error
}

// maxDays bounds days:N.
const maxDays = 400

// span reads the window parameter: one of the five windows, or days:N.
func span(text string, now time.Time) (name string, r stats.Range, err error) {
	w := stats.WindowsAt(now)
	switch text {
	case "", "today":
		return "today", w.Today, nil
	case "week":
		return text, w.Week, nil
	case "month":
		return text, w.Month, nil
	case "last_week":
		return text, w.LastWeek, nil
	case "last_month":
		return text, w.LastMonth, nil
	}
	if days, ok := strings.CutPrefix(text, "days:"); ok {
		if n, err := strconv.Atoi(days); err == nil && n >= 1 && n <= maxDays {
			return text, stats.LastDays(now, n), nil
		}
	}
	return "", r, &Error{http.StatusBadRequest, "invalid_request_error",
		fmt.Sprintf("window must be today, week, month, last_week, last_month or days:N with N from 1 to %d", maxDays)}
}

func (x *Web) healthz(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok"))
	return nil
}

func (x *Web) readyz(w http.ResponseWriter, _ *http.Request) error {
	v := x.pool.View()
	status := http.StatusOK
	if !v.Ready {
		status = http.StatusServiceUnavailable
	}
	writeJSON(w, status, struct {
		State    string     `json:"state"`
		NextFree *time.Time `json:"next_free"`
	}{poolState(v), moment(v.NextFree)})
	return nil
}
