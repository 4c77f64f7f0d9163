package upstream

import (
	"coding-proxy/proxy/upstream/antigravity"
	"coding-proxy/proxy/upstream/copilot"
)

// Copilot is the account of a key of that provider; nil: the key is of another one.
func (u *Upstream) Copilot() *copilot.Provider {
	p, _ := u.kind.(*copilot.Provider)
	return p
}

// Antigravity is the account of a key of that provider; nil: the key is of another one.
func (u *Upstream) Antigravity() *antigravity.Provider {
	p, _ := u.kind.(*antigravity.Provider)
	return p
}
