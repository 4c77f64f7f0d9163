package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The checks say what is wrong with a text, "" is nothing, and never repeat it.

// longestName bounds ids, codes and the like, in characters.
const longestName = 100

func anyText(s string) string {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "must not contain control characters"
	}
	return ""
}

// optional allows a text to be empty.
func optional(check func(string) string) func(string) string {
	return func(s string) string {
		if s == "" {
			return ""
		}
		return check(s)
	}
}

func notEmpty(s string) string {
	if strings.TrimSpace(s) == "" {
		return "must not be empty"
	}
	return anyText(s)
}

func label(s string) string {
	if utf8.RuneCountInString(s) > longestName {
		return "must not be longer than " + strconv.Itoa(longestName) + " characters"
	}
	return notEmpty(s)
}

// keyID keeps ids usable in paths, variables and headers; dots alone would be a folder.
func keyID(s string) string {
	if strings.ContainsFunc(s, func(c rune) bool { return !isAlphanumeric(c) && !strings.ContainsRune("._-", c) }) {
		return "must be of letters, digits, dots, hyphens and underscores"
	}
	if strings.Trim(s, "._-") == "" {
		return "must have a letter or a digit"
	}
	return label(s)
}

func fileName(s string) string {
	if strings.HasPrefix(s, "~") {
		return "must not begin with ~, which only shells replace; write ${HOME}"
	}
	return notEmpty(s)
}

func logLevel(s string) string {
	names := []string{"debug", "info", "warn", "error"}
	if lower := strings.ToLower(s); !slices.Contains(names, lower) {
		return "must be one of " + quoteAll(names) + didYouMean(lower, names)
	}
	return ""
}

func portNumber(s string) string {
	if n, err := strconv.ParseUint(s, 10, 16); err != nil || s != strconv.FormatUint(n, 10) {
		return "must be a port, 0 to 65535"
	}
	return ""
}

// hostName takes addresses and names, without a port.
func hostName(s string) string {
	if _, err := netip.ParseAddr(s); err == nil {
		return ""
	}
	ok := s != "" && len(s) <= 253 && !strings.ContainsFunc(s, func(c rune) bool {
		return !isAlphanumeric(c) && !strings.ContainsRune(".-_", c)
	})
	last := ""
	for part := range strings.SplitSeq(strings.TrimSuffix(s, "."), ".") {
		ok = ok && part != "" && len(part) <= 63
		last = part
	}
	if !ok || strings.Trim(last, "0123456789") == "" { // digits at the end make a mistyped address

		return "must be an address or a host name, without a port"
	}
	return ""
}

// isLocal reports whether a host is this machine, as far as its text says; private counts the local network too.
func isLocal(host string, private bool) bool {
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return strings.EqualFold(host, "localhost")
	}
	return addr.IsLoopback() || private && (addr.IsPrivate() || addr.IsLinkLocalUnicast())
}

// baseURL parses an upstream's address. Errors of net/url repeat the text, so they are not passed on.
func baseURL(s string, allowHTTP bool) (*url.URL, string) {
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return nil, "must be a URL"
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, "must begin with https://"
	case u.User != nil:
		return nil, "must not contain a user or password"
	case u.RawQuery != "" || strings.ContainsAny(s, "?#"):
		return nil, "must not have a query or fragment"
	case hostName(u.Hostname()) != "" || strings.HasSuffix(u.Host, ":"):
		return nil, "must have a valid host"
	case u.Port() != "" && (portNumber(u.Port()) != "" || u.Port() == "0"):
		return nil, "must have a valid port"
	case u.Scheme == "http" && !allowHTTP && !isLocal(u.Hostname(), true):
		return nil, "must be https: over http the key is readable on the way; set `allow_http` if you want that"
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, ""
}

// headerName takes what may be configured: tokens of RFC 9110, but none that frames the message.
func headerName(s string) string {
	if s == "" || strings.ContainsFunc(s, func(c rune) bool {
		return !isAlphanumeric(c) && !strings.ContainsRune("!#$%&'*+-.^_`|~", c)
	}) {
		return "must be a valid header name"
	}
	switch strings.ToLower(s) {
	case "host", "content-length", "transfer-encoding", "connection", "keep-alive", "proxy-connection", "te", "trailer",
		"upgrade", "expect", "content-encoding", "accept-encoding":
		return "must not be set: this header belongs to the connection"
	}
	return ""
}
