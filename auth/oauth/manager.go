package oauth

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"coding-proxy/auth"
)

// keyPrefix begins the names, in the vault, of credentials that keys bring along. No entry of `oauth` has a colon.
const keyPrefix = "key:"

// keyID returns the key that a name in the vault belongs to.
func keyID(name string) (id string, ok bool) { return strings.CutPrefix(name, keyPrefix) }

// Manager knows the accounts that somebody has signed in to. One serves all keys and outlives configurations.
type Manager struct {
	vault            Vault
	now              func() time.Time
	defaultTransport func() http.RoundTripper

	mu       sync.Mutex
	clients  map[string]Client
	accounts map[string]*account // by their names in the vault
	round    int                 // counts configurations
	seen     map[string]login    // by Look
	closed   bool
	running  sync.WaitGroup // exchanges
}

// NewManager returns a manager of what the vault keeps. It asks providers through the transport where a key brings none.
func NewManager(vault Vault, now func() time.Time, transport func() http.RoundTripper) *Manager {
	return &Manager{vault: vault, now: now, defaultTransport: transport, accounts: map[string]*account{}, round: 1}
}

// Configure takes over the entries of the configuration's oauth section. Accounts whose client is as it was keep their
// tokens.
func (m *Manager) Configure(clients map[string]Client) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.round++
	m.clients = make(map[string]Client, len(clients))
	for name, c := range clients {
		c.Name = name
		m.clients[name] = c.WithDefaults()
	}
	for name, a := range m.accounts {
		if _, isKey := keyID(name); !isKey {
			w := a.current()
			w.client = m.clients[name]
			a.configure(w, m.round-1) // the transport stays until a key brings its own
		}
	}
}

// Client returns the entry of this name, with its defaults.
func (m *Manager) Client(name string) (Client, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c, ok := m.clients[name]
	return c, ok
}

// Source returns the tokens of an entry of `oauth`; it is the same one for all keys and after a reload. The provider is asked
// through the transport; nil: through the one of another key, or the manager's. There is always a Source: who is not signed in
// is told by its errors.
func (m *Manager) Source(name string, transport http.RoundTripper) *Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.account(name)
	a.configure(way{client: m.clients[name], transport: transport}, m.round)
	return a.source
}

// Account returns the tokens of a key that brings its own client and refresh token, the seed. Once the provider has rotated
// it, the kept one counts, until the configuration has another seed.
func (m *Manager) Account(key string, c Client, seed auth.Secret, transport http.RoundTripper) *Source {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.account(keyPrefix + strings.TrimPrefix(key, keyPrefix))
	if c.Kind == "" {
		c.Kind = KindGoogle
	}
	a.configure(way{client: c.WithDefaults(), seed: seed, transport: transport}, m.round)
	return a.source
}

// account returns the one of this name. Its caller has the lock.
func (m *Manager) account(name string) *account {
	if m.accounts[name] == nil {
		m.accounts[name] = newAccount(m, name)
	}
	return m.accounts[name]
}

// Keep stores what a login obtained. Requests use it from now on, in this process; others notice within seconds.
func (m *Manager) Keep(ctx context.Context, name string, c Credential) error {
	now := m.now()
	if c.Obtained.IsZero() {
		c.Obtained = now
	}
	if c.Refreshed.IsZero() {
		c.Refreshed = now
	}
	if client, ok := m.Client(name); ok {
		c.Kind, c.Client = cmp.Or(c.Kind, client.Kind), way{client: client}.clientDigest()
	}
	c.Parked = ""
	err := m.vault.Update(ctx, func(kept map[string]Credential) error {
		kept[name] = c
		return nil
	})
	if err == nil {
		m.reset(name)
	}
	return err
}

// Writable says why nothing could be kept; nil: it could. It writes nothing.
func (m *Manager) Writable(ctx context.Context) error {
	unchanged := errors.New("nothing to write")
	if err := m.vault.Update(ctx, func(map[string]Credential) error { return unchanged }); !errors.Is(err, unchanged) {
		return err
	}
	return nil
}

