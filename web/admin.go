package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
)

// Switchboard is what an administrator can change of the pool.
type Switchboard interface {
	Reset(name string) error // "" = everything
	ResetKey(id string) error
	Enable(key string, on bool) error
	Unbind(session string) bool
}

// Router says where a request would go (pool.Pool).
type Router interface {
	Route(*pool.Want) pool.Route
}

// Process is what an administrator can do to the program.
type Process interface {
	Reload() (Reloaded, error)
	Shutdown(grace time.Duration) // negative: as configured
	Config() []byte               // the file as JSON, secrets masked
	Resolve(model, caller string) (resolved string, who auth.Caller, err error)
}

// Reloaded is what came of a reload.
type Reloaded struct {
	Warnings     []string // of the configuration
	NeedsRestart []string // fields that changed and are applied by the next start alone
}

// Admin serves the admin calls. Who may make them is the server's to say.
type Admin struct {
	pool     Switchboard
	router   Router
	process  Process
	accounts Accounts
	dialects []string
}

// NewAdmin returns the admin calls. dialects are the names of those that clients may speak.
func NewAdmin(p Switchboard, r Router, process Process, accounts Accounts, dialects []string) *Admin {
	return &Admin{p, r, process, accounts, dialects}
}

// AdminRoute is one admin call. {id} in its pattern stands for one segment.
type AdminRoute struct {
	Method, Pattern string
	params          []string
	handle          func(*Admin, http.ResponseWriter, *http.Request, string) error
}

// AdminRoutes are the admin calls, and those of older systems.
func AdminRoutes() []AdminRoute {
	return []AdminRoute{
		{"POST", "/admin/shutdown", []string{"grace"}, (*Admin).shutdown},
		{"POST", "/admin/reload", nil, (*Admin).reload},
		{"POST", "/admin/reset", []string{"name"}, (*Admin).reset},
		{"POST", "/admin/keys/{id}/enable", nil, (*Admin).enable},
		{"POST", "/admin/keys/{id}/disable", nil, (*Admin).disable},
		{"POST", "/admin/keys/{id}/reset", nil, (*Admin).resetKey},
		{"POST", "/admin/sessions/{id}/unbind", nil, (*Admin).unbind},
		{"GET", "/admin/config", nil, (*Admin).config},
		{"GET", "/admin/route", []string{"model", "caller", "session", "dialect"}, (*Admin).route},
		{"POST", "/api/reset", nil, (*Admin).olderReset},
		{"POST", "/api/reauth/{id}", nil, (*Admin).olderReauth},
	}
}

// FindAdmin returns the admin call of a path and the id in it; allow lists the methods when the path has others.
func FindAdmin(routes []AdminRoute, method, path string) (route *AdminRoute, id, allow string) {
	if !strings.HasPrefix(path, "/admin/") && !strings.HasPrefix(path, "/api/") { // nearly all requests
		return nil, "", ""
	}
	for i := range routes {
		prefix, suffix, has := strings.Cut(routes[i].Pattern, "{id}")
		rest, ok := strings.CutPrefix(path, prefix)
		if ok && has {
			rest, ok = strings.CutSuffix(rest, suffix)
			ok = ok && rest != "" && !strings.Contains(rest, "/")
		} else {
			ok = ok && rest == ""
		}
		if !ok {
			continue
		}
		if routes[i].Method == method {
			return &routes[i], rest, ""
		}
		allow = routes[i].Method
	}
	return nil, "", allow
}

// Serve answers an admin call.
func (a *Admin) Serve(w http.ResponseWriter, r *http.Request, route *AdminRoute, id string) {
	w.Header().Set("Cache-Control", "no-store")
	err := checkQuery(r, route.params)
	if err == nil {
		err = route.handle(a, w, r, id)
	}
	if err != nil {
		WriteError(w, err)
	}
}

func say(w http.ResponseWriter, status int, format string, args ...any) error {
	writeJSON(w, status, struct {
		Message string `json:"message"`
	}{fmt.Sprintf(format, args...)})
	return nil
}

