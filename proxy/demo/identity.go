package demo

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	identityLife    = time.Hour        // of an access token
	grantLife       = 10 * time.Minute // of a code that waits for its exchange
	deviceLife      = 15 * time.Minute
	pollSeconds     = 5 // between two polls of a device, and what slow_down adds
	maxIdentityForm = 64 << 10
	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
)

// The errors of RFC 6749 and RFC 8628 that an identity provider answers.
const (
	InvalidGrant  = "invalid_grant"
	InvalidClient = "invalid_client"
	Pending       = "authorization_pending"
	SlowDown      = "slow_down"
	Denied        = "access_denied"
	Expired       = "expired_token"
)

// IdentityOptions describe an identity provider. The zero value knows any client.
type IdentityOptions struct {
	ClientID      string           // empty = any, but one must be sent
	ClientSecret  string           // empty = none is asked for
	RefreshTokens []string         // that are good from the start
	Rotate        bool             // each refresh gives a new refresh token and revokes the one that was shown
	Offline       bool             // a code gives a refresh token only after access_type=offline, as Google's does
	Life          time.Duration    // of access tokens; 0 = 1 h
	Interval      int              // seconds between two polls of a device, told and enforced; 0 = 5
	Account       string           // who signs in; empty = "demo@example.com"
	Now           func() time.Time // nil = time.Now
}

// Identity is a simulated identity provider: an http.Handler below any path prefix.
//
//	POST …/token                      refresh tokens, codes with PKCE, devices; errors are 400s
//	POST …/login/oauth/access_token   the same in GitHub's way: errors in 200 bodies, tokens that do not end
//	POST …/device/code                begins a device grant
//	GET  …/device                     the page on which a person types the device's code
//	GET  …/auth, …/authorize          the page on which a person agrees, and is sent back with a code
//	GET  …/userinfo, …/user           who a token belongs to
type Identity struct {
	options IdentityOptions
	log     recorder

	mu      sync.Mutex
	steps   []IdentityStep
	consent Consent
	script  []string
	serial  int
	access  map[string]time.Time // when each token ends; zero: never
	refresh map[string]bool      // false: revoked
	codes   map[string]*codeGrant
	devices map[string]*deviceFlow
	counts  IdentityCounts
}

// IdentityStep says how one request at a token endpoint is answered. The zero value answers as the request deserves.
type IdentityStep struct {
	Status      int    // with Error; 0 = 400, in GitHub's way 200
	Error       string // one of OAuth's words
	Description string
	Raw         string // the whole body instead, as it is, with Status
	Header      http.Header
	Hold        *Hold // HoldAt(0): waits before anything is looked at
	Lost        bool  // all is done, and the connection is closed instead of the answer
}

// IdentityCounts are requests at the token endpoints.
type IdentityCounts struct {
	Asked    int // all of them
	Refresh  int // refresh tokens that were exchanged
	Code     int // codes that were
	Device   int // devices that got their token
	Pending  int // polls of a device that were told to go on
	Refused  int // all others
	Requests int // of device codes
}

// NewIdentity returns an identity provider.
func NewIdentity(options IdentityOptions) *Identity {
	if options.Life == 0 {
		options.Life = identityLife
	}
	if options.Interval == 0 {
		options.Interval = pollSeconds
	}
	if options.Account == "" {
		options.Account = "demo@example.com"
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	i := &Identity{options: options, log: newRecorder(), access: map[string]time.Time{}, refresh: map[string]bool{},
		codes: map[string]*codeGrant{}, devices: map[string]*deviceFlow{}}
	for _, token := range options.RefreshTokens {
		i.refresh[token] = true
	}
	return i
}

// Push queues answers: each request at a token endpoint takes the next one.
func (i *Identity) Push(steps ...IdentityStep) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.steps = append(i.steps, steps...)
}

// Valid reports whether an access token is good now: what a simulated API asks of a request.
func (i *Identity) Valid(token string) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.valid(token)
}

func (i *Identity) valid(token string) bool {
	end, known := i.access[token]
	return known && (end.IsZero() || i.options.Now().Before(end))
}

// Expire ends all access tokens, though nobody was told.
func (i *Identity) Expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
}

// Revoke ends all refresh tokens: the next exchange is an invalid_grant.
func (i *Identity) Revoke() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for token := range i.refresh {
		i.refresh[token] = false
	}
}

// Refreshable are the refresh tokens that are good now, in no order.
func (i *Identity) Refreshable() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	var good []string
	for token, is := range i.refresh {
		if is {
			good = append(good, token)
		}
	}
	return good
}

// Counts returns what has been asked so far.
func (i *Identity) Counts() IdentityCounts {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts
}

// Requests returns what arrived, the oldest first. Bodies hold credentials: they are for comparing, not for printing.
func (i *Identity) Requests() []Request { return i.log.list() }

// ServeHTTP answers one request and remembers it.
func (i *Identity) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	entry := i.log.begin(r, i.options.Now())
	end := CutByClient
	defer func() { i.log.finish(entry, end) }()
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxIdentityForm))
	i.log.setBody(entry, body)
	if tooLarge := new(http.MaxBytesError); err != nil && !errors.As(err, &tooLarge) {
		return // the client went away
	}
	c := &identityCall{w: w, r: r, end: &end, form: url.Values{}, github: strings.HasSuffix(r.URL.Path, "/access_token") || strings.HasSuffix(r.URL.Path, "/login/device/code")}
	c.read(body)
	path, post := r.URL.Path, r.Method == http.MethodPost
	switch {
	case post && (strings.HasSuffix(path, "/token") || strings.HasSuffix(path, "/access_token")):
		i.token(c)
	case post && strings.HasSuffix(path, "/device/code"):
		i.deviceCode(c)
	case strings.HasSuffix(path, "/device"):
		i.devicePage(c)
	case strings.HasSuffix(path, "/auth"), strings.HasSuffix(path, "/authorize"):
		i.authorize(c)
	case !post && (strings.HasSuffix(path, "/userinfo") || strings.HasSuffix(path, "/user")):
		i.userInfo(c)
	default:
		c.fail(http.StatusNotFound, "not_found", "there is nothing here")
	}
}

