package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

const (
	adminPatience    = 30 * time.Second // a reload may read large files
	healthPatience   = 2 * time.Second
	strangerPatience = 500 * time.Millisecond
	mostAnswer       = 16 << 20 // bytes
)

// remote is a running instance as its calls show it.
type remote struct {
	base, token string
	http        *http.Client
}

// connect prepares calls to an instance. Its process must have been seen running: the token is for it alone.
func connect(i *daemon.Instance) *remote {
	host, addresses := reachable(i.Address)
	dialer := &net.Dialer{}
	dial := func(ctx context.Context, network, _ string) (conn net.Conn, err error) {
		for _, a := range addresses {
			if conn, err = dialer.DialContext(ctx, network, a); err == nil {
				return conn, nil
			}
		}
		return nil, err
	}
	return &remote{"http://" + host, i.Token, &http.Client{
		Transport:     &http.Transport{DialContext: dial, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reachable says how a listener's address is called from this machine, and where to dial. A listener on all addresses
// is reached by loopback, by the family that the machine has. A zone (fe80::1%eth0) has no place in a URL.
func reachable(address string) (host string, dial []string) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return address, []string{address}
	}
	port := fmt.Sprint(at.Port())
	switch {
	case at.Addr().IsUnspecified():
		return net.JoinHostPort("localhost", port), []string{net.JoinHostPort("127.0.0.1", port), net.JoinHostPort("::1", port)}
	case at.Addr().Zone() != "":
		return net.JoinHostPort("localhost", port), []string{address}
	}
	return address, []string{address}
}

// refusal is an answer that is an error.
type refusal struct {
	status  int
	message string
}

func (e *refusal) Error() string {
	if e.message == "" {
		return fmt.Sprintf("it answered %d %s", e.status, http.StatusText(e.status))
	}
	return e.message
}

// call sends one request and returns the body of a good answer.
func (r *remote) call(ctx context.Context, method, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+r.token)
	response, err := r.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return nil, fmt.Errorf("read the answer of %s: %w", path, err)
	}
	if response.StatusCode/100 != 2 {
		var e struct{ Error struct{ Message string } }
		_ = json.Unmarshal(body, &e) // without a message the status has to do
		return nil, &refusal{response.StatusCode, e.Error.Message}
	}
	return body, nil
}

// healthy asks whether the instance serves.
func (r *remote) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthPatience)
	defer cancel()
	body, err := r.call(ctx, http.MethodGet, "/healthz")
	if err == nil && strings.TrimSpace(string(body)) != "ok" {
		err = errors.New("/healthz answers something else than ok")
	}
	return err
}

// isStopping reports whether an instance is not healthy because it is about to end.
func isStopping(err error) bool {
	no := new(refusal)
	return errors.As(err, &no) && no.status == http.StatusServiceUnavailable
}

// locate returns the data directory that flags, environment and configuration name. A wrong configuration is told, but
// keeps no running instance from being found.
func locate(src *config.Source, env Environment) string {
	dir, err := config.Locate(*src)
	if err != nil {
		fmt.Fprintf(env.Stderr, "warning: %s\nlooking in %s\n", explain(err), absolute(dir))
	}
	return dir
}

