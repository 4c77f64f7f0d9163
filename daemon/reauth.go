package daemon

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/upstream"
	"coding-proxy/web"
)

// The states of a login that was asked for.
const (
	loginIdle      = "idle" // nobody has asked
	loginPending   = "pending"
	loginCompleted = "completed"
	loginFailed    = "failed"
)

// attempt is the last login of a name.
type attempt struct {
	state  string
	prompt Prompt
	failed string
	ended  time.Time
}

// reauth is what the pages and the admin calls know of accounts: it signs in while the instance runs. Its zero value is not
// ready.
type reauth struct {
	d       *Daemon
	ctx     context.Context // of the logins
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	attempts map[string]*attempt
}

var _ web.Accounts = (*reauth)(nil)

func newReauth(d *Daemon) *reauth {
	ctx, cancel := context.WithCancel(context.Background())
	return &reauth{d: d, ctx: ctx, cancel: cancel, attempts: map[string]*attempt{}}
}

// exchangeWait is how long the end waits for an exchange under way: longer than one may take, since a refresh token that was
// rotated and not written is lost.
const exchangeWait = 15 * time.Second

// close ends the logins that wait for a person, and waits until what providers have granted is written.
func (x *reauth) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cancel()
	x.running.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), exchangeWait)
	defer cancel()
	x.d.accounts.Close(ctx)
}

// SignIn begins a login, unless one is under way.
func (x *reauth) SignIn(word string) error {
	name, err := FindLogin(x.d.config().Logins, word)
	if err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if old := x.attempts[name]; x.closed || old != nil && old.state == loginPending {
		return nil
	}
	t := &attempt{state: loginPending}
	x.attempts[name] = t
	x.running.Go(func() { x.run(name, t) })
	return nil
}

func (x *reauth) run(name string, t *attempt) {
	d := x.d
	accounts := &Accounts{d.accounts, d.server.proxy.Transport, d.now, d.config()}
	_, err := accounts.SignIn(x.ctx, name, 0, func(p Prompt) {
		x.mu.Lock()
		defer x.mu.Unlock()
		t.prompt = p
	})
	if err == nil {
		d.signedIn(name)
	} else {
		d.log.Warn("a login came to nothing", "account", name, "reason", reasonOf(err))
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	t.state, t.prompt, t.ended = loginCompleted, Prompt{}, d.now()
	if err != nil {
		t.state, t.failed = loginFailed, err.Error()
	}
}

// reasonOf is an error in a closed word.
func reasonOf(err error) string {
	if e := new(oauth.Error); errors.As(err, &e) {
		return e.Reason
	}
	return "interrupted"
}

// SignIns are all logins of the configuration: what came of the last one that was asked for, or why a person should ask for
// one.
func (x *reauth) SignIns() map[string]web.SignIn {
	list := map[string]web.SignIn{}
	for name, reason := range x.lacking() {
		list[name] = web.SignIn{State: loginIdle, Error: reason}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for name, t := range x.attempts {
		if s, ok := list[name]; ok && (t.state != loginCompleted || s.Error == "") { // what was completed may be over
			list[name] = t.shown(x.d.now())
		}
	}
	return list
}

// lacking says of each login why it is of no use, in a closed word; "" = it is.
func (x *reauth) lacking() map[string]string {
	list := map[string]string{}
	cfg := x.d.config()
	for name := range cfg.Logins {
		list[name] = ""
	}
	accounts, _ := x.d.accounts.States() // a file that cannot be read is told where it is used
	for _, a := range accounts {
		if _, ok := list[a.Name]; ok && !a.SignedIn {
			list[a.Name] = cmp.Or(a.Parked, oauth.ReasonNotSignedIn)
		}
	}
	for id, u := range x.ups() { // GitHub's tokens do not end: only Copilot tells that one is of no use
		account := cfg.Upstreams[id].Account
		if reason, ok := list[account]; ok && reason == "" && u.Copilot() != nil {
			if t := u.Copilot().Diagnose().Token; t.NeedsReauth {
				list[account] = t.ErrorKind
			}
		}
	}
	return list
}

func (t *attempt) shown(now time.Time) web.SignIn {
	s := web.SignIn{State: t.state, Error: t.failed}
	if s.UserCode = t.prompt.UserCode; s.UserCode == "" {
		s.AuthorizeURL = t.prompt.Page
	} else {
		s.VerificationURI = t.prompt.Page
	}
	if t.state == loginCompleted {
		ago := now.Sub(t.ended).Seconds()
		s.CompletedAgo = &ago
	}
	return s
}

// ups are the ways of the keys, as configured last.
func (x *reauth) ups() map[string]*upstream.Upstream {
	x.d.reloading.Lock()
	defer x.d.reloading.Unlock()
	return x.d.upstreams // replaced by a reload, never changed
}

// Diagnoses say how the accounts of keys stand; provider "" = of all.
func (x *reauth) Diagnoses(provider string) map[string]json.RawMessage {
	list := map[string]json.RawMessage{}
	add := func(id, of string, diagnosis any) {
		if data, err := json.Marshal(diagnosis); err == nil && (provider == "" || provider == of) {
			list[id] = data
		}
	}
	for id, u := range x.ups() {
		if p := u.Copilot(); p != nil {
			add(id, upstream.Copilot, p.Diagnose())
		}
		if p := u.Antigravity(); p != nil {
			add(id, upstream.Antigravity, p.Diagnose())
		}
	}
	return list
}

// Models asks for the models of each Copilot account.
func (x *reauth) Models(ctx context.Context) map[string]web.AccountModels {
	list := map[string]web.AccountModels{}
	for id, u := range x.ups() {
		p := u.Copilot()
		if p == nil {
			continue
		}
		models, f := p.Models(ctx)
		m := web.AccountModels{Status: http.StatusOK}
		switch {
		case f == nil:
			m.Models, _ = json.Marshal(models) // strings and figures
		case f.Type == "models_unavailable", f.Type == "timeout":
			m.Status, m.Error = http.StatusBadGateway, f.Message
		default: // there is no token
			m.Status, m.Error = http.StatusServiceUnavailable, f.Message
		}
		list[id] = m
	}
	return list
}
