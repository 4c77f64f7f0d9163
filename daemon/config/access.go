package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// anyOrigin allows every page.
const anyOrigin = "*"

// webOrigin is what browsers send as Origin (RFC 6454, section 6.2): a scheme, a host, and a port that is not the scheme's own.
func webOrigin(s string) string {
	if s == anyOrigin {
		return ""
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" || s != u.Scheme+"://"+u.Host || s != strings.ToLower(s) || strings.ContainsAny(u.Host, "*, ") ||
		u.Scheme == "https" && u.Port() == "443" || u.Scheme == "http" && u.Port() == "80" {
		return "must be an origin as browsers send it, https://app.example or http://localhost:8080, in lower case, without a path or the usual port; or \"*\""
	}
	return ""
}

// access checks what lets requests in against each other.
func (d *decoder) access(c *Config, f *file) {
	if c.Auth.ProtectPages && f.adminKey.text == "" {
		d.fail(d.seen["auth.protect_pages"], "needs `auth.admin_key`: nobody could see the pages")
	}
	if slices.Contains(c.Server.CORSOrigins, anyOrigin) && len(f.callers) == 0 && !f.localKey.given() {
		d.fail(d.seen["server.cors_origins"], "\"*\" needs `auth.request_keys`: any page could use the pool")
	}
	if slices.ContainsFunc(c.Server.TrustedProxies, func(p netip.Prefix) bool { return p.Bits() == 0 }) {
		d.fail(d.seen["server.trusted_proxies"], "must be the addresses of proxies, not all there are: whoever connects could say where he comes from")
	}
	if loopback := netip.AddrFrom4([4]byte{127, 0, 0, 1}); len(c.Auth.AllowAddresses) > 0 && !c.Auth.AllowAddresses.Has(loopback) || c.Auth.DenyAddresses.Has(loopback) {
		d.warn(d.seen["auth"], "neither clients nor browsers of this machine are let in: `allow_addresses` and `deny_addresses` leave out 127.0.0.1")
	}
}
