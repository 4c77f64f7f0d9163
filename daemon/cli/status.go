package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

const (
	statusPatience = 5 * time.Second
	statusEnding   = 500 * time.Millisecond
)

// The states of an instance.
const (
	stateRunning = "running"
	stateEnding  = "stopping"      // it serves what is in flight, and nothing new
	stateSilent  = "not answering" // the process is alive
	stateStopped = "stopped"
	stateCrashed = "crashed" // it ended without a clean stop
)

// statusReport is what status knows. The fields of an instance are empty where there is none.
type statusReport struct {
	State    string     `json:"state"`
	Address  string     `json:"address,omitempty"`
	PID      int        `json:"pid,omitempty"`
	Started  *time.Time `json:"started,omitempty"`
	Uptime   *int64     `json:"uptime_seconds,omitempty"`
	Version  string     `json:"version,omitempty"`
	LastSign *time.Time `json:"last_sign_of_life,omitempty"` // of one that crashed
	DataDir  string     `json:"data_dir"`
	Log      string     `json:"log,omitempty"`
	Problem  string     `json:"problem,omitempty"`

	Pool json.RawMessage `json:"pool,omitempty"` // as /api/pool/stats has it
}

// status says whether an instance runs, and how it is.
func status(args []string, env Environment) int {
	fs := newFlags("status", "", "Says whether an instance runs, where, and how its tiers and keys are.", env)
	src := sourceFlags(fs, env)
	asJSON := fs.Bool("json", false, "print JSON")
	if code, done := parse(fs, args, env); done {
		return code
	}
	r := examine(locate(src, env), src)
	if *asJSON {
		encoder := json.NewEncoder(env.Stdout)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(r); err != nil {
			fmt.Fprintf(env.Stderr, "coding-proxy status: %v\n", err)
			return exitFailed
		}
	} else {
		r.print(env.Stdout)
	}
	switch r.State {
	case stateRunning:
		return exitDone
	case stateSilent, stateEnding:
		return exitFailed
	}
	return exitAbsent
}

// examine looks at the files, the process and what it answers.
func examine(dir string, src *config.Source) *statusReport {
	r := &statusReport{State: stateStopped, DataDir: absolute(dir)}
	i, running, err := lookUp(dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.Problem = err.Error() + "; the next start replaces it"
		} else {
			r.Problem = strings.TrimPrefix(stranger(src), "; but ")
		}
		return r
	}
	r.PID, r.Address, r.Version, r.Started = i.PID, i.Address, i.Version, &i.Started
	r.Log = logOf(i, dir, src)
	if running {
		if r.ask(i); r.State == stateSilent && ending(i) {
			return examine(dir, src)
		}
		return r
	}
	r.State = stateCrashed
	if sign := lastSign(dir, r.Log); !sign.IsZero() {
		r.LastSign = &sign
	}
	return r
}

// ending reports whether a process that does not answer goes, as one does that has just been told to stop.
func ending(i *daemon.Instance) bool {
	p, ok := i.Process()
	if !ok {
		return true
	}
	defer p.Release()
	return gone(p, statusEnding)
}

// ask takes the answers of a process that is alive.
func (r *statusReport) ask(i *daemon.Instance) {
	ctx, cancel := context.WithTimeout(context.Background(), statusPatience)
	defer cancel()
	uptime := max(0, int64(time.Since(i.Started).Seconds()))
	r.State, r.Uptime = stateRunning, &uptime
	to := connect(i)
	if err := to.healthy(ctx); isStopping(err) {
		r.State = stateEnding
		return
	} else if err != nil {
		r.State, r.Problem = stateSilent, err.Error()
		return
	}
	body, err := to.call(ctx, http.MethodGet, "/api/pool/stats")
	if err == nil && !json.Valid(body) {
		err = errors.New("/api/pool/stats: no JSON")
	}
	if err != nil {
		r.Problem = "its pool cannot be shown: " + err.Error()
		return
	}
	r.Pool = body
}

// logOf returns the log of an instance, "" if it went to a terminal. The configuration may have changed since.
func logOf(i *daemon.Instance, dir string, src *config.Source) string {
	if cfg, err := config.Load(*src); err == nil && cfg.Log.File != "" {
		return absolute(cfg.Log.File)
	}
	path := filepath.Join(dir, logName)
	if info, err := os.Stat(path); err != nil || info.ModTime().Before(i.Started.Add(-time.Second)) {
		return "" // it is of an earlier instance
	}
	return absolute(path)
}

