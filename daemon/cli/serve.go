package cli

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

// serve runs in the foreground until a signal.
func serve(args []string, env Environment) int {
	src := config.Source{Getenv: env.Getenv, Environ: env.Environ, ReadFile: os.ReadFile, Stat: os.Stat}
	if home, err := env.HomeDir(); err == nil {
		src.Home = home
	}
	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.StringVar(&src.Path, "config", "", "read this configuration `file` (default ./config.json, else ~/.coding-proxy/config.json, else none)")
	fs.StringVar(&src.Host, "host", "", "listen on this `address` (default server.host, 127.0.0.1)")
	fs.StringVar(&src.DataDir, "data-dir", "", "keep statistics and state in this `folder` (default server.data_dir, data)")
	fs.Func("port", "listen on this `port`; 0 takes a free one (default server.port, 3456)", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 || n > 65535 {
			return fmt.Errorf("a port is a number from 0 to 65535")
		}
		src.Port = &n
		return nil
	})
	if code, done := parse(fs, args, env); done {
		return code
	}
	cfg, err := config.Load(src)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: the configuration is wrong:\n%v\n", err)
		return exitFailed
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintf(env.Stderr, "warning: %s\n", w)
	}
	logs, closeLogs, err := openLog(cfg, env)
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: %v\n", err)
		return exitFailed
	}
	defer closeLogs()
	first, second, stop := signals()
	defer stop()
	d, err := daemon.New(cfg, daemon.NewLogger(cfg, logs))
	if err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: %v\n", err)
		return exitFailed
	}
	greet(env.Stdout, cfg, d.Addr())
	ballast := make([]byte, heapBallast)
	defer runtime.KeepAlive(ballast)
	if err := d.Serve(first, second); err != nil {
		fmt.Fprintf(env.Stderr, "coding-proxy: %v\n", err)
		return exitFailed
	}
	return exitDone
}

// heapBallast is memory that is never touched, so that it costs none: it makes the collector believe in a heap of that
// size. The real one is so small that under load it would be collected dozens of times a second.
const heapBallast = 16 << 20

// openLog returns where the log goes.
func openLog(cfg *config.Config, env Environment) (io.Writer, func(), error) {
	if cfg.Log.File == "" {
		return env.Stderr, func() {}, nil
	}
	f, err := os.OpenFile(cfg.Log.File, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("log file: %w", err)
	}
	return f, func() { f.Close() }, nil
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