// Forget removes what a login obtained. Nothing to remove is an Error.
func (m *Manager) Forget(ctx context.Context, name string) error {
	err := m.vault.Update(ctx, func(kept map[string]Credential) error {
		if _, ok := kept[name]; !ok {
			return &Error{Reason: ReasonNotSignedIn, Final: true, Message: "nobody is signed in to " + printable(name)}
		}
		delete(kept, name)
		return nil
	})
	if err == nil {
		m.reset(name)
	}
	return err
}

// reset makes an account read its credential anew.
func (m *Manager) reset(name string) {
	m.mu.Lock()
	a := m.accounts[name]
	m.mu.Unlock()
	if a != nil {
		a.source.Reset()
	}
}

// Look returns the accounts, sorted, in which somebody has signed in or out since the last call, whichever process it was, and
// makes their sources know. The first call returns none. Keys that were put out of use for want of a login can be tried again.
func (m *Manager) Look() []string {
	kept, err := m.vault.Read()
	if err != nil {
		return nil
	}
	now := make(map[string]login, len(kept))
	for name, c := range kept {
		now[name] = loginOf(c, true)
	}
	m.mu.Lock()
	before := m.seen
	m.seen = now
	var changed []string
	var accounts []*account
	for name := range union(before, now) {
		if _, isKey := keyID(name); before == nil || !now[name].renews(before[name]) || isKey && !before[name].parked {
			continue // a key's entry comes with its first refresh
		}
		changed = append(changed, name)
		if a := m.accounts[name]; a != nil {
			accounts = append(accounts, a)
		}
	}
	m.mu.Unlock()
	for _, a := range accounts {
		if a.changed() {
			a.source.Reset()
		}
	}
	slices.Sort(changed)
	return changed
}

func union[V any](a, b map[string]V) map[string]bool {
	names := map[string]bool{}
	for name := range a {
		names[name] = true
	}
	for name := range b {
		names[name] = true
	}
	return names
}

// begin notes an exchange, unless the manager is closed.
func (m *Manager) begin() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.running.Add(1)
	}
	return !m.closed
}

// Close lets no further exchange begin and waits for those under way, at most until ctx ends: what a provider has just
// rotated is to be written.
func (m *Manager) Close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.running.Wait()
		m.mu.Lock()
		accounts := slices.Collect(maps.Values(m.accounts))
		m.mu.Unlock()
		for _, a := range accounts {
			_ = a.saveLate(ctx) // the last chance of what could not be written before
		}
	}()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// AccountState is what a person is told of an account. It holds no secret.
type AccountState struct {
	Name       string
	Kind       string
	Account    string    // who it is, where the provider said so
	Scope      string    // what was granted
	Configured bool      // `oauth` or a key of the configuration has it
	SignedIn   bool      // there is a credential that is of use
	Obtained   time.Time // when somebody signed in; zero: a key brought it along
	Expires    time.Time // of the access token that is kept; zero: there is none, or it does not end
	Renews     bool      // it is renewed before it ends
	Parked     string    // the reason why the credential is of no use
	Err        *Error    // the last failure in this process
}

// States returns all accounts, sorted by name: those that are configured, signed in or in use.
func (m *Manager) States() ([]AccountState, error) {
	kept, err := m.vault.Read()
	m.mu.Lock()
	clients, accounts := maps.Clone(m.clients), maps.Clone(m.accounts)
	m.mu.Unlock()
	names := union(kept, nil)
	for name := range clients {
		names[name] = true
	}
	for name := range accounts {
		names[name] = true
	}
	var list []AccountState
	for _, name := range slices.Sorted(maps.Keys(names)) {
		client, configured := clients[name]
		c, ok := kept[name]
		s := AccountState{Name: name, Kind: client.Kind, Configured: configured}
		if a := accounts[name]; a != nil {
			c, ok = a.find(kept)
			s.Err = a.source.State().Err
			_, isKey := keyID(name)
			s.Configured = configured || isKey
		}
		if ok {
			s.Kind, s.Account, s.Scope, s.Parked = c.Kind, c.Account, c.Scope, c.Parked
			s.SignedIn, s.Obtained, s.Expires, s.Renews = c.Parked == "", c.Obtained, c.Expires, c.Refresh != ""
		}
		list = append(list, s)
	}
	return list, err
}
