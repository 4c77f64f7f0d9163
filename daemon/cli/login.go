package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

// riskText is what who signs in has to know first.
func riskText(kind string) string {
	known := `Copilot wants an integration id that it knows ("vscode-chat")`
	if kind == oauth.KindGoogle {
		known = `Code Assist wants an IDE type that it knows ("ANTIGRAVITY")`
	}
	return `Sign in with your own account, for your own use. This program names itself as coding-proxy, but that
` + known + `. Some providers do not want their
subscriptions used by other programs, and have limited or closed accounts for it: read their terms.
API keys bear no such risk.
`
}

// noLoginsText says what to configure before anybody can sign in.
const noLoginsText = "the configuration has no `oauth` section. It says as what to sign in, for example:\n" + `
  "oauth": {
    "hub":  {"kind": "copilot", "client_id": "…"},
    "work": {"kind": "google", "client_id": "…", "client_secret": "${GOOGLE_CLIENT_SECRET}"}
  }

and a key of the pool then shows what the login obtained, for example:

  "pool": {"strategy": "fill-first", "keys": [{"id": "copilot-1", "provider": "copilot", "credential": "oauth:hub"}]}

Client ids are those of an app that you have registered with the provider: none is built in.
`

// login has a person sign in to a provider.
func login(args []string, env Environment) int {
	fs := newFlags("login", " [NAME]", `Signs in to a provider as an entry of the configuration's oauth section: NAME is the entry's name, or its
kind (copilot, google) where one entry alone is of it. It prints an address to open in a browser, and keeps
what the provider grants in credentials.json of the data folder. A running instance notices by itself.

Without a browser on this machine, where the address has to come back to it: --callback-port 8085 here, and
on the machine with the browser ssh -L 8085:127.0.0.1:8085 to here.`, env)
	src := sourceFlags(fs, env)
	open := fs.Bool("open", false, "open the address in the browser, too")
	port := 0
	fs.Func("callback-port", "wait for the browser on this `port` (default any), where the provider or a tunnel wants a fixed one", func(s string) (err error) {
		if port, err = strconv.Atoi(s); err != nil || port < 1 || port > 65535 {
			return errors.New("a port is a number from 1 to 65535")
		}
		return nil
	})
	words, code, done := parseWords(fs, args, env, 0, 1)
	if done {
		return code
	}
	ctx, _, stop := signals()
	defer stop()
	cfg, err := config.Load(*src)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy login: %s\n", explain(err))
		return exitFailed
	}
	name, err := loginName(cfg, words)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy login: %v\n", err)
		return exitUsage
	}
	fmt.Fprintln(env.Stdout, riskText(cfg.Logins[name].Kind))
	accounts, closeAccounts := daemon.OpenAccounts(cfg, warnTo(env))
	defer closeAccounts()
	c, err := accounts.SignIn(ctx, name, port, func(p daemon.Prompt) {
		showPrompt(env.Stdout, p)
		if *open {
			if err := openBrowser(p.Page); err != nil {
				fmt.Fprintf(env.Stderr, "warning: the browser cannot be opened: %v\n", err)
			}
		}
	})
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy login: %s\n", loginProblem(ctx, err))
		return exitFailed
	}
	fmt.Fprintf(env.Stdout, "Signed in to %q%s; kept in %s.\n", name, as(c.Account), filepath.Join(absolute(cfg.Server.DataDir), "credentials.json"))
	if len(keysOf(cfg, name)) == 0 {
		fmt.Fprintf(env.Stdout, "No key uses it yet: give one \"credential\": \"oauth:%s\".\n", name)
	}
	return exitDone
}

// loginName is the entry of `oauth` that the words mean; the only one where there are none.
func loginName(cfg *config.Config, words []string) (string, error) {
	switch {
	case len(cfg.Logins) == 0 && cfg.Path == "":
		return "", errors.New("there is no configuration file yet. A section `oauth` is needed. " + strings.TrimSpace(strings.TrimPrefix(noLoginsText, "the configuration has no `oauth` section. ")))
	case len(cfg.Logins) == 0:
		return "", errors.New(strings.TrimSpace(noLoginsText))
	case len(words) == 1:
		return daemon.FindLogin(cfg.Logins, words[0])
	case len(cfg.Logins) == 1:
		return slices.Collect(maps.Keys(cfg.Logins))[0], nil
	}
	return "", fmt.Errorf("name one of %s", strings.Join(slices.Sorted(maps.Keys(cfg.Logins)), ", "))
}

