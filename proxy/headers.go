package proxy

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"

	"coding-proxy/auth"
)

// credentialHeaders may hold the client's credential for the provider, or a request key.
var credentialHeaders = [...]string{"X-Api-Key", "Authorization", "X-Goog-Api-Key"}

// cleanHeaders takes out of h what is not for a provider: credentials, what concerns this connection or the way here,
// and what lets a provider or a page tell who browses. ReverseProxy has removed the hop-by-hop ones. All other headers
// pass: capabilities travel there.
func cleanHeaders(h http.Header) {
	for name := range h {
		switch name {
		case "X-Api-Key", "Authorization", "X-Goog-Api-Key", "Api-Key",
			"Te", "Expect", "Upgrade", "Connection", "Content-Length", "Content-Encoding", "Accept-Encoding",
			"Forwarded", "Via", "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip",
			"Cookie", "Origin", "Referer", "Idempotency-Key":
			delete(h, name)
		default:
			if name[0] == 'X' && (strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Proxy-")) {
				delete(h, name)
			}
		}
	}
}

// dropAccount takes out what picks an account, organisation or project of the client's own credential: beside one of ours it
// is somebody else's, and a provider refuses the two together.
func dropAccount(h http.Header) {
	for _, name := range [...]string{"Openai-Organization", "Openai-Project", "X-Goog-User-Project", "Chatgpt-Account-Id"} {
		delete(h, name)
	}
}

// ownCredential returns the headers with which the client shows itself to its provider: those that hold no request
// key of ours.
func ownCredential(h http.Header, query string, callers *auth.Callers) http.Header {
	var own http.Header
	for _, name := range credentialHeaders {
		for _, v := range h[name] {
			token := v
			if scheme, rest, ok := strings.Cut(v, " "); ok && strings.EqualFold(scheme, "Bearer") {
				token = strings.TrimSpace(rest)
			}
			if token == "" || callers.Known(token) {
				continue
			}
			if own == nil {
				own = http.Header{}
			}
			own[name] = append(own[name], v)
		}
	}
	if q, err := url.ParseQuery(query); err == nil && own == nil {
		if key := q.Get("key"); key != "" && !callers.Known(key) {
			own = http.Header{"X-Goog-Api-Key": {key}}
		}
	}
	return own
}

// credentialHash names a client's credential without holding it.
func credentialHash(own http.Header) string {
	if len(own) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, name := range credentialHeaders {
		for _, v := range own[name] {
			sum.Write([]byte(name + "\x00" + v + "\x00"))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// cleanQuery takes credentials out of the query; the rest stays as it is.
func cleanQuery(query string) string {
	if query == "" {
		return ""
	}
	kept := make([]string, 0, 4)
	for part := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if !strings.EqualFold(name, "key") && !strings.EqualFold(name, "access_token") {
			kept = append(kept, part)
		}
	}
	return strings.Join(kept, "&")
}

// cleanAnswer takes out of an upstream's headers what is not for the client, what concerned its connection alone, and what it
// tells browsers about its own origin: whose pages may read an answer is ours to say.
func cleanAnswer(h http.Header) {
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		switch {
		case name == "Connection", name == "Set-Cookie", name == "Server", strings.HasPrefix(name, "X-Proxy-"),
			strings.HasPrefix(name, "Access-Control-"), name == "Alt-Svc", name == "Strict-Transport-Security", name == "Clear-Site-Data":
			delete(h, name)
		}
	}
}