func absolute(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

// lookUp reads proxy.pid and sees whether its process runs.
func lookUp(dir string) (i *daemon.Instance, running bool, err error) {
	for {
		if i, err = daemon.ReadInstance(dir); err != nil || i.Running() {
			return i, err == nil, err
		}
		// A clean end takes the file away before the process ends: what is still there was left behind.
		again, err := daemon.ReadInstance(dir)
		if err == nil && again.PID == i.PID && again.Token == i.Token {
			return i, false, nil
		}
	}
}

// present returns the instance that runs in the directory, or why there is none.
func present(dir string) (*daemon.Instance, string) {
	i, running, err := lookUp(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "nothing runs in " + absolute(dir)
	case err != nil:
		return nil, fmt.Sprintf("nothing is known to run in %s: %v", absolute(dir), err)
	case !running:
		return nil, fmt.Sprintf("nothing runs in %s; process %d, started %s, ended without a clean stop",
			absolute(dir), i.PID, moment(i.Started))
	}
	return i, ""
}

// stranger says what answers at the configured address although nothing runs in the data directory, "" for nothing. An
// instance goes on in the directory in which it began, whatever the configuration says since.
func stranger(src *config.Source) string {
	cfg, err := config.Load(*src)
	if err != nil || cfg.Server.Port == 0 {
		return ""
	}
	at := &daemon.Instance{Address: net.JoinHostPort(cfg.Server.Host, strconv.Itoa(cfg.Server.Port))}
	ctx, cancel := context.WithTimeout(context.Background(), strangerPatience)
	defer cancel()
	if connect(at).healthy(ctx) != nil {
		return ""
	}
	return fmt.Sprintf("; but something answers at http://%s: if server.data_dir has changed since it started, name the former one with --data-dir", at.Address)
}

func moment(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

func reload(args []string, env Environment) int {
	return adminCommand(args, env, adminOptions{name: "reload", does: "Makes the running instance read its configuration again. A wrong one is refused, the old one goes on.",
		path: func([]string) string { return "/admin/reload" }})
}

func reset(args []string, env Environment) int {
	return adminCommand(args, env, adminOptions{name: "reset", words: " [KEY|TIER]", most: 1, does: "Forgets cooldowns, breakers and quota guards: all, or those of one key or tier.",
		path: func(words []string) string {
			if len(words) == 0 {
				return "/admin/reset"
			}
			return "/admin/reset?" + url.Values{"name": words}.Encode()
		}})
}

func enable(args []string, env Environment) int {
	return adminCommand(args, env, adminOptions{name: "enable", words: " KEY", least: 1, most: 1, does: "Lets the pool use a key again.",
		path: func(words []string) string { return "/admin/keys/" + url.PathEscape(words[0]) + "/enable" }})
}

func disable(args []string, env Environment) int {
	return adminCommand(args, env, adminOptions{name: "disable", words: " KEY", least: 1, most: 1, does: "Keeps the pool from using a key, until the next reload.",
		path: func(words []string) string { return "/admin/keys/" + url.PathEscape(words[0]) + "/disable" }})
}

// adminOptions describe a command that is one admin call.
type adminOptions struct {
	name, words, does string
	least, most       int // words
	path              func(words []string) string
}

// adminCommand makes the call and prints the answer.
func adminCommand(args []string, env Environment, o adminOptions) int {
	fs := newFlags(o.name, o.words, o.does, env)
	src := sourceFlags(fs, env)
	words, code, done := parseWords(fs, args, env, o.least, o.most)
	if done {
		return code
	}
	i, absent := present(locate(src, env))
	if i == nil {
		fmt.Fprintf(env.Stderr, "coding-proxy %s: %s%s\n", o.name, absent, stranger(src))
		return exitAbsent
	}
	ctx, cancel := context.WithTimeout(context.Background(), adminPatience)
	defer cancel()
	body, err := connect(i).call(ctx, http.MethodPost, o.path(words))
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy %s: %v\n", o.name, err)
		return exitFailed
	}
	var answer struct {
		Message      string
		Warnings     []string
		NeedsRestart []string `json:"needs_restart"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Message == "" {
		answer.Message = "done"
	}
	fmt.Fprintln(env.Stdout, answer.Message)
	for _, w := range answer.Warnings {
		fmt.Fprintf(env.Stderr, "warning: %s\n", w)
	}
	if len(answer.NeedsRestart) > 0 {
		fmt.Fprintf(env.Stderr, "only a restart applies the changes of: %s\n", strings.Join(answer.NeedsRestart, ", "))
	}
	return exitDone
}