func as(account string) string {
	if account == "" {
		return ""
	}
	return " as " + account
}

// showPrompt says where a person goes.
func showPrompt(w io.Writer, p daemon.Prompt) {
	if p.UserCode == "" {
		fmt.Fprintf(w, "Open this address in a browser on this machine, and agree there:\n\n  %s\n\nWaiting for the browser to come back; Ctrl-C ends it.\n", p.Page)
		return
	}
	fmt.Fprintf(w, "Open   %s\nEnter  %s\n\nWaiting until %s for that; Ctrl-C ends it.\n", p.Page, p.UserCode, p.Expires.Local().Format("15:04"))
}

// loginProblem says why somebody is not signed in.
func loginProblem(ctx context.Context, err error) string {
	e := new(oauth.Error)
	switch {
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		return "stopped; nothing was stored"
	case errors.As(err, &e):
		return cmp.Or(e.Message, e.Reason)
	}
	return err.Error()
}

func warnTo(env Environment) func(string) {
	return func(message string) { fmt.Fprintf(env.Stderr, "warning: %s\n", message) }
}

// openBrowser shows a web page. It waits for nothing: some systems' openers end with the browser.
func openBrowser(page string) error {
	program, args := "xdg-open", []string{page}
	switch runtime.GOOS {
	case "darwin":
		program = "open"
	case "windows":
		program, args = "rundll32", []string{"url.dll,FileProtocolHandler", page}
	}
	cmd := exec.Command(program, args...)
	if err := cmd.Start(); err != nil {
		return err
	}
	go cmd.Wait() // else it stays a zombie
	return nil
}

// keysOf are the keys that show what a login obtained, sorted.
func keysOf(cfg *config.Config, account string) []string {
	keys := []string{}
	for id, o := range cfg.Upstreams {
		if o.Account == account {
			keys = append(keys, id)
		}
	}
	slices.Sort(keys)
	return keys
}

// loadLogins reads the configuration. A wrong one is told, and keeps nobody from what was stored.
func loadLogins(src *config.Source, env Environment) (cfg *config.Config, good bool) {
	cfg, err := config.Load(*src)
	if err == nil {
		return cfg, true
	}
	fmt.Fprintf(env.Stderr, "warning: %s\n", explain(err))
	cfg = new(config.Config)
	cfg.Server.DataDir = locate(src, env)
	return cfg, false
}

// logout forgets what a login has obtained.
func logout(args []string, env Environment) int {
	fs := newFlags("logout", " NAME", "Deletes what a login has obtained: see coding-proxy credentials for the names.", env)
	src := sourceFlags(fs, env)
	words, code, done := parseWords(fs, args, env, 1, 1)
	if done {
		return code
	}
	cfg, _ := loadLogins(src, env)
	accounts, closeAccounts := daemon.OpenAccounts(cfg, warnTo(env))
	defer closeAccounts()
	states, err := accounts.States()
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy logout: %v\n", err)
		return exitFailed
	}
	known := maps.Clone(cfg.Logins)
	if known == nil {
		known = map[string]oauth.Client{}
	}
	for _, s := range states { // also of logins that the configuration has no more
		known[s.Name] = oauth.Client{Kind: s.Kind}
	}
	if _, ok := known["key:"+words[0]]; ok { // the key's own id
		words[0] = "key:" + words[0]
	}
	name, err := daemon.FindLogin(known, words[0])
	switch {
	case len(known) == 0:
		fmt.Fprintln(env.Stderr, "coding-proxy logout: nobody is signed in")
		return exitFailed
	case err != nil:
		fmt.Fprintf(env.Stderr, "coding-proxy logout: %v\n", err)
		return exitUsage
	}
	if err := accounts.Forget(context.Background(), name); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy logout: %s\n", loginProblem(context.Background(), err))
		return exitFailed
	}
	fmt.Fprintf(env.Stdout, "Signed out of %q: its tokens are deleted here. To withdraw them at the provider too, remove the access of\nthis program in the settings of your account there.\n", name)
	return exitDone
}

