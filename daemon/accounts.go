package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon/config"
	"coding-proxy/proxy"
	"coding-proxy/proxy/upstream"
)

// Prompt is what a person who signs in has to know.
type Prompt struct {
	Page     string    // at the provider
	UserCode string    // to be typed in there; "" = the page sends the browser back to this machine
	Expires  time.Time // of the code
}

// Accounts are the sign-ins of a configuration.
type Accounts struct {
	*oauth.Manager
	via func(outbound string) http.RoundTripper
	now func() time.Time
	cfg *config.Config
}

// OpenAccounts returns those that a data directory keeps, for a command beside the instance that runs there. warn is told
// what a person should know. done closes what was opened.
func OpenAccounts(cfg *config.Config, warn func(string)) (a *Accounts, done func()) {
	ways := proxy.NewWays(cfg.Proxy.Timeouts)
	vault := OpenVault(cfg.Server.DataDir, time.Now)
	vault.Warn = warn
	a = &Accounts{oauth.NewManager(vault, time.Now, func() http.RoundTripper { return ways.Via("") }), ways.Via, time.Now, cfg}
	a.Configure(cfg.Logins)
	return a, ways.CloseIdle
}

// SignIn has a person sign in by an entry of `oauth`, and keeps what came of it. The device flow is taken where the entry
// has an address for it: it needs no browser on this machine. The other one listens on the port; 0 = any. Errors: *oauth.Error,
// those of the vault, and ctx's own.
func (a *Accounts) SignIn(ctx context.Context, name string, port int, tell func(Prompt)) (oauth.Credential, error) {
	client, ok := a.Client(name)
	if !ok {
		return oauth.Credential{}, &oauth.Error{Reason: oauth.ReasonTemporary, Final: true, Message: "the configuration has no login of this name any more"}
	}
	if err := a.Writable(ctx); err != nil { // before a person is sent to the provider for nothing
		return oauth.Credential{}, err
	}
	l := oauth.Login{Client: client, Transport: a.via(a.outbound(name)), Now: a.now, Port: port}
	var c oauth.Credential
	var err error
	if client.DeviceCodeURL != "" {
		c, err = l.Device(ctx, func(code, page string, expires time.Time) { tell(Prompt{page, code, expires}) })
	} else {
		c, err = l.Loopback(ctx, func(page string) { tell(Prompt{Page: page}) })
	}
	if err != nil {
		return oauth.Credential{}, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lockPatience) // what was granted is not thrown away
	defer cancel()
	return c, a.Keep(ctx, name, c)
}

// outbound is the proxy of the keys that use a login, of the first one that has one: where they need it, so does the login.
func (a *Accounts) outbound(name string) string {
	for _, id := range slices.Sorted(maps.Keys(a.cfg.Upstreams)) {
		if o := a.cfg.Upstreams[id]; o.Account == name && !o.Proxy.IsZero() {
			return o.Proxy.Reveal()
		}
	}
	return ""
}

// FindLogin returns the entry of `oauth` that a person means: by its name, or by its kind where one alone is of it. Older
// systems and providers have words of their own for the kinds.
func FindLogin(logins map[string]oauth.Client, word string) (name string, err error) {
	if _, ok := logins[word]; ok {
		return word, nil
	}
	if len(logins) == 0 {
		return "", errors.New("the configuration has no `oauth` section")
	}
	kind := cmp.Or(map[string]string{"github": oauth.KindCopilot, upstream.Antigravity: oauth.KindGoogle}[word], word)
	names := slices.Sorted(maps.Keys(logins))
	var are []string
	for _, n := range names {
		if logins[n].Kind == kind {
			are = append(are, n)
		}
	}
	known := slices.Clone(names)
	for _, n := range names {
		known = append(known, logins[n].Kind)
	}
	switch near := config.Nearest(word, known); {
	case len(are) == 1:
		return are[0], nil
	case len(are) > 1:
		return "", fmt.Errorf("`oauth` has several logins of kind %s, name one of %s", kind, quoted(are))
	case near != "":
		return "", fmt.Errorf("`oauth` has no login %q; did you mean %q?", word, near)
	}
	return "", fmt.Errorf("`oauth` has no login %q; it has %s", word, quoted(names))
}

func quoted(names []string) string { return `"` + strings.Join(names, `", "`) + `"` }

// keyAccount begins the names of credentials that keys bring along, as auth/oauth has them.
const keyAccount = "key:"

// lookAtAccounts notices who has signed in or out in another process.
func (d *Daemon) lookAtAccounts() {
	for _, account := range d.accounts.Look() {
		d.signedIn(account)
		d.log.Info("somebody has signed in or out; the keys of the account are tried again", "account", account)
	}
}

// signedIn lets the keys of an account be tried again: what they have earned was the former login's.
func (d *Daemon) signedIn(account string) {
	cfg := d.config()
	uses := func(id string) bool { return cfg.Upstreams[id].Account == account || keyAccount+id == account }
	for id, u := range d.reauth.ups() {
		if uses(id) {
			u.Reset()
		}
	}
	d.forgive(cfg, uses)
}

// signedInMeanwhile does so for logins since the state was written: nobody was there to notice.
func (d *Daemon) signedInMeanwhile() {
	d.lookAtAccounts() // the first time, it tells of nobody
	state, err := os.Stat(filepath.Join(d.config().Server.DataDir, "state.json"))
	accounts, err2 := d.accounts.States()
	if err != nil || err2 != nil {
		return
	}
	for _, a := range accounts {
		if a.SignedIn && a.Obtained.After(state.ModTime()) {
			d.signedIn(a.Name)
		}
	}
}
