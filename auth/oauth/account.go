package oauth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"coding-proxy/auth"
)

// savePatience bounds the writing of what a provider has answered, which no request's end interrupts.
const savePatience = 10 * time.Second

// errOvertaken says that somebody has signed in or out since the credential was read.
var errOvertaken = errors.New("somebody has signed in or out meanwhile")

// account is one that somebody has signed in to, or that a key brings along.
type account struct {
	m      *Manager
	name   string // in the vault
	source *Source

	mu      sync.Mutex
	way     way
	round   int   // of the manager's configurations, that way is of
	known   login // of the credential that was read last
	read    bool
	unsaved *exchanged // what could not be written yet
}

// login is what tells one from another.
type login struct {
	identity [sha256.Size]byte // zero: there is none
	parked   bool
}

func loginOf(c Credential, ok bool) (l login) {
	if ok {
		if !c.Obtained.IsZero() { // a refresh changes them, and is no login
			c.Refresh, c.Access = "", ""
		}
		l.identity, l.parked = c.identity(), c.Parked != ""
	}
	return l
}

// renews reports whether l comes after another login. That a credential is parked is no login, that it is no more is one.
func (l login) renews(before login) bool {
	return l.identity != before.identity || before.parked && !l.parked
}

// exchanged is a credential and the one that it came from.
type exchanged struct{ from, to Credential }

// Format keeps every verb of fmt from showing the tokens: it asks no unexported field.
func (x exchanged) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, x.to) }

func newAccount(m *Manager, name string) *account {
	a := &account{m: m, name: name}
	a.source = NewSource(a.fetch, m.now)
	a.source.changed = a.changed
	return a
}

// configure takes over how the account is reached. The first transport of a configuration replaces the one before, also by
// none; of keys that share the account any may bring one. Another client or seed makes it another account.
func (a *account) configure(w way, round int) {
	a.mu.Lock()
	if a.round == round && w.transport == nil {
		w.transport = a.way.transport
	}
	changed := a.round != 0 && w.digest() != a.way.digest()
	a.way, a.round = w, round
	a.mu.Unlock()
	if changed {
		a.source.Reset()
	}
}

func (a *account) current() way {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.way
}

// find returns the account's credential of what is kept. Of a key it is the kept one only while that came from the key's
// refresh token: that one is used up once it was rotated, and another one in the configuration begins anew.
func (a *account) find(kept map[string]Credential) (Credential, bool) {
	c, ok := kept[a.name]
	w := a.current()
	if w.seed.IsZero() {
		return c, ok && (c.Client == "" || c.Client == w.clientDigest()) && (c.Kind == "" || w.client.Kind == "" || c.Kind == w.client.Kind)
	}
	if !ok || c.Origin != w.origin() {
		c = Credential{Kind: w.client.Kind, Origin: w.origin()}
	}
	if c.Refresh == "" {
		c.Refresh = w.seed.Reveal()
	}
	return c, true
}

// note remembers the credential that was read, so that another one is noticed.
func (a *account) note(c Credential, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.read, a.known = true, loginOf(c, ok)
}

// changed reports whether there is another login than the one that was read last.
func (a *account) changed() bool {
	kept, err := a.m.vault.Read()
	if err != nil {
		return false
	}
	now := loginOf(a.find(kept))
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.read && now.renews(a.known)
}

// fetch obtains an access token: the kept one while it serves, else by an exchange, one at a time over all processes.
func (a *account) fetch(ctx context.Context) (Token, error) {
	if !a.m.begin() {
		return Token{}, temporary("the program is stopping")
	}
	defer a.m.running.Done()
	if t, done, err := a.kept(ctx); done {
		return t, err
	}
	var t Token
	err := a.m.vault.Hold(ctx, a.name, func() error {
		var err error
		t, err = a.exchange(ctx)
		return err
	})
	if e := new(Error); err != nil && !errors.As(err, &e) {
		return Token{}, temporary("%v", err)
	}
	return t, err
}

// kept returns what can be said without an exchange; done is false when one is due.
func (a *account) kept(ctx context.Context) (t Token, done bool, err error) {
	if err := a.saveLate(ctx); err != nil {
		return Token{}, true, err
	}
	c, ok, err := a.readVault()
	if err != nil {
		return Token{}, true, err
	}
	return a.ready(c, ok)
}

func (a *account) readVault() (Credential, bool, error) {
	kept, err := a.m.vault.Read()
	if err != nil {
		return Credential{}, false, temporary("%v", err)
	}
	c, ok := a.find(kept)
	a.note(c, ok)
	return c, ok, nil
}

// ready returns the token of a credential, or an error where only a person can help. done is false when neither is so: an
// exchange is due.
func (a *account) ready(c Credential, ok bool) (t Token, done bool, err error) {
	if !ok {
		return Token{}, true, a.notSignedIn()
	}
	if c.Parked != "" {
		return Token{}, true, a.parked(c.Parked)
	}
	refused := c.Access != "" && a.source.refuses(c.Access)
	if t, good := c.token(a.m.now()); good && !refused {
		return t, true, nil
	}
	switch {
	case c.Refresh != "" && a.current().client.TokenURL == "":
		return Token{}, true, a.notSignedIn()
	case c.Refresh != "":
		return Token{}, false, nil
	case refused:
		return Token{}, true, a.final(ReasonCredentials, "the provider refuses this sign-in")
	}
	return Token{}, true, a.final(ReasonGrant, "this sign-in has ended and cannot be renewed")
}

