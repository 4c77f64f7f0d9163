package auth

import "time"

// Options says who may ask.
type Options struct {
	RequestKeys []RequestKey
	Groups      []Group
	AdminKey    Secret // opens the pages and the admin calls from anywhere; empty = none
}

// RequestKey is what one caller shows. Code names the caller in statistics, Key is the secret it sends.
type RequestKey struct {
	Code    string
	Key     Secret
	Group   string    // "" = every pool key
	Models  []string  // globs that the resolved model must match; empty = any
	Expires time.Time // zero = never; the key is refused from this instant on
}

// Group limits callers to some pool keys. A group without keys lets nobody in.
type Group struct {
	Name string
	Keys []string // ids of pool keys
}
