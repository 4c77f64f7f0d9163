package upstream

import (
	"bytes"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"coding-proxy/auth"
)

const key = "sk-upstream-0123456789"

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A base URL and a request's path become one address; a version segment that both have is not doubled.
func TestURL(t *testing.T) {
	for _, tc := range []struct{ base, path, query, want string }{
		{"https://api.anthropic.com", "/v1/messages", "", "https://api.anthropic.com/v1/messages"},
		{"https://api.anthropic.com/", "/v1/messages", "", "https://api.anthropic.com/v1/messages"},
		{"https://api.anthropic.com", "/v1/messages", "beta=true", "https://api.anthropic.com/v1/messages?beta=true"},
		{"https://open.bigmodel.cn/api/anthropic", "/v1/messages", "", "https://open.bigmodel.cn/api/anthropic/v1/messages"},
		{"https://open.bigmodel.cn/api/anthropic/", "/v1/messages", "", "https://open.bigmodel.cn/api/anthropic/v1/messages"},
		{"https://h/v1", "/v1/messages", "", "https://h/v1/messages"},
		{"https://h/v1/", "/v1/messages", "", "https://h/v1/messages"},
		{"https://h/api/v1", "/v1/messages/count_tokens", "a=1&b=%20", "https://h/api/v1/messages/count_tokens?a=1&b=%20"},
		{"https://h/v1beta", "/v1beta/models/m:generateContent", "alt=sse", "https://h/v1beta/models/m:generateContent?alt=sse"},
		{"https://h/v2", "/v1/messages", "", "https://h/v2/v1/messages"},
		{"https://h/v1beta", "/v1/messages", "", "https://h/v1beta/v1/messages"},
		{"https://h/v1", "/v1beta/models", "", "https://h/v1/v1beta/models"},
		{"https://h/v1", "/v10/messages", "", "https://h/v1/v10/messages"},
		{"https://h/v1", "/v1", "", "https://h/v1/v1"},
		{"https://h/dev1", "/v1/messages", "", "https://h/dev1/v1/messages"},
		{"https://h/v1/x", "/v1/messages", "", "https://h/v1/x/v1/messages"},
		{"https://h/messages", "/messages/x", "", "https://h/messages/messages/x"},
		{"https://h/v", "/v/messages", "", "https://h/v/v/messages"},
		{"http://127.0.0.1:8080/a/b", "/v1/messages", "", "http://127.0.0.1:8080/a/b/v1/messages"},
		{"http://[::1]:8080", "/v1/messages", "", "http://[::1]:8080/v1/messages"},
		{"https://h/with%20blank", "/v1/messages", "", "https://h/with%20blank/v1/messages"},
		{"https://h/v1", "/v1/models/a%20b%2Fc", "", "https://h/v1/models/a%20b%2Fc"},
		{"https://h/accounts%2Fone", "/v1/messages", "", "https://h/accounts%2Fone/v1/messages"},
	} {
		base := parse(t, tc.base)
		before := *base
		if got := New(Options{BaseURL: base}).URL(tc.path, tc.query).String(); got != tc.want {
			t.Errorf("%s and %s: %s, want %s", tc.base, tc.path, got, tc.want)
		}
		if *base != before {
			t.Errorf("%s: the base has become %s", tc.base, base)
		}
	}
}

// headerText is a header in one line, sorted.
func headerText(h http.Header) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(h)) {
		parts = append(parts, name+": "+strings.Join(h[name], " | "))
	}
	return strings.Join(parts, "; ")
}

func secrets(pairs ...string) map[string]auth.Secret {
	m := map[string]auth.Secret{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = auth.NewSecret(pairs[i+1])
	}
	return m
}

