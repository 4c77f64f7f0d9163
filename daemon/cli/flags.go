package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"

	"coding-proxy/daemon/config"
)

// hidden begins the usage of a flag that is not for people.
const hidden = "(internal) "

// newFlags returns the flags of a command; words is what stands beside them.
func newFlags(name, words, does string, env Environment) *flag.FlagSet {
	fs := flag.NewFlagSet(name, flag.ContinueOnError)
	fs.SetOutput(env.Stderr)
	fs.Usage = func() {
		fmt.Fprintf(fs.Output(), "Usage: coding-proxy %s [flags]%s\n\n%s\n\n", name, words, does)
		shown := flag.NewFlagSet(name, flag.ContinueOnError)
		shown.SetOutput(fs.Output())
		fs.VisitAll(func(f *flag.Flag) {
			if !strings.HasPrefix(f.Usage, hidden) {
				shown.Var(f.Value, f.Name, f.Usage)
			}
		})
		shown.PrintDefaults()
	}
	return fs
}

// sourceFlags adds the flags that say which configuration and which instance is meant.
func sourceFlags(fs *flag.FlagSet, env Environment) *config.Source {
	src := &config.Source{Getenv: env.Getenv, Environ: env.Environ, ReadFile: os.ReadFile, Stat: os.Stat}
	if home, err := env.HomeDir(); err == nil {
		src.Home = home
	}
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
	return src
}

// sourceArguments are the flags that sourceFlags read, for another process.
func sourceArguments(src config.Source) []string {
	var args []string
	add := func(name, value string) {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	add("config", src.Path)
	add("host", src.Host)
	add("data-dir", src.DataDir)
	if src.Port != nil {
		add("port", strconv.Itoa(*src.Port))
	}
	return args
}

// parse reads flags. It returns done with the exit code when there is nothing more to do: help was asked for, or the
// use was wrong.
func parse(fs *flag.FlagSet, args []string, env Environment) (code int, done bool) {
	_, code, done = parseWords(fs, args, env, 0, 0)
	return code, done
}

// parseWords reads flags and between least and most words among them.
func parseWords(fs *flag.FlagSet, args []string, env Environment, least, most int) (words []string, code int, done bool) {
	fs.SetOutput(env.Stderr)
	for {
		err := fs.Parse(args)
		if errors.Is(err, flag.ErrHelp) {
			return nil, exitDone, true
		}
		if err != nil {
			return nil, exitUsage, true
		}
		if fs.NArg() == 0 {
			break
		}
		words, args = append(words, fs.Arg(0)), fs.Args()[1:]
	}
	switch {
	case len(words) > most:
		fmt.Fprintf(env.Stderr, "coding-proxy %s: unexpected argument %q\n", fs.Name(), words[most])
		return nil, exitUsage, true
	case len(words) < least:
		fmt.Fprintf(env.Stderr, "coding-proxy %s: a name is missing; see coding-proxy %[1]s -h\n", fs.Name())
		return nil, exitUsage, true
	}
	return words, 0, false
}
