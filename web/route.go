package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"coding-proxy/auth"
	"coding-proxy/pool"
)

// routeKey is a key of a dry run. Probability is that of the request going to it.
type routeKey struct {
	ID            string     `json:"id"`
	UpstreamModel *string    `json:"upstream_model"`
	Gate          *string    `json:"gate"`
	Until         *time.Time `json:"until"`
	WouldBeUsed   bool       `json:"would_be_used"`
	Probability   float64    `json:"probability"`
}

type routeTier struct {
	Name  string     `json:"name"`
	Gate  *string    `json:"gate"`
	Until *time.Time `json:"until"`
	Keys  []routeKey `json:"keys"`
}

// routeAnswer is the likeliest key, or the error that the client would get.
type routeAnswer struct {
	Key           string `json:"key,omitempty"`
	Tier          string `json:"tier,omitempty"`
	UpstreamModel string `json:"upstream_model,omitempty"`
	Converted     *bool  `json:"converted,omitempty"`
	Error         string `json:"error,omitempty"`
	Status        int    `json:"status,omitempty"`
	RetryAfter    int    `json:"retry_after,omitempty"` // seconds
}

// anthropicDialect is the dialect of a dry run that names none.
const anthropicDialect = "anthropic"

// route is the dry run of design/routing.md, section 9.
func (a *Admin) route(w http.ResponseWriter, r *http.Request, _ string) error {
	q := r.URL.Query()
	model, dialect := q.Get("model"), q.Get("dialect")
	if model == "" {
		return &Error{http.StatusBadRequest, "invalid_request_error", "model: name the model that a client would ask for"}
	}
	if dialect == "" {
		dialect = anthropicDialect
	}
	if !slices.Contains(a.dialects, dialect) {
		return &Error{http.StatusBadRequest, "invalid_request_error", "dialect: must be one of " + strings.Join(a.dialects, ", ")}
	}
	resolved, caller, err := a.process.Resolve(model, q.Get("caller"))
	if errors.Is(err, auth.ErrNoKey) {
		return &Error{http.StatusNotFound, "not_found_error", "caller: no request key has this code"}
	}
	limit := new(auth.LimitError)
	over := errors.As(err, &limit)
	if over { // the way would be the same, later
		err = nil
	}
	out := struct {
		Requested string      `json:"requested_model"`
		Resolved  string      `json:"resolved_model"`
		Group     *string     `json:"group"`
		Tiers     []routeTier `json:"tiers"`
		Answer    routeAnswer `json:"answer"`
	}{Requested: model, Resolved: resolved, Group: optional(caller.Group), Tiers: []routeTier{}}
	want := &pool.Want{Scope: scopeOf(caller, resolved, err), Model: resolved, Session: pool.SessionHash(caller.Code, q.Get("session"))}
	plan := a.router.Route(want)
	for _, t := range plan.Tiers {
		out.Tiers = append(out.Tiers, tierOf(t, dialect, &out.Answer))
	}
	switch {
	case errors.Is(err, auth.ErrExpired):
		out.Answer = routeAnswer{Error: err.Error(), Status: http.StatusUnauthorized}
	case err != nil: // its group has no keys
		out.Answer = routeAnswer{Error: err.Error(), Status: http.StatusForbidden}
	case over:
		out.Answer = routeAnswer{Error: limit.Error(), Status: http.StatusTooManyRequests, RetryAfter: int((limit.RetryAfter + time.Second - 1) / time.Second)}
	case !caller.MayUse(resolved):
		out.Answer = routeAnswer{Error: "this request key may not use the model", Status: http.StatusForbidden}
	case plan.Err != nil:
		out.Answer = refused(plan.Err)
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// scopeOf is what the caller may use: nothing where there is any doubt.
func scopeOf(c auth.Caller, model string, err error) pool.Scope {
	switch {
	case err != nil, !c.MayUse(model):
		return pool.Only()
	case c.Limited:
		return pool.Only(c.Keys...)
	}
	return pool.Everything()
}

// tierOf renders a tier and puts its likeliest key into the answer.
func tierOf(t pool.RouteTier, dialect string, best *routeAnswer) routeTier {
	out := routeTier{Name: t.Name, Gate: gateOf(t.Gate), Until: moment(t.Until), Keys: []routeKey{}}
	likeliest := 0.0
	for _, k := range t.Keys {
		out.Keys = append(out.Keys, routeKey{k.ID, optional(k.UpstreamModel), gateOf(k.Gate), moment(k.Until), k.Chance > 0, k.Chance})
		if k.Chance > likeliest {
			likeliest = k.Chance
			converted := !slices.Contains(k.Protocols, dialect)
			*best = routeAnswer{Key: k.ID, Tier: t.Name, UpstreamModel: k.UpstreamModel, Converted: &converted}
		}
	}
	return out
}

func gateOf(g pool.Gate) *string {
	if g.Open() {
		return nil
	}
	word := g.String()
	return &word
}

func refused(err error) routeAnswer {
	out := routeAnswer{Error: err.Error(), Status: http.StatusNotFound}
	var exhausted *pool.ExhaustedError
	if errors.As(err, &exhausted) {
		out.Status, out.RetryAfter = http.StatusTooManyRequests, int(exhausted.RetryAfter()/time.Second)
	}
	return out
}