// What a key puts into a request's headers.
func TestSetHeaders(t *testing.T) {
	own := http.Header{"X-Api-Key": {"the client's own"}}
	for _, tc := range []struct {
		name string
		opt  Options
		have http.Header
		want string
	}{
		{"x-api-key", Options{APIKey: auth.NewSecret(key), HeaderName: "x-api-key"}, http.Header{"User-Agent": {"claude-cli/2"}},
			"Accept-Encoding: identity; User-Agent: claude-cli/2; X-Api-Key: " + key},
		{"bearer", Options{APIKey: auth.NewSecret(key), HeaderName: "authorization", HeaderPrefix: "Bearer "}, http.Header{},
			"Accept-Encoding: identity; Authorization: Bearer " + key},
		{"a header of its own", Options{APIKey: auth.NewSecret(key), HeaderName: "x-goog-api-key", HeaderPrefix: "key="}, http.Header{},
			"Accept-Encoding: identity; X-Goog-Api-Key: key=" + key},
		{"the key replaces what is there", Options{APIKey: auth.NewSecret(key), HeaderName: "x-api-key"}, own,
			"Accept-Encoding: identity; X-Api-Key: " + key},
		{"passthrough", Options{Passthrough: true}, own, "Accept-Encoding: identity; X-Api-Key: the client's own"},
		{"passthrough of nothing", Options{Passthrough: true}, http.Header{}, "Accept-Encoding: identity"},
		{"encoding is ours", Options{Passthrough: true}, http.Header{"Accept-Encoding": {"gzip", "br"}}, "Accept-Encoding: identity"},
		{"configured headers replace", Options{Passthrough: true, Headers: secrets("user-agent", "ours", "x-team", "blue")},
			http.Header{"User-Agent": {"theirs"}, "Anthropic-Version": {"2023-06-01"}},
			"Accept-Encoding: identity; Anthropic-Version: 2023-06-01; User-Agent: ours; X-Team: blue"},

		{"betas pass", Options{Passthrough: true}, http.Header{"Anthropic-Beta": {"a,b", "c"}}, "Accept-Encoding: identity; Anthropic-Beta: a,b | c"},
		{"betas are merged", Options{Passthrough: true, Headers: secrets("anthropic-beta", "b, c")}, http.Header{"Anthropic-Beta": {"a,b"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,b,c"},
		{"betas of several lines are merged", Options{Passthrough: true, Headers: secrets("Anthropic-Beta", "c,d")}, http.Header{"Anthropic-Beta": {"a, b", " c ,"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,b,c,d"},
		{"betas where the client has none", Options{Passthrough: true, Headers: secrets("anthropic-beta", "c")}, http.Header{}, "Accept-Encoding: identity; Anthropic-Beta: c"},
		{"the same beta configured twice", Options{Passthrough: true, Headers: secrets("anthropic-beta", "c,c")}, http.Header{}, "Accept-Encoding: identity; Anthropic-Beta: c"},
		{"no beta configured is no header", Options{Passthrough: true, Headers: secrets("anthropic-beta", " ")}, http.Header{}, "Accept-Encoding: identity"},
		{"dropped betas", Options{Passthrough: true, DropBetas: []string{"b", "x"}}, http.Header{"Anthropic-Beta": {"a,b", "c, b"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,c"},
		{"all betas dropped", Options{Passthrough: true, DropBetas: []string{"a", "b"}}, http.Header{"Anthropic-Beta": {"a,b"}}, "Accept-Encoding: identity"},
		{"dropped is exact", Options{Passthrough: true, DropBetas: []string{"a"}}, http.Header{"Anthropic-Beta": {"a1,A,aa"}}, "Accept-Encoding: identity; Anthropic-Beta: a1,A,aa"},
		{"dropped and merged", Options{Passthrough: true, DropBetas: []string{"a"}, Headers: secrets("anthropic-beta", "c")}, http.Header{"Anthropic-Beta": {"a,b"}},
			"Accept-Encoding: identity; Anthropic-Beta: b,c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.have.Clone()
			h := maps.Clone(tc.have) // as failover.go does: the values are shared with the client's header
			New(tc.opt).SetHeaders(h)
			if got := headerText(h); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
			if headerText(tc.have) != headerText(before) {
				t.Errorf("the client's own header has become %s", headerText(tc.have))
			}
		})
	}
}

func TestOptionsAreKept(t *testing.T) {
	u := New(Options{Passthrough: true, DropFields: []string{"thinking", "metadata"}})
	if !u.Passthrough() || !maps.Equal(u.DropFields(), map[string]bool{"thinking": true, "metadata": true}) {
		t.Errorf("%v %v", u.Passthrough(), u.DropFields())
	}
	if u := New(Options{}); u.Passthrough() || u.DropFields() != nil {
		t.Errorf("%v %v", u.Passthrough(), u.DropFields())
	}
}

// What an upstream repeats of the key's secrets is masked, wherever it stands; everything else comes back as it is.
func TestMask(t *testing.T) {
	const team = "team-secret-987"
	u := New(Options{APIKey: auth.NewSecret(key), HeaderName: "x-api-key",
		Headers: secrets("x-team-key", team, "anthropic-beta", "interleaved-thinking-2025-05-14", "user-agent", "coding-proxy/1")})
	for _, tc := range []struct{ text, want string }{
		{"", ""},
		{"nothing of ours", "nothing of ours"},
		{key, "***"},
		{`{"error":{"message":"invalid x-api-key: ` + key + `"}}`, `{"error":{"message":"invalid x-api-key: ***"}}`},
		{key + key + " and " + team + key, "****** and ******"},
		{"only a part: " + key[:len(key)-1], "only a part: " + key[:len(key)-1]},
		{"Bearer " + key, "Bearer ***"},
		{"interleaved-thinking-2025-05-14 coding-proxy/1", "interleaved-thinking-2025-05-14 coding-proxy/1"},
	} {
		in := []byte(tc.text)
		if got := string(u.Mask(in)); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.text, got, tc.want)
		}
		if string(in) != tc.text {
			t.Errorf("%q was changed in place", tc.text)
		}
		h := http.Header{"X-Echo": {tc.text, "plain"}, "Location": {"https://h/?k=" + tc.text}}
		u.MaskHeader(h)
		if h["X-Echo"][0] != tc.want || h["X-Echo"][1] != "plain" || h["Location"][0] != "https://h/?k="+tc.want {
			t.Errorf("header %v", h)
		}
	}
	plain := []byte("plain")
	if got := u.Mask(plain); !bytes.Equal(got, plain) || &got[0] != &plain[0] {
		t.Error("text without secrets is copied")
	}
}

// A secret that begins like another is masked to its end.
func TestMaskOfASecretThatHoldsAnother(t *testing.T) {
	for range 20 { // the order of a map's keys must not matter
		u := New(Options{APIKey: auth.NewSecret("sk-123456"), Headers: secrets("x-other", "sk-123456-and-the-rest", "x-third", "the-rest-of-it")})
		for _, text := range []string{"sk-123456-and-the-rest", "sk-123456"} {
			if got := string(u.Mask([]byte("<" + text + ">"))); got != "<***>" {
				t.Fatalf("%s: %s", text, got)
			}
		}
	}
}

// A short secret would hit ordinary text; an empty one would hit everything.
func TestMaskLeavesShortSecretsAlone(t *testing.T) {
	for _, secret := range []string{"", "k", "1234567"} {
		u := New(Options{APIKey: auth.NewSecret(secret), Headers: secrets("x-team", secret)})
		if got := string(u.Mask([]byte("k 1234567"))); got != "k 1234567" {
			t.Errorf("%q: %q", secret, got)
		}
	}
	u := New(Options{APIKey: auth.NewSecret("12345678")})
	if got := string(u.Mask([]byte("12345678"))); got != "***" {
		t.Errorf("eight characters: %q", got)
	}
}

// Versions and other plain values that a configuration sends along are no secrets: an answer's text must not be
// changed for them.
func TestMaskLeavesPublicHeaderValuesAlone(t *testing.T) {
	u := New(Options{APIKey: auth.NewSecret(key), Headers: secrets("anthropic-version", "2023-06-01", "content-type", "application/json", "accept", "text/event-stream")})
	const text = `{"error":{"message":"anthropic-version 2023-06-01 takes application/json and text/event-stream"}}`
	if got := string(u.Mask([]byte(text))); got != text {
		t.Errorf("%s", got)
	}
	h := http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}}
	u.MaskHeader(h)
	if got := headerText(h); got != "Anthropic-Version: 2023-06-01; Content-Type: application/json" {
		t.Errorf("%s", got)
	}
}

// FuzzMask: no secret is left in what was masked, and text without one is not changed.
func FuzzMask(f *testing.F) {
	u := New(Options{APIKey: auth.NewSecret(key)})
	for _, s := range []string{"", key, key + key, key[:5] + key + key[5:], "***"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		had := bytes.Contains(text, []byte(key))
		got := u.Mask(bytes.Clone(text))
		if had == bytes.Equal(got, text) {
			t.Fatalf("%q: %q", text, got)
		}
		h := http.Header{"X-Echo": {string(text)}}
		u.MaskHeader(h)
		if h["X-Echo"][0] != string(got) {
			t.Fatalf("body %q, header %q", got, h["X-Echo"][0])
		}
	})
}
