package auth

import (
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Addresses are single addresses and ranges of them. IPv4 addresses stand for their IPv6-mapped forms, too.
type Addresses []netip.Prefix

var (
	errNoAddress = errors.New("it is neither")
	errHostBits  = errors.New("it has bits behind the range's end")
)

// ParseAddresses reads an address (192.0.2.7, 2001:db8::7) or a range (192.0.2.0/24, 2001:db8::/32).
func ParseAddresses(s string) (netip.Prefix, error) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if err != nil || a.Zone() != "" {
			return netip.Prefix{}, errNoAddress
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), nil
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, errNoAddress
	}
	if p.Masked() != p { // a typing error, or somebody who means one address
		return netip.Prefix{}, errHostBits
	}
	const mapped = 96 // bits before the IPv4 address in ::ffff:0:0/96
	if p.Addr().Is4In6() {
		if p.Bits() < mapped {
			return netip.Prefix{}, errNoAddress
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mapped)
	}
	return p, nil
}

// Has reports whether the address is one of them. The zero address is none.
func (l Addresses) Has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l, func(p netip.Prefix) bool { return p.Contains(a) })
}

// RemoteAddress is where a request's connection comes from; the zero address where that cannot be told.
func RemoteAddress(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap()
}

// ClientAddress is where a request comes from. What forwarded headers say counts where the connection comes from one of the
// trusted proxies: then it is the last address that is none of them. The zero address where that cannot be told: headers
// that cannot be read, or contradict each other.
func ClientAddress(r *http.Request, trusted Addresses) netip.Addr {
	remote := RemoteAddress(r)
	if !trusted.Has(remote) {
		return remote
	}
	client, told := remote, false
	for _, chain := range [][]string{forwardedFor(r.Header["X-Forwarded-For"]), forwarded(r.Header["Forwarded"]), r.Header["X-Real-Ip"]} {
		if len(chain) == 0 {
			continue
		}
		a := lastUntrusted(chain, trusted)
		if !a.IsValid() || told && a != client {
			return netip.Addr{}
		}
		client, told = a, true
	}
	return client
}

// lastUntrusted walks a chain from its end, where the nearest proxy has written.
func lastUntrusted(chain []string, trusted Addresses) netip.Addr {
	var a netip.Addr
	for _, text := range slices.Backward(chain) {
		if a = forwardedAddress(text); !a.IsValid() || !trusted.Has(a) {
			return a
		}
	}
	return a
}

// forwardedAddress reads 192.0.2.7, 192.0.2.7:80, 2001:db8::7, [2001:db8::7] and [2001:db8::7]:80.
func forwardedAddress(s string) netip.Addr {
	s = strings.TrimSpace(s)
	if ap, err := netip.ParseAddrPort(s); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	if inner, ok := strings.CutPrefix(s, "["); ok {
		if s, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}
		}
	}
	a, err := netip.ParseAddr(s)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap().WithZone("")
}

// forwardedFor parts the values of X-Forwarded-For.
func forwardedFor(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return strings.Split(strings.Join(values, ","), ",")
}

// forwarded returns the "for" of each element of Forwarded (RFC 7239, section 4); "" for one without.
func forwarded(values []string) []string {
	var chain []string
	for _, element := range forwardedFor(values) { // no address has a comma in it
		node := ""
		for pair := range strings.SplitSeq(element, ";") {
			if name, value, ok := strings.Cut(strings.TrimSpace(pair), "="); ok && strings.EqualFold(name, "for") {
				node = strings.Trim(value, `"`)
			}
		}
		chain = append(chain, node)
	}
	return chain
}