// exchange asks the provider for an access token. Nobody else does for this account meanwhile; what others did before counts.
// A rotated refresh token is on disk before the access token is given to anyone: the old one is used up.
func (a *account) exchange(ctx context.Context) (Token, error) {
	from, ok, err := a.readVault()
	if err != nil {
		return Token{}, err
	}
	if t, done, err := a.ready(from, ok); done {
		return t, err
	}
	w := a.current()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), exchangePatience) // however long the lock was waited for
	defer cancel()
	r, e := refresh(asking, w, a.m.defaultTransport, from.Refresh, a.m.now())
	if e == nil {
		e = r.refusal()
	}
	if e != nil {
		return Token{}, a.refused(ctx, from, e)
	}
	to := from
	to.Access, to.Refreshed = r.Access, a.m.now()
	to.Expires = to.Refreshed.Add(r.life())
	if r.Refresh != "" {
		to.Refresh = r.Refresh
	}
	if r.Scope != "" {
		to.Scope = r.Scope
	}
	t := Token{Access: auth.NewSecret(to.Access), Expires: to.Expires}
	switch err := a.save(ctx, from, to); {
	case errors.Is(err, errOvertaken):
		return a.overtaken()
	case err != nil && to.Refresh != from.Refresh:
		a.mu.Lock()
		a.unsaved = &exchanged{from, to}
		a.mu.Unlock()
		return Token{}, temporary("the provider's new refresh token cannot be written, so the access token is held back: %v", err)
	}
	return t, nil // where the refresh token stayed, the next process can ask again
}

// overtaken returns the token of the login that came during an exchange.
func (a *account) overtaken() (Token, error) {
	c, ok, err := a.readVault()
	if err != nil {
		return Token{}, err
	}
	t, done, err := a.ready(c, ok)
	if !done {
		err = temporary("%v", errOvertaken)
	}
	return t, err
}

// save replaces the credential, unless there is another login by now.
func (a *account) save(ctx context.Context, from, to Credential) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), savePatience)
	defer cancel()
	err := a.m.vault.Update(ctx, func(kept map[string]Credential) error {
		if c, ok := a.find(kept); !ok || c.identity() != from.identity() {
			return errOvertaken
		}
		entry := to
		if entry.Refresh == a.current().seed.Reveal() {
			entry.Refresh = "" // it is in the configuration and stays there
		}
		kept[a.name] = entry
		return nil
	})
	if err == nil {
		a.note(to, true)
	}
	return err
}

// saveLate writes what could not be written before.
func (a *account) saveLate(ctx context.Context) error {
	a.mu.Lock()
	late := a.unsaved
	a.mu.Unlock()
	if late == nil {
		return nil
	}
	if err := a.save(ctx, late.from, late.to); err != nil && !errors.Is(err, errOvertaken) {
		return temporary("the provider's new refresh token cannot be written, so the access token is held back: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unsaved == late {
		a.unsaved = nil
	}
	return nil
}

// refused makes a failed exchange a person's words, and parks a credential that is of no use any more.
func (a *account) refused(ctx context.Context, c Credential, e *Error) error {
	if !e.Final {
		return e
	}
	if e.Reason == ReasonGrant || e.Reason == ReasonScope {
		parked := c
		parked.Parked, parked.Access, parked.Expires = e.Reason, "", time.Time{}
		if err := a.save(ctx, c, parked); errors.Is(err, errOvertaken) {
			return temporary("%v", errOvertaken)
		} // else it is known in this process at least
	}
	if e.Reason == ReasonCredentials {
		return &Error{Reason: e.Reason, Final: true, Message: e.Message + ": check client_id and client_secret of " + a.called()}
	}
	return a.final(e.Reason, e.Message)
}

// refresh exchanges a refresh token.
func refresh(ctx context.Context, w way, transport func() http.RoundTripper, token string, now time.Time) (*reply, *Error) {
	form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}, "client_id": {w.client.ClientID}}
	if !w.client.ClientSecret.IsZero() {
		form.Set("client_secret", w.client.ClientSecret.Reveal())
	}
	if w.transport == nil {
		w.transport = transport()
	}
	return ask(ctx, w.transport, w.client.TokenURL, form, now)
}

// called is the account as the configuration names it.
func (a *account) called() string {
	if id, ok := keyID(a.name); ok {
		return "the key " + id
	}
	return fmt.Sprintf("%q in `oauth`", a.name)
}

// remedy is what a person can do.
func (a *account) remedy() string {
	if id, ok := keyID(a.name); ok {
		return fmt.Sprintf("put a new refresh_token into the configuration of the key %s, or run `coding-proxy logout %s` to try the same one again", id, a.name)
	}
	return fmt.Sprintf("run `coding-proxy login %s`", a.name)
}

func (a *account) final(reason, message string) *Error {
	return &Error{Reason: reason, Final: true, Message: message + ": " + a.remedy()}
}

func (a *account) notSignedIn() *Error {
	if a.current().client.ClientID == "" {
		return a.final(ReasonNotSignedIn, fmt.Sprintf("the configuration has no client %q in `oauth`; once it has", a.name))
	}
	return a.final(ReasonNotSignedIn, fmt.Sprintf("nobody is signed in to %q", a.name))
}

func (a *account) parked(reason string) *Error {
	switch reason {
	case ReasonGrant:
		return a.final(reason, "the provider no longer accepts this sign-in")
	case ReasonScope:
		return a.final(reason, "too little was granted when somebody signed in")
	}
	return a.final(reason, "this sign-in is of no use any more")
}
