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

// build is New for providers that need no sign-in.
func build(o Options) *Upstream { return New(o, Env{}) }

func parse(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// A base URL and a request's path become one address; the version that the base ends in stands for the path's.
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
		{"https://open.bigmodel.cn/api/paas/v4", "/v1/chat/completions", "", "https://open.bigmodel.cn/api/paas/v4/chat/completions"},
		{"https://api.openai.com/v1", "/v1/responses", "", "https://api.openai.com/v1/responses"},
		{"https://openrouter.ai/api/v1/", "/v1/chat/completions", "", "https://openrouter.ai/api/v1/chat/completions"},
		{"https://g/v1beta", "/v1/models/x:generateContent", "", "https://g/v1beta/models/x:generateContent"},
		{"https://g", "/v1beta/models/x:generateContent", "", "https://g/v1beta/models/x:generateContent"},
		{"https://h/v1", "/v1beta/models", "", "https://h/v1/models"},
		{"https://h/v1", "/v10/messages", "", "https://h/v1/messages"},
		{"https://h/v1.1", "/v1/messages", "", "https://h/v1.1/messages"},
		{"https://h/v1", "/v1", "", "https://h/v1/v1"},
		{"https://h/v1", "/v1/", "", "https://h/v1/"},
		{"https://h/v1", "/messages", "", "https://h/v1/messages"},
		{"https://h/v1", "/api/v1/messages", "", "https://h/v1/api/v1/messages"},
		{"https://h/v1", "/v1/v1/messages", "", "https://h/v1/v1/messages"},
		{"https://h/v1beta", "/v1internal:generateContent/x", "", "https://h/v1beta/v1internal:generateContent/x"},
		{"https://h/v1", "/video/x", "", "https://h/v1/video/x"},
		{"https://h/v1", "/v1%2Fx/messages", "", "https://h/v1/v1%2Fx/messages"},
		{"https://h/v1x%2F", "/v1/messages", "", "https://h/v1x%2F/v1/messages"},
		{"https://h/dev1", "/v1/messages", "", "https://h/dev1/v1/messages"},
		{"https://h/v1/x", "/v1/messages", "", "https://h/v1/x/v1/messages"},
		{"https://h/messages", "/messages/x", "", "https://h/messages/messages/x"},
		{"https://h/v.1", "/v1/messages", "", "https://h/v.1/v1/messages"},
		{"https://h/v", "/v/messages", "", "https://h/v/v/messages"},
		{"http://127.0.0.1:8080/a/b", "/v1/messages", "", "http://127.0.0.1:8080/a/b/v1/messages"},
		{"http://[::1]:8080", "/v1/messages", "", "http://[::1]:8080/v1/messages"},
		{"https://h/with%20blank", "/v1/messages", "", "https://h/with%20blank/v1/messages"},
		{"https://h/v1", "/v1/models/a%20b%2Fc", "", "https://h/v1/models/a%20b%2Fc"},
		{"https://h/v1beta", "/v1beta/models/a%2Fb%3A:generateContent", "", "https://h/v1beta/models/a%2Fb%3A:generateContent"},
		{"https://h", "/v1/models/a!b(c)%41", "", "https://h/v1/models/a!b(c)%41"},
		{"https://h", "/v1beta/models/a%2Fb", "alt=sse", "https://h/v1beta/models/a%2Fb?alt=sse"},
		{"https://h/accounts%2Fone", "/v1/messages", "", "https://h/accounts%2Fone/v1/messages"},
	} {
		base := parse(t, tc.base)
		before := *base
		u := build(Options{Endpoints: []Endpoint{{Protocol: Anthropic, BaseURL: base}}})
		if got := u.URL(u.Endpoint(Anthropic), tc.path, tc.query).String(); got != tc.want {
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

// What a key puts into a request's headers, at its one endpoint.
func TestSetHeaders(t *testing.T) {
	own := http.Header{"X-Api-Key": {"the client's own"}}
	at := func(e Endpoint, o Options) Options {
		o.Endpoints = []Endpoint{e}
		return o
	}
	keyed := func(protocol, name, prefix string) Options {
		return at(Endpoint{Protocol: protocol, HeaderName: name, HeaderPrefix: prefix}, Options{APIKey: auth.NewSecret(key)})
	}
	passing := func(o Options) Options {
		o.Passthrough = true
		return at(Endpoint{Protocol: Anthropic, HeaderName: "x-api-key"}, o)
	}
	chat := func(o Options) Options { return at(Endpoint{Protocol: OpenAIChat}, o) }
	for _, tc := range []struct {
		name string
		opt  Options
		have http.Header
		want string
	}{
		{"x-api-key", keyed(Anthropic, "x-api-key", ""), http.Header{"User-Agent": {"claude-cli/2"}},
			"Accept-Encoding: identity; User-Agent: claude-cli/2; X-Api-Key: " + key},
		{"bearer", keyed(OpenAIChat, "authorization", "Bearer "), http.Header{},
			"Accept-Encoding: identity; Authorization: Bearer " + key},
		{"a header of its own", keyed(Gemini, "x-goog-api-key", "key="), http.Header{},
			"Accept-Encoding: identity; X-Goog-Api-Key: key=" + key},
		{"the key replaces what is there", keyed(Anthropic, "x-api-key", ""), own,
			"Accept-Encoding: identity; X-Api-Key: " + key},
		{"a provider that asks for no key", chat(Options{}), http.Header{}, "Accept-Encoding: identity"},
		{"passthrough", passing(Options{}), own, "Accept-Encoding: identity; X-Api-Key: the client's own"},
		{"passthrough of nothing", passing(Options{}), http.Header{}, "Accept-Encoding: identity"},
		{"encoding is ours", passing(Options{}), http.Header{"Accept-Encoding": {"gzip", "br"}}, "Accept-Encoding: identity"},
		{"configured headers replace", passing(Options{Headers: secrets("user-agent", "ours", "x-team", "blue")}),
			http.Header{"User-Agent": {"theirs"}, "Anthropic-Version": {"2023-06-01"}},
			"Accept-Encoding: identity; Anthropic-Version: 2023-06-01; User-Agent: ours; X-Team: blue"},
		{"another dialect's betas replace, too", chat(Options{Headers: secrets("anthropic-beta", "c"), DropBetas: []string{"c"}}),
			http.Header{"Anthropic-Beta": {"a"}}, "Accept-Encoding: identity; Anthropic-Beta: c"},
		{"another dialect's betas are not dropped", chat(Options{DropBetas: []string{"a"}}),
			http.Header{"Anthropic-Beta": {"a,b"}}, "Accept-Encoding: identity; Anthropic-Beta: a,b"},

		{"betas pass", passing(Options{}), http.Header{"Anthropic-Beta": {"a,b", "c"}}, "Accept-Encoding: identity; Anthropic-Beta: a,b | c"},
		{"betas are merged", passing(Options{Headers: secrets("anthropic-beta", "b, c")}), http.Header{"Anthropic-Beta": {"a,b"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,b,c"},
		{"betas of several lines are merged", passing(Options{Headers: secrets("Anthropic-Beta", "c,d")}), http.Header{"Anthropic-Beta": {"a, b", " c ,"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,b,c,d"},
		{"betas where the client has none", passing(Options{Headers: secrets("anthropic-beta", "c")}), http.Header{}, "Accept-Encoding: identity; Anthropic-Beta: c"},
		{"the same beta configured twice", passing(Options{Headers: secrets("anthropic-beta", "c,c")}), http.Header{}, "Accept-Encoding: identity; Anthropic-Beta: c"},
		{"no beta configured is no header", passing(Options{Headers: secrets("anthropic-beta", " ")}), http.Header{}, "Accept-Encoding: identity"},
		{"dropped betas", passing(Options{DropBetas: []string{"b", "x"}}), http.Header{"Anthropic-Beta": {"a,b", "c, b"}},
			"Accept-Encoding: identity; Anthropic-Beta: a,c"},
		{"all betas dropped", passing(Options{DropBetas: []string{"a", "b"}}), http.Header{"Anthropic-Beta": {"a,b"}}, "Accept-Encoding: identity"},
		{"dropped is exact", passing(Options{DropBetas: []string{"a"}}), http.Header{"Anthropic-Beta": {"a1,A,aa"}}, "Accept-Encoding: identity; Anthropic-Beta: a1,A,aa"},
		{"dropped and merged", passing(Options{DropBetas: []string{"a"}, Headers: secrets("anthropic-beta", "c")}), http.Header{"Anthropic-Beta": {"a,b"}},
			"Accept-Encoding: identity; Anthropic-Beta: b,c"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := tc.have.Clone()
			h := maps.Clone(tc.have) // as failover.go does: the values are shared with the client's header
			u := build(tc.opt)
			u.SetHeaders(h, u.Endpoint(Anthropic))
			if got := headerText(h); got != tc.want {
				t.Errorf("%s\nwant %s", got, tc.want)
			}
			if headerText(tc.have) != headerText(before) {
				t.Errorf("the client's own header has become %s", headerText(tc.have))
			}
		})
	}
}

// A client is served in its own dialect where that is spoken, else in the first one.
func TestEndpoint(t *testing.T) {
	for _, tc := range []struct {
		has    []string
		client string
		want   string
	}{
		{[]string{Gemini}, Gemini, Gemini},
		{[]string{Gemini}, Anthropic, Gemini},
		{[]string{Gemini, OpenAIChat}, Anthropic, Gemini},
		{[]string{OpenAIChat, OpenAIResponses}, Gemini, OpenAIChat},
		{[]string{OpenAIChat, OpenAIResponses}, OpenAIChat, OpenAIChat},
		{[]string{Gemini, OpenAIChat, OpenAIResponses, Anthropic}, "", Gemini},
		{[]string{Gemini, OpenAIChat, OpenAIResponses, Anthropic}, OpenAIResponses, OpenAIResponses},
		{[]string{"later", Gemini}, Anthropic, "later"},
	} {
		var o Options
		for _, p := range tc.has {
			o.Endpoints = append(o.Endpoints, Endpoint{Protocol: p, BaseURL: parse(t, "https://h/"+p), HeaderName: "x-" + p})
		}
		u := build(o)
		e := u.Endpoint(tc.client)
		if e.Protocol != tc.want || u.URL(e, "/x", "").String() != "https://h/"+tc.want+"/x" {
			t.Errorf("%v for a client of %q: %+v, want %s", tc.has, tc.client, e, tc.want)
		}
		if got, want := u.Speaks(tc.client), slices.Contains(tc.has, tc.client); got != want {
			t.Errorf("%v speaks %q: %v", tc.has, tc.client, got)
		}
		if o.Endpoints[0].Protocol != tc.has[0] || o.Endpoints[0].HeaderName != "x-"+tc.has[0] {
			t.Errorf("the options have become %+v", o.Endpoints)
		}
	}
}

// A base for OpenAI's clients is complete: a version anywhere in it stands for the path's.
func TestVersionInTheMiddle(t *testing.T) {
	for _, tc := range [][3]string{
		{OpenAIChat, "https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"},
		{OpenAIResponses, "https://h/v1/gateway/x", "https://h/v1/gateway/x/chat/completions"},
		{OpenAIChat, "https://h/api", "https://h/api/v1/chat/completions"},
		{Anthropic, "https://h/v1/x", "https://h/v1/x/v1/chat/completions"},
	} {
		u := build(Options{Endpoints: []Endpoint{{Protocol: tc[0], BaseURL: parse(t, tc[1])}}})
		if got := u.URL(u.Endpoint(tc[0]), "/v1/chat/completions", "").String(); got != tc[2] {
			t.Errorf("%s of %s: %s", tc[0], tc[1], got)
		}
	}
}

// Each endpoint has its own header for the one key.
func TestHeadersOfEndpoints(t *testing.T) {
	u := build(Options{APIKey: auth.NewSecret(key), Headers: secrets("anthropic-beta", "c"), Endpoints: []Endpoint{
		{Protocol: OpenAIChat, HeaderName: "authorization", HeaderPrefix: "Bearer "},
		{Protocol: Anthropic, HeaderName: "x-api-key"},
	}})
	for dialect, want := range map[string]string{
		Anthropic:  "Accept-Encoding: identity; Anthropic-Beta: a,c; X-Api-Key: " + key,
		OpenAIChat: "Accept-Encoding: identity; Anthropic-Beta: c; Authorization: Bearer " + key,
		Gemini:     "Accept-Encoding: identity; Anthropic-Beta: c; Authorization: Bearer " + key,
	} {
		h := http.Header{"Anthropic-Beta": {"a"}}
		if u.SetHeaders(h, u.Endpoint(dialect)); headerText(h) != want {
			t.Errorf("%s: %s\nwant %s", dialect, headerText(h), want)
		}
	}
}

func TestOptionsAreKept(t *testing.T) {
	u := build(Options{Passthrough: true, DropFields: []string{"thinking", "metadata"}})
	if !u.Passthrough() || !maps.Equal(u.DropFields(), map[string]bool{"thinking": true, "metadata": true}) {
		t.Errorf("%v %v", u.Passthrough(), u.DropFields())
	}
	if u := build(Options{}); u.Passthrough() || u.DropFields() != nil {
		t.Errorf("%v %v", u.Passthrough(), u.DropFields())
	}
}

// What an upstream repeats of the key's secrets is masked, wherever it stands; everything else comes back as it is.
func TestMask(t *testing.T) {
	const team = "team-secret-987"
	u := build(Options{APIKey: auth.NewSecret(key),
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
		u := build(Options{APIKey: auth.NewSecret("sk-123456"), Headers: secrets("x-other", "sk-123456-and-the-rest", "x-third", "the-rest-of-it")})
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
		u := build(Options{APIKey: auth.NewSecret(secret), Headers: secrets("x-team", secret)})
		if got := string(u.Mask([]byte("k 1234567"))); got != "k 1234567" {
			t.Errorf("%q: %q", secret, got)
		}
	}
	u := build(Options{APIKey: auth.NewSecret("12345678")})
	if got := string(u.Mask([]byte("12345678"))); got != "***" {
		t.Errorf("eight characters: %q", got)
	}
}

// Versions and other plain values that a configuration sends along are no secrets: an answer's text must not be
// changed for them.
func TestMaskLeavesPublicHeaderValuesAlone(t *testing.T) {
	u := build(Options{APIKey: auth.NewSecret(key), Headers: secrets("anthropic-version", "2023-06-01", "content-type", "application/json", "accept", "text/event-stream")})
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
	u := build(Options{APIKey: auth.NewSecret(key)})
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

// FuzzURL: whatever the path, the address stays below the base, and no escape is undone or doubled.
func FuzzURL(f *testing.F) {
	for _, s := range []string{"/v1/messages", "/v1beta/models/a%2Fb:generateContent", "/v1", "/v1/", "/v1%2Fx/y", "/%761/x"} {
		f.Add("/api/v4", s)
		f.Add("", s)
		f.Add("/a%2Fb", s)
	}
	f.Fuzz(func(t *testing.T, prefix, path string) {
		base, err := url.Parse("https://h" + prefix)
		in, err2 := url.Parse("https://h" + path)
		if err != nil || err2 != nil || base.Host != "h" || in.Host != "h" || in.EscapedPath() != path || !strings.HasPrefix(path, "/") ||
			strings.HasSuffix(prefix, "/") || base.EscapedPath() != prefix {
			return
		}
		u := build(Options{Endpoints: []Endpoint{{Protocol: Gemini, BaseURL: base}}})
		got := u.URL(u.Endpoint(Gemini), path, "").EscapedPath()
		rest, below := strings.CutPrefix(got, prefix)
		if !below || !strings.HasSuffix(path, rest) || !strings.HasPrefix(rest, "/") {
			t.Fatalf("%q and %q: %q", prefix, path, got)
		}
	})
}
