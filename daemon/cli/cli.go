// Package cli is the command line: one file a command.
package cli

import (
	"fmt"
	"io"

	"coding-proxy/daemon"
	"coding-proxy/daemon/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
	exitAbsent = 3 // not running
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

  serve        run in the foreground (the default)
  start        run in the background
  stop         end what runs in the background, after the requests in flight
  restart      stop and start, if the configuration is good
  status       is it running, where, and how are its tiers and keys
  check        say everything that is wrong with the configuration; --live tries each key
  route        say where a request would go, without sending it
  usage        what the last days' requests have used: tokens, cost, failovers; table, CSV, JSON
  requests     the journal: the newest requests, or one by its TRACE; --follow shows new ones
  login        sign in to a provider, as an entry NAME of the configuration's oauth section
  logout       delete what a login has obtained
  credentials  say what is signed in, and until when
  reload       read the configuration again
  reset        forget cooldowns, breakers and quota guards: of all, or of one KEY or TIER
  enable       use a KEY again
  disable      use a KEY no more, until the next reload
  demo         show it at work with simulated providers: no key, no network
  version      print the version
  help         print this text

Each command explains its flags with -h.
Exit codes: 0 done, 1 failed, 2 wrong use, 3 not running.
`

// command is one word of the command line.
type command struct {
	name string
	run  func(args []string, env Environment) int
}

func commands() []command {
	return []command{
		{"serve", serve},
		{"start", start}, {"stop", stop}, {"restart", restart}, {"status", status},
		{"check", check}, {"route", route},
		{"usage", usage}, {"requests", requests},
		{"login", login}, {"logout", logout}, {"credentials", credentials},
		{"reload", reload}, {"reset", reset}, {"enable", enable}, {"disable", disable},
		{"demo", runDemo}, {"version", version}, {"help", help},
	}
}

// Main runs the command that args name and returns the exit code: 0 done, 1 failed, 2 wrong use, 3 not
// running.
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
			if err := applyZone(env); err != nil && needsZone(name, args) {
				fmt.Fprintf(env.Stderr, "coding-proxy %s: %v\n", name, err)
				return exitUsage
			}
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

func help(args []string, env Environment) int {
	if code, done := parse(newFlags("help", "", "Prints the commands. Each explains its flags with -h.", env), args, env); done {
		return code
	}
	fmt.Fprint(env.Stdout, usageText)
	return exitDone
}

func version(args []string, env Environment) int {
	if code, done := parse(newFlags("version", "", "Prints the version and the Go release that built it.", env), args, env); done {
		return code
	}
	fmt.Fprintln(env.Stdout, "coding-proxy", daemon.Version())
	return exitDone
}