// lastSign returns when an instance last wrote a file.
func lastSign(dir, log string) (last time.Time) {
	paths := []string{filepath.Join(dir, "usage.json"), filepath.Join(dir, "sessions.json"), filepath.Join(dir, "state.json"), log}
	days, _ := filepath.Glob(filepath.Join(dir, "journal", "*")) // the pattern is a good one
	for _, path := range append(paths, days...) {
		if info, err := os.Stat(path); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	if i, err := os.Stat(filepath.Join(dir, "proxy.pid")); err == nil && i.ModTime().After(last) {
		last = i.ModTime()
	}
	return last
}

func (r *statusReport) print(w io.Writer) {
	switch r.State {
	case stateStopped:
		fmt.Fprintf(w, "coding-proxy is not running in %s\n", r.DataDir)
		if r.Problem != "" {
			fmt.Fprintln(w, r.Problem)
		}
		return
	case stateSilent:
		fmt.Fprintf(w, "coding-proxy is alive but not answering: %s\n\n", r.Problem)
	case stateEnding:
		fmt.Fprint(w, "coding-proxy is stopping: requests in flight are served to their end, new ones are refused\n\n")
	case stateRunning:
		fmt.Fprint(w, "coding-proxy is running\n\n")
	case stateCrashed:
		fmt.Fprint(w, "coding-proxy is not running: it ended without a clean stop (a crash, a kill or a power cut)\n\n")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(t, "  %s\t%s\n", name, text)
		}
	}
	if r.State != stateCrashed {
		line("address", "http://"+r.Address)
	}
	line("PID", fmt.Sprint(r.PID))
	if r.State == stateCrashed {
		line("started", moment(*r.Started))
		if r.LastSign != nil {
			line("last sign of life", moment(*r.LastSign))
		}
	} else if r.Uptime != nil {
		line("uptime", fmt.Sprintf("%v, since %s", time.Duration(*r.Uptime)*time.Second, moment(*r.Started)))
	}
	line("version", r.Version)
	line("data", r.DataDir)
	line("log", cmp.Or(r.Log, "its standard error"))
	if r.State == stateRunning {
		line("statistics", "http://"+r.Address+"/stats")
		if r.Problem != "" {
			line("problem", r.Problem)
		}
	}
	_ = t.Flush() // whoever does not read has no use for it
	r.printPool(w)
}

// poolReport is what is printed of /api/pool/stats.
type poolReport struct {
	State string
	Tiers []struct {
		Name string
		gateReport
		Keys []struct {
			ID string
			gateReport
			Limits []limitReport `json:"upstream_limits"`
		}
	}
}

// limitReport is a limit of the provider as it was last told.
type limitReport struct {
	Name        string
	Limit       *float64
	Remaining   *float64
	UsedPercent *float64 `json:"used_percent"`
	Status      *string
	Reset       *time.Time
	Age         int64 `json:"age_seconds"`
}

func (l limitReport) String() string {
	var told []string
	if l.Status != nil {
		told = append(told, *l.Status)
	}
	if l.UsedPercent != nil {
		told = append(told, plain(*l.UsedPercent)+"% used")
	}
	switch {
	case l.Remaining != nil && l.Limit != nil:
		told = append(told, plain(*l.Remaining)+" of "+plain(*l.Limit)+" left")
	case l.Remaining != nil:
		told = append(told, plain(*l.Remaining)+" left")
	case l.Limit != nil:
		told = append(told, "limit "+plain(*l.Limit))
	}
	if l.Reset != nil {
		told = append(told, "reset at "+moment(*l.Reset))
	}
	return fmt.Sprintf("%s (told %v ago)", strings.Join(told, ", "), time.Duration(l.Age)*time.Second)
}

// plain writes a figure without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

type gateReport struct {
	State  string
	Reason *string
	Until  *time.Time
}

func (g gateReport) String() string {
	text := g.State
	if g.Reason != nil && *g.Reason != "" {
		text += " (" + *g.Reason + ")"
	}
	if g.Until != nil {
		text += " until " + moment(*g.Until)
	}
	return text
}

func (r *statusReport) printPool(w io.Writer) {
	var p poolReport
	if r.Pool == nil || json.Unmarshal(r.Pool, &p) != nil {
		return
	}
	fmt.Fprintf(w, "\nThe pool is %s.\n", p.State)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, tier := range p.Tiers {
		fmt.Fprintf(t, "  %s\t%v\n", cmp.Or(tier.Name, "(keys without a tier)"), tier.gateReport)
		for _, k := range tier.Keys {
			fmt.Fprintf(t, "    %s\t%v\n", k.ID, k.gateReport)
			for _, l := range k.Limits {
				fmt.Fprintf(t, "      %s\t%v\n", l.Name, l)
			}
		}
	}
	_ = t.Flush()
}
