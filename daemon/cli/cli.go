// Package cli is the command line: one file a command.
package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"coding-proxy/daemon/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// Environment is what the process gives a command.
type Environment struct {
	Environ []string
	Getenv  func(string) (string, bool)
	HomeDir func() (string, error)
	Stdout  io.Writer
	Stderr  io.Writer
}

const usageText = `coding-proxy stands between coding agents and LLM providers: a pool of keys
answers, and when a key fails the next one does.

Usage: coding-proxy [command] [flags]

  serve     run in the foreground (the default)
  demo      show it at work with simulated providers: no key, no network
  version   print the version
  help      print this text

Each command explains its flags with -h.
`

// command is one word of the command line.
type command struct {
	name string
	run  func(args []string, env Environment) int
}

func commands() []command {
	return []command{{"serve", serve}, {"demo", runDemo}, {"version", version}, {"help", help}}
}

// Main runs the command that args name and returns the exit code: 0 done, 1 failed, 2 wrong use.
func Main(args []string, env Environment) int {
	name := "serve"
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		name, args = "help", args[1:]
	} else if len(args) > 0 && args[0] != "" && args[0][0] != '-' {
		name, args = args[0], args[1:]
	}
	var names []string
	for _, c := range commands() {
		if c.name == name {
			return c.run(args, env)
		}
		names = append(names, c.name)
	}
	fmt.Fprintf(env.Stderr, "coding-proxy: unknown command %q", name)
	if near := config.Nearest(name, names); near != "" {
		fmt.Fprintf(env.Stderr, "; did you mean %q?", near)
	}
	fmt.Fprintln(env.Stderr, "\nRun coding-proxy help for the commands.")
	return exitUsage
}

func help(_ []string, env Environment) int {
	fmt.Fprint(env.Stdout, usageText)
	return exitDone
}

func version(_ []string, env Environment) int {
	v, revision := "devel", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		if info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && len(s.Value) >= 12 {
				revision = " " + s.Value[:12]
			}
		}
		revision += " " + info.GoVersion
	}
	fmt.Fprintf(env.Stdout, "coding-proxy %s%s\n", v, revision)
	return exitDone
}

// parse reads flags. It returns done with the exit code when there is nothing more to do: help was asked for, or the
// use was wrong.
func parse(fs *flag.FlagSet, args []string, env Environment) (code int, done bool) {
	fs.SetOutput(env.Stderr)
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitDone, true
	case err != nil:
		return exitUsage, true
	case fs.NArg() > 0:
		fmt.Fprintf(env.Stderr, "coding-proxy %s: unexpected argument %q\n", fs.Name(), fs.Arg(0))
		return exitUsage, true
	}
	return 0, false
}

// signals returns a context that ends with the first SIGINT or SIGTERM, and one that ends with the second.
func signals() (first, second context.Context, stop func()) {
	first, endFirst := context.WithCancel(context.Background())
	second, endSecond := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		for _, end := range []context.CancelFunc{endFirst, endSecond} {
			select {
			case <-ch:
				end()
			case <-done:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(ch)
		close(done)
		endFirst()
		endSecond()
	}
}