// account is what is told of a login, as --json prints it.
type account struct {
	Name       string     `json:"name"`
	Kind       string     `json:"kind,omitempty"`
	Account    string     `json:"account,omitempty"`
	Configured bool       `json:"configured"`
	SignedIn   bool       `json:"signed_in"`
	Since      *time.Time `json:"since,omitempty"`
	Until      *time.Time `json:"token_until,omitempty"` // absent: it does not end, or there is none
	Renews     bool       `json:"renews"`
	Parked     string     `json:"parked,omitempty"`
	Scope      string     `json:"scope,omitempty"`
	Keys       []string   `json:"keys"`

	stored bool
}

// credentials says what is signed in.
func credentials(args []string, env Environment) int {
	fs := newFlags("credentials", "", "Says what is signed in, and until when. It shows no token.", env)
	src := sourceFlags(fs, env)
	asJSON := fs.Bool("json", false, "print JSON")
	if code, done := parse(fs, args, env); done {
		return code
	}
	cfg, good := loadLogins(src, env)
	accounts, closeAccounts := daemon.OpenAccounts(cfg, warnTo(env))
	defer closeAccounts()
	states, err := accounts.States()
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy credentials: %v\n", err)
		return exitFailed
	}
	list := []account{}
	for _, s := range states {
		list = append(list, accountOf(cfg, s))
	}
	switch {
	case *asJSON:
		printJSON(env.Stdout, struct {
			Credentials []account `json:"credentials"`
		}{list})
	case len(list) == 0 && good:
		fmt.Fprint(env.Stdout, "Nobody is signed in, and "+noLoginsText)
	case len(list) == 0:
		fmt.Fprintln(env.Stdout, "Nobody is signed in.")
	default:
		printAccounts(env.Stdout, list)
	}
	return exitDone
}

func accountOf(cfg *config.Config, s oauth.AccountState) account {
	a := account{Name: s.Name, Kind: s.Kind, Account: s.Account, Configured: s.Configured, SignedIn: s.SignedIn, Renews: s.Renews,
		Parked: s.Parked, Scope: s.Scope, Keys: keysOf(cfg, s.Name), stored: s.SignedIn || s.Parked != ""}
	if key, isKey := strings.CutPrefix(s.Name, "key:"); isKey { // it has brought the credential along
		if _, a.Configured = cfg.Upstreams[key]; a.Configured {
			a.Keys = []string{key}
		}
	}
	if !s.Obtained.IsZero() {
		a.Since = &s.Obtained
	}
	if !s.Expires.IsZero() {
		a.Until = &s.Expires
	}
	return a
}

func printAccounts(out io.Writer, list []account) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tACCOUNT\tSIGNED IN\tTOKEN\tKEYS")
	for _, a := range list {
		since := "-"
		switch {
		case a.Since != nil:
			since = moment(*a.Since)
		case a.stored:
			since = "by the key"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", a.Name, cmp.Or(a.Kind, "-"), cmp.Or(a.Account, "-"), since, a.token(), cmp.Or(strings.Join(a.Keys, " "), "-"))
	}
	_ = w.Flush() // a reader that is gone needs no error
}

// token is how the account's token stands, in words.
func (a *account) token() string {
	var text string
	switch {
	case !a.stored:
		return "none: coding-proxy login " + a.Name
	case a.Parked != "" && strings.HasPrefix(a.Name, "key:"):
		text = "parked (" + a.Parked + "): the key needs another refresh_token"
	case a.Parked != "":
		text = "parked (" + a.Parked + "): coding-proxy login " + a.Name
	case a.Until == nil && a.Renews:
		text = "renews itself"
	case a.Until == nil:
		text = "does not end"
	case a.Renews:
		text = "until " + moment(*a.Until) + ", renews itself"
	default:
		text = "until " + moment(*a.Until)
	}
	if !a.Configured {
		text += "; not in the configuration"
	}
	return text
}
