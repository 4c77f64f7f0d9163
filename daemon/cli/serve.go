package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

// serve runs until a signal: in the foreground, or as the process that start has started.
func serve(args []string, env Environment) int {
	fs := newFlags("serve", "", "Runs in the foreground until Ctrl-C or SIGTERM; SIGHUP reads the configuration again.", env)
	src := sourceFlags(fs, env)
	background := fs.Bool("background", false, hidden+"log to a file, print nothing")
	report := fs.String("report", "", hidden+"write into this file why it could not start")
	if code, done := parse(fs, args, env); done {
		return code
	}
	if err := run(*src, *background, env); err != nil {
		writeReport(*report, err)
		fmt.Fprintf(env.Stderr, "coding-proxy: %s\n", explain(err))
		return exitFailed
	}
	return exitDone
}

// explain makes a sentence of an error; of a configuration's, one with all of its lines.
func explain(err error) string {
	if problems := new(config.Problems); errors.As(err, &problems) {
		return "the configuration is wrong:\n" + problems.Error()
	}
	return err.Error()
}

func run(src config.Source, background bool, env Environment) error {
	hangups := listenHangups(!background)
	defer hangups.stop()
	first, second, endSignals := signals()
	defer endSignals()
	cfg, err := config.Load(src)
	if err != nil {
		return err
	}
	logs, closeLogs, err := openLog(cfg, background, env)
	if err != nil {
		return err
	}
	defer closeLogs()
	log := daemon.NewLogger(cfg, logs)
	d, err := daemon.New(cfg, log)
	if err != nil {
		return err
	}
	if background {
		for _, w := range cfg.Warnings {
			log.Warn("configuration", "warning", w)
		}
		log.Info("started", "address", d.Addr(), "pid", os.Getpid(), "version", daemon.Version())
	} else {
		printWarnings(cfg, env)
		greet(env.Stdout, cfg, d.Addr())
	}
	ballast := make([]byte, heapBallast)
	defer runtime.KeepAlive(ballast)
	first, end := hangups.follow(first, func() { _, _ = d.Reload() }) // it logs what comes of it
	defer end()
	if err := d.Serve(first, second); err != nil {
		log.Error("ended", "error", err)
		return err
	}
	log.Info("stopped")
	return nil
}

func printWarnings(cfg *config.Config, env Environment) {
	for _, w := range cfg.Warnings {
		fmt.Fprintf(env.Stderr, "warning: %s\n", w)
	}
}

// heapBallast is memory that is never touched, so that it costs none: it makes the collector believe in a heap of that
// size. The real one is so small that under load it would be collected dozens of times a second.
const heapBallast = 16 << 20

// logName is the log of the background mode, in the data directory.
const logName = "proxy.log"

// logPath returns the file that the log goes to, "" for standard error.
func logPath(cfg *config.Config, background bool) string {
	if cfg.Log.File == "" && background {
		return filepath.Join(cfg.Server.DataDir, logName)
	}
	return cfg.Log.File
}

// openLog returns where the log goes.
func openLog(cfg *config.Config, background bool, env Environment) (io.Writer, func(), error) {
	path := logPath(cfg, background)
	if path == "" {
		return env.Stderr, func() {}, nil
	}
	f, err := daemon.OpenLogFile(path)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { f.Close() }, nil
}

// startReport is what the background process leaves for the command that started it when it cannot serve.
type startReport struct {
	Locked bool   `json:"locked"` // another process has the data directory
	Text   string `json:"text"`
}

// writeReport writes into a file that is there: the command that waits for it has made it, and takes it away.
func writeReport(path string, cause error) {
	if path == "" {
		return
	}
	data, err := json.Marshal(startReport{Locked: errors.As(cause, new(*daemon.LockedError)), Text: explain(cause)})
	if err != nil {
		return
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return // nobody waits any more
	}
	_, _ = f.Write(data)
	_ = f.Close()
}

// greet says where it listens, what it does and what to do next.
func greet(w io.Writer, cfg *config.Config, addr string) {
	url := "http://" + addr
	fmt.Fprintf(w, "coding-proxy listening on %s\n", url)
	fmt.Fprintf(w, "statistics: %s/stats\n", url)
	if cfg.Path == "" {
		fmt.Fprintf(w, `No configuration file: every client's own credential is passed on to Anthropic, and its use is counted.
Try it:   ANTHROPIC_BASE_URL=%s claude
Next:     copy config.json.example to config.json, put your keys in, and start again: then they are one pool.
`, url)
		return
	}
	fmt.Fprintf(w, "configuration: %s, %d keys\n", cfg.Path, len(cfg.Upstreams))
}