// token answers a request at a token endpoint.
func (i *Identity) token(c *identityCall) {
	i.mu.Lock()
	i.counts.Asked++
	var step IdentityStep
	if len(i.steps) > 0 {
		step, i.steps = i.steps[0], i.steps[1:]
	}
	i.mu.Unlock()
	if step.Hold != nil && !step.Hold.wait(c.r.Context().Done()) {
		return
	}
	for name, values := range step.Header {
		c.w.Header()[http.CanonicalHeaderKey(name)] = values
	}
	if step.Raw != "" || step.Error != "" || step.Status >= http.StatusBadRequest {
		i.count(func(n *IdentityCounts) { n.Refused++ })
		if step.Error == "" {
			c.page(max(step.Status, http.StatusOK), step.Raw)
			return
		}
		c.oauth(step.Status, step.Error, step.Description)
		return
	}
	granted, refusal := i.exchange(c)
	switch {
	case step.Lost:
		*c.end = CutByStep
		panic(http.ErrAbortHandler)
	case refusal != nil:
		c.oauth(refusal.status, refusal.kind, refusal.message)
	default:
		c.give(granted)
	}
}

// exchange does what a request at a token endpoint asks for.
func (i *Identity) exchange(c *identityCall) (granted url.Values, refusal *refusal) {
	i.mu.Lock()
	defer i.mu.Unlock()
	refusal = i.checkClient(c)
	count := &i.counts.Refused
	if refusal == nil {
		switch grant := c.form.Get("grant_type"); {
		case grant == "refresh_token":
			if granted, refusal = i.refreshed(c); refusal == nil {
				count = &i.counts.Refresh
			}
		case grant == "authorization_code", grant == "" && c.github:
			if granted, refusal = i.redeem(c); refusal == nil {
				count = &i.counts.Code
			}
		case grant == deviceGrant:
			if granted, refusal = i.poll(c); refusal == nil {
				count = &i.counts.Device
			} else if refusal.kind == Pending || refusal.kind == SlowDown {
				count = &i.counts.Pending
			}
		default:
			refusal = oauthRefusal("unsupported_grant_type", "grant_type is not one that is known")
		}
	}
	*count++
	return granted, refusal
}

func (i *Identity) checkClient(c *identityCall) *refusal {
	id, secret := c.form.Get("client_id"), c.form.Get("client_secret")
	shows := c.form.Has("code") || c.form.Has("refresh_token") // devices keep no secret
	switch {
	case c.malformed != "":
		return oauthRefusal("invalid_request", c.malformed)
	case id == "":
		return oauthRefusal("invalid_request", "client_id is missing")
	case i.options.ClientID != "" && id != i.options.ClientID:
		return &refusal{status: http.StatusUnauthorized, kind: InvalidClient, message: "The OAuth client was not found."}
	case i.options.ClientSecret != "" && shows && !same(secret, i.options.ClientSecret):
		return &refusal{status: http.StatusUnauthorized, kind: InvalidClient, message: "Unauthorized"}
	}
	return nil
}

// refreshed exchanges a refresh token.
func (i *Identity) refreshed(c *identityCall) (url.Values, *refusal) {
	token := c.form.Get("refresh_token")
	if token == "" {
		return nil, oauthRefusal("invalid_request", "refresh_token is missing")
	}
	if !i.refresh[token] {
		return nil, oauthRefusal(InvalidGrant, "Token has been expired or revoked.")
	}
	granted := i.mint(c, "")
	if i.options.Rotate {
		i.refresh[token] = false
		granted.Set("refresh_token", i.newRefresh())
	}
	return granted, nil
}

// mint makes an access token.
func (i *Identity) mint(c *identityCall, scope string) url.Values {
	i.serial++
	token := fmt.Sprintf("demo-access-%08d", i.serial)
	end := i.options.Now().Add(i.options.Life)
	granted := url.Values{"token_type": {"Bearer"}}
	if c.github {
		token, end = fmt.Sprintf("ghu_demo%08d", i.serial), time.Time{}
		granted.Set("token_type", "bearer")
	} else {
		granted.Set("expires_in", strconv.Itoa(int(i.options.Life.Seconds())))
	}
	i.access[token] = end
	granted.Set("access_token", token)
	granted.Set("scope", scope)
	return granted
}

func (i *Identity) newRefresh() string {
	i.serial++
	token := fmt.Sprintf("demo-refresh-%08d", i.serial)
	i.refresh[token] = true
	return token
}

func (i *Identity) count(change func(*IdentityCounts)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.counts)
}

// userInfo tells who a token belongs to, in Google's and in GitHub's members.
func (i *Identity) userInfo(c *identityCall) {
	_, token, _ := strings.Cut(c.r.Header.Get("authorization"), " ")
	if !i.Valid(token) {
		c.fail(http.StatusUnauthorized, "invalid_token", "the token is not good")
		return
	}
	name, _, _ := strings.Cut(i.options.Account, "@")
	c.json(http.StatusOK, struct {
		Email string `json:"email"`
		Login string `json:"login"`
		Name  string `json:"name"`
	}{i.options.Account, name, name})
}

func oauthRefusal(word, message string) *refusal { return &refusal{kind: word, message: message} }

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
