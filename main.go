// Command coding-proxy stands between coding agents and LLM providers: a pool of keys answers, and when one fails the
// next one does.
package main

import (
	"os"

	"coding-proxy/daemon/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], cli.Environment{
		Environ: os.Environ(),
		Getenv:  os.LookupEnv,
		HomeDir: os.UserHomeDir,
		Stdout:  os.Stdout,
		Stderr:  os.Stderr,
	}))
}