func (a *Admin) shutdown(w http.ResponseWriter, r *http.Request, _ string) error {
	grace := time.Duration(-1)
	if r.URL.Query().Has("grace") {
		text := r.URL.Query().Get("grace")
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0 && seconds <= 7*24*3600) {
			return &Error{http.StatusBadRequest, "invalid_request_error", "grace must be a number of seconds"}
		}
		grace = time.Duration(seconds * float64(time.Second))
	}
	a.process.Shutdown(grace)
	return say(w, http.StatusAccepted, "stopping")
}

func (a *Admin) reload(w http.ResponseWriter, _ *http.Request, _ string) error {
	done, err := a.process.Reload()
	if err != nil {
		return &Error{http.StatusBadRequest, "invalid_request_error", "the configuration is wrong, the old one goes on:\n" + err.Error()}
	}
	writeJSON(w, http.StatusOK, struct {
		Message      string   `json:"message"`
		Warnings     []string `json:"warnings"`
		NeedsRestart []string `json:"needs_restart"`
	}{"reloaded", notNil(done.Warnings), notNil(done.NeedsRestart)})
	return nil
}

func (a *Admin) reset(w http.ResponseWriter, r *http.Request, _ string) error {
	name := r.URL.Query().Get("name")
	if name == "" && r.URL.Query().Has("name") {
		return &Error{http.StatusBadRequest, "invalid_request_error", "name is empty; leave it out to reset everything"}
	}
	if err := a.pool.Reset(name); err != nil {
		return poolError(err)
	}
	if name == "" {
		return say(w, http.StatusOK, "cooldowns, breakers and quota guards are reset")
	}
	return say(w, http.StatusOK, "%s is reset", name)
}

func (a *Admin) resetKey(w http.ResponseWriter, _ *http.Request, id string) error {
	if err := a.pool.ResetKey(id); err != nil {
		return poolError(err)
	}
	return say(w, http.StatusOK, "%s is reset", id)
}

func (a *Admin) enable(w http.ResponseWriter, _ *http.Request, id string) error {
	if err := a.pool.Enable(id, true); err != nil {
		return poolError(err)
	}
	return say(w, http.StatusOK, "%s is enabled until the next reload", id)
}

func (a *Admin) disable(w http.ResponseWriter, _ *http.Request, id string) error {
	if err := a.pool.Enable(id, false); err != nil {
		return poolError(err)
	}
	return say(w, http.StatusOK, "%s is disabled until the next reload", id)
}

// poolError makes a name that nothing has a 404, and a refusal a 409.
func poolError(err error) error {
	var unknown *pool.NameError
	if errors.As(err, &unknown) {
		return &Error{http.StatusNotFound, "not_found_error", err.Error()}
	}
	return &Error{http.StatusConflict, "invalid_request_error", err.Error()}
}

func (a *Admin) unbind(w http.ResponseWriter, _ *http.Request, session string) error {
	if !a.pool.Unbind(session) {
		return &Error{http.StatusNotFound, "not_found_error", "no session with this hash is bound"}
	}
	return say(w, http.StatusOK, "the session is free: its next request binds it anew")
}

func (a *Admin) config(w http.ResponseWriter, _ *http.Request, _ string) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(a.process.Config()) // a client that is gone needs no error
	return nil
}

// olderReset is reference 1's: the order of tiers that its body may ask for is the configuration's here.
func (a *Admin) olderReset(w http.ResponseWriter, r *http.Request, _ string) error {
	var body struct {
		Vendors json.RawMessage `json:"vendors"`
	}
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		return &Error{http.StatusBadRequest, "invalid_request_error", "the body cannot be read"}
	}
	if json.Unmarshal(data, &body) == nil && body.Vendors != nil {
		return &Error{http.StatusBadRequest, "invalid_request_error", "vendors: the order of tiers is that of the configuration; nothing was reset"}
	}
	if err := a.pool.Reset(""); err != nil {
		return poolError(err)
	}
	writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ok"})
	return nil
}

// olderReauth begins a login; /api/reauth/status says where a person goes, and what came of it.
func (a *Admin) olderReauth(w http.ResponseWriter, _ *http.Request, name string) error {
	if err := a.accounts.SignIn(name); err != nil {
		return &Error{http.StatusNotFound, "not_found_error", "reauth not available: " + err.Error()}
	}
	writeJSON(w, http.StatusAccepted, struct {
		Status string `json:"status"`
	}{"reauth requested"})
	return nil
}
