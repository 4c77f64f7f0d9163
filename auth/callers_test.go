package auth

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)

// three are callers with the keys K1, K2 and K3.
func three() *Callers {
	return NewCallers(Options{RequestKeys: []RequestKey{
		{Code: "one", Key: NewSecret("K1-laptop")}, {Code: "two", Key: NewSecret("K2-ci")}, {Code: "three", Key: NewSecret("K3-schlüssel-密钥")},
	}})
}

// headerOf makes headers of name, value, name, value, ….
func headerOf(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Every place in which a key may be, their order, and what is no key. "" is refused.
func TestIdentify(t *testing.T) {
	for _, tc := range []struct {
		name   string
		header http.Header
		query  string
		want   string
	}{
		{"x-proxy-key", headerOf("X-Proxy-Key", "K1-laptop"), "", "one"},
		{"x-api-key", headerOf("X-Api-Key", "K1-laptop"), "", "one"},
		{"bearer", headerOf("Authorization", "Bearer K1-laptop"), "", "one"},
		{"bearer in another case", headerOf("Authorization", "bEARER K1-laptop"), "", "one"},
		{"bearer with blanks", headerOf("Authorization", "Bearer   K1-laptop  "), "", "one"},
		{"x-goog-api-key", headerOf("X-Goog-Api-Key", "K1-laptop"), "", "one"},
		{"query", nil, "key=K1-laptop", "one"},
		{"query among others", nil, "alt=sse&key=K1-laptop&beta=true", "one"},
		{"query, escaped", nil, "key=K3-schl%C3%BCssel-%E5%AF%86%E9%92%A5", "three"},
		{"a key of several bytes a letter", headerOf("X-Api-Key", "K3-schlüssel-密钥"), "", "three"},

		{"the two that Claude Code sends, the first is ours", headerOf("X-Api-Key", "K1-laptop", "Authorization", "Bearer sk-ant-oat-of-the-user"), "", "one"},
		{"the two that Claude Code sends, the second is ours", headerOf("X-Api-Key", "sk-ant-api-of-the-user", "Authorization", "Bearer K1-laptop"), "", "one"},
		{"both are ours: the order decides", headerOf("X-Api-Key", "K1-laptop", "Authorization", "Bearer K2-ci"), "", "one"},
		{"both are ours, the other way round", headerOf("X-Api-Key", "K2-ci", "Authorization", "Bearer K1-laptop"), "", "two"},
		{"x-proxy-key comes before all", headerOf("X-Api-Key", "K1-laptop", "X-Proxy-Key", "K2-ci", "Authorization", "Bearer K1-laptop"), "key=K1-laptop", "two"},
		{"bearer before x-goog-api-key", headerOf("X-Goog-Api-Key", "K2-ci", "Authorization", "Bearer K1-laptop"), "", "one"},
		{"x-goog-api-key before the query", headerOf("X-Goog-Api-Key", "K1-laptop"), "key=K2-ci", "one"},
		{"a header twice", headerOf("X-Api-Key", "unknown", "X-Api-Key", "K2-ci"), "", "two"},
		{"two bearers", headerOf("Authorization", "Bearer unknown", "Authorization", "Bearer K2-ci"), "", "two"},
		{"the query twice", nil, "key=unknown&key=K2-ci", "two"},
		{"an unknown one everywhere, the last is ours", headerOf("X-Proxy-Key", "a", "X-Api-Key", "b", "Authorization", "Bearer c", "X-Goog-Api-Key", "d"), "key=K2-ci", "two"},

		{"nothing", nil, "", ""},
		{"SEC-006 empty x-api-key", headerOf("X-Api-Key", ""), "", ""},
		{"SEC-006 empty bearer", headerOf("Authorization", "Bearer "), "", ""},
		{"SEC-006 bearer without a blank", headerOf("Authorization", "Bearer"), "", ""},
		{"SEC-006 empty query", nil, "key=", ""},
		{"SEC-006 empty everywhere", headerOf("X-Proxy-Key", "", "X-Api-Key", "", "Authorization", "", "X-Goog-Api-Key", ""), "key=&key", ""},
		{"blanks", headerOf("X-Api-Key", "   "), "", ""},
		{"unknown", headerOf("X-Api-Key", "K4"), "", ""},
		{"a prefix", headerOf("X-Api-Key", "K1-lapto"), "", ""},
		{"longer", headerOf("X-Api-Key", "K1-laptop1"), "", ""},
		{"another case", headerOf("X-Api-Key", "k1-laptop"), "", ""},
		{"all at once", headerOf("X-Api-Key", "K1-laptop,K2-ci"), "", ""},
		{"a caller's code is no key", headerOf("X-Api-Key", "one"), "", ""},
		{"basic", headerOf("Authorization", "Basic K1-laptop"), "", ""},
		{"without a scheme", headerOf("Authorization", "K1-laptop"), "", ""},
		{"a cookie", headerOf("Cookie", "key=K1-laptop"), "", ""},
		{"another parameter", nil, "apikey=K1-laptop&monkey=K1-laptop", ""},
		{"a query that cannot be read", nil, "key=K1-laptop&x=%zz", ""},
		{"the mask", headerOf("X-Api-Key", "***"), "", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, err := three().Identify(tc.header, tc.query, now)
			if c.Code != tc.want || (tc.want == "") != errors.Is(err, ErrNoKey) || tc.want != "" && err != nil {
				t.Errorf("%+v, %v; want %q", c, err, tc.want)
			}
		})
	}
}

// SEC-006: a configured empty key is none that can be shown, and it does not leave the door open either.
func TestSEC006EmptyConfiguredKeys(t *testing.T) {
	empty := []http.Header{nil, headerOf("X-Api-Key", ""), headerOf("Authorization", "Bearer "), headerOf("Authorization", "Bearer"), headerOf("X-Proxy-Key", "")}
	for name, keys := range map[string][]RequestKey{
		"beside another": {{Code: "empty", Key: NewSecret("")}, {Code: "one", Key: NewSecret("K1-laptop")}},
		"alone":          {{Code: "empty", Key: NewSecret("")}},
		"zero":           {{Code: "empty"}},
	} {
		c := NewCallers(Options{RequestKeys: keys})
		if c.Open() {
			t.Errorf("%s: request keys are configured, yet everybody may ask", name)
		}
		for _, h := range append(empty, headerOf("X-Api-Key", "anything")) {
			if caller, err := c.Identify(h, "key=", now); !errors.Is(err, ErrNoKey) {
				t.Errorf("%s, %v: let in as %s, %v", name, h, caller.Code, err)
			}
		}
		if c.Known("") {
			t.Errorf("%s: the empty key is known", name)
		}
	}
}

// Without any request key the proxy is open, to whom is for the server to say, and nobody has a name.
func TestOpen(t *testing.T) {
	c := NewCallers(Options{})
	if !c.Open() {
		t.Error("not open")
	}
	caller, err := c.Identify(headerOf("X-Api-Key", "sk-ant-api"), "", now)
	if caller.Code != Anonymous || caller.Limited || err != nil {
		t.Errorf("%+v, %v", caller, err)
	}
	if three().Open() {
		t.Error("open with keys")
	}
}

// A key is refused from the instant on at which it expires.
func TestExpiry(t *testing.T) {
	c := NewCallers(Options{RequestKeys: []RequestKey{
		{Code: "ends", Key: NewSecret("K1-ends"), Expires: now}, {Code: "stays", Key: NewSecret("K2-stays")},
	}})
	for _, tc := range []struct {
		at   time.Time
		want bool
	}{
		{now.Add(-time.Hour), true}, {now.Add(-time.Nanosecond), true}, {now, false}, {now.Add(time.Nanosecond), false}, {now.Add(time.Hour), false},
		{now.Add(-time.Nanosecond).In(time.FixedZone("", 9*3600)), true}, {now.In(time.FixedZone("", -9*3600)), false},
	} {
		caller, err := c.Identify(headerOf("X-Api-Key", "K1-ends"), "", tc.at)
		if caller.Code != "ends" || (err == nil) != tc.want || !tc.want && !errors.Is(err, ErrExpired) {
			t.Errorf("at %s: %+v, %v", tc.at, caller, err)
		}
		if caller, err := c.Identify(headerOf("X-Api-Key", "K2-stays"), "", tc.at); caller.Code != "stays" || err != nil {
			t.Errorf("without expiry at %s: %+v, %v", tc.at, caller, err)
		}
	}
	// http.md: the first that is a known key wins; that it has expired does not make the next one count.
	if caller, err := c.Identify(headerOf("X-Api-Key", "K1-ends", "Authorization", "Bearer K2-stays"), "", now); !errors.Is(err, ErrExpired) {
		t.Errorf("an expired key before a valid one: %+v, %v", caller, err)
	}
}

// Groups fail closed: what is unknown or empty lets nobody in, and no group of a doubtful name is everything.
func TestGroupsFailClosed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		group  string
		groups []Group
		keys   []string
		err    error
	}{
		{"none", "", nil, nil, nil},
		{"none, though there are some", "", []Group{{"cheap", []string{"a"}}}, nil, nil},
		{"known", "cheap", []Group{{"dear", []string{"z"}}, {"cheap", []string{"a", "b"}}}, []string{"a", "b"}, nil},
		{"unknown", "cheap", []Group{{"dear", []string{"z"}}}, nil, ErrGroup},
		{"unknown, no groups at all", "cheap", nil, nil, ErrGroup},
		{"another case", "cheap", []Group{{"Cheap", []string{"a"}}}, nil, ErrGroup},
		{"a blank", " ", []Group{{"", []string{"a"}}}, nil, ErrGroup},
		{"empty", "cheap", []Group{{"cheap", []string{}}}, nil, ErrGroup},
		{"nil", "cheap", []Group{{Name: "cheap"}}, nil, ErrGroup},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := NewCallers(Options{RequestKeys: []RequestKey{{Code: "one", Key: NewSecret("K1-laptop"), Group: tc.group}}, Groups: tc.groups})
			caller, err := c.Identify(headerOf("X-Api-Key", "K1-laptop"), "", now)
			if !errors.Is(err, tc.err) || !slices.Equal(caller.Keys, tc.keys) || caller.Limited != (tc.group != "") {
				t.Errorf("%+v, %v; want %v, %v", caller, err, tc.keys, tc.err)
			}
		})
	}
}

// A caller carries what its key says, and of two keys each its own.
func TestCallerIsTheKeysOwn(t *testing.T) {
	c := NewCallers(Options{
		RequestKeys: []RequestKey{
			{Code: "one", Key: NewSecret("K1-laptop"), Group: "g", Models: []string{"claude-*"}},
			{Code: "two", Key: NewSecret("K2-ci"), Models: []string{"glm-*"}},
		},
		Groups: []Group{{"g", []string{"a"}}},
	})
	one, err := c.Identify(headerOf("X-Api-Key", "K1-laptop"), "", now)
	if err != nil || one.Code != "one" || one.Group != "g" || !one.MayUse("claude-opus-4-8") || one.MayUse("glm-5.1") {
		t.Errorf("%+v, %v", one, err)
	}
	two, err := c.Identify(headerOf("X-Api-Key", "K2-ci"), "", now)
	if err != nil || two.Code != "two" || two.Group != "" || two.Limited || two.MayUse("claude-opus-4-8") || !two.MayUse("glm-5.1") {
		t.Errorf("%+v, %v", two, err)
	}
}

func TestModelGlobs(t *testing.T) {
	for _, tc := range []struct {
		patterns string // separated by blanks
		yes, no  string
	}{
		{"", "anything claude-opus", ""},
		{"claude-opus-4-8", "claude-opus-4-8", "claude-opus-4-8x xclaude-opus-4-8 claude-opus Claude-opus-4-8"},
		{"claude-*", "claude- claude-opus claude-*", "claude xclaude-opus CLAUDE-opus"},
		{"*", "anything x", ""},
		{"**", "anything x", ""},
		{"*-haiku", "claude-haiku -haiku", "haiku claude-haiku-4"},
		{"claude-*-4-*", "claude-opus-4-8 claude--4-", "claude-opus-4 claude-4-8 opus-4-8"},
		{"a*a", "aa aba aaa", "a ab ba"},
		{"*ab*ab*", "abab xabxabx ababab", "ab aab"},
		{"a*b*c", "abc axbxc abbcc", "ac acb abcx"},
		{"glm-* claude-haiku", "glm-5 claude-haiku", "claude-opus"},
		{"m?del", "m?del", "model"},
		{"[a-z]", "[a-z]", "a"},
		{"vendor/*", "vendor/x vendor/x/y", "vendor"},
	} {
		c := Caller{Models: strings.Fields(tc.patterns)}
		for _, m := range strings.Fields(tc.yes) {
			if !c.MayUse(m) {
				t.Errorf("%q refuses %q", tc.patterns, m)
			}
		}
		for _, m := range strings.Fields(tc.no) {
			if c.MayUse(m) {
				t.Errorf("%q allows %q", tc.patterns, m)
			}
		}
	}
	if (Caller{Models: []string{""}}).MayUse("m") || (Caller{Models: []string{"m"}}).MayUse("") {
		t.Error("an empty pattern or name matches")
	}
}

// Known tells the client's own credential from a key of ours: expired ones are ours, too, and must not go upstream.
func TestKnown(t *testing.T) {
	c := NewCallers(Options{RequestKeys: []RequestKey{{Code: "one", Key: NewSecret("K1-laptop"), Expires: now.Add(-time.Hour)}}})
	for text, want := range map[string]bool{"K1-laptop": true, "K1": false, "": false, "one": false, "sk-ant-oat": false} {
		if got := c.Known(text); got != want {
			t.Errorf("%q: known %v", text, got)
		}
	}
}

// SEC-007: near misses of every length, among them cut and foreign bytes, are refused without a panic.
func TestSEC007NearMisses(t *testing.T) {
	const key = "K3-schlüssel-密钥"
	c := three()
	var misses []string
	for i := range len(key) {
		misses = append(misses, key[:i], key[i:]+"x", key[:i]+"\x00"+key[i:], key[:i]+"\xff"+key[i+1:])
	}
	misses = append(misses, strings.Repeat(key, 1000), strings.Repeat("\xe5", 1<<20), "\u0000", "\u202e"+key, "K3-schlu\u0308ssel-密钥")
	for _, m := range misses {
		if c.Known(m) {
			t.Errorf("%.40q is known", m)
		}
		if caller, err := c.Identify(http.Header{"X-Api-Key": {m}, "Authorization": {"Bearer " + m}, "X-Goog-Api-Key": {m}}, "key="+m, now); !errors.Is(err, ErrNoKey) {
			t.Errorf("%.40q is %+v, %v", m, caller, err)
		}
	}
	if !c.Known(key) {
		t.Error("the key itself is unknown")
	}
}

// SEC-007, seen in the source: keys are compared in constant time, and a loop that does so goes on to its end.
func TestSEC007ConstantTime(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "callers.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	calls := func(n ast.Node, name string) bool {
		found := false
		ast.Inspect(n, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
				found = true
			}
			return true
		})
		return found
	}
	secret := func(e ast.Expr) bool { // the text of a key, or its hash
		if c, ok := e.(*ast.CallExpr); ok {
			e = c.Fun
		}
		s, ok := e.(*ast.SelectorExpr)
		return ok && (s.Sel.Name == "Reveal" || s.Sel.Name == "sum")
	}
	compared := false
	ast.Inspect(file, func(n ast.Node) bool {
		var body *ast.BlockStmt
		switch n := n.(type) {
		case *ast.RangeStmt:
			body = n.Body
		case *ast.ForStmt:
			body = n.Body
		case *ast.BinaryExpr:
			if (n.Op == token.EQL || n.Op == token.NEQ) && (secret(n.X) || secret(n.Y)) {
				t.Error("a key is compared with an operator")
			}
		}
		if body == nil || !calls(body, "ConstantTimeCompare") {
			return true
		}
		compared = true
		ast.Inspect(body, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.ReturnStmt, *ast.BranchStmt:
				t.Error("the loop over the keys stops at a hit")
			}
			return true
		})
		return true
	})
	if !compared {
		t.Error("no loop compares with ConstantTimeCompare")
	}
}

// FuzzIdentify: nothing but a configured key identifies anybody.
func FuzzIdentify(f *testing.F) {
	for _, s := range []string{"", "K1-laptop", "Bearer K2-ci", "key=K1-laptop", "\xff", "K3-schlüssel-密钥", "%zz&key=K1-laptop", "key=%"} {
		f.Add(s, s, s)
	}
	c := three()
	f.Fuzz(func(t *testing.T, key, authorization, query string) {
		caller, err := c.Identify(http.Header{"X-Api-Key": {key}, "Authorization": {authorization}}, query, now)
		shown := false
		Shown(http.Header{"X-Api-Key": {key}, "Authorization": {authorization}}, query, func(s string) {
			shown = shown || s == "K1-laptop" || s == "K2-ci" || s == "K3-schlüssel-密钥"
		})
		if shown != (err == nil) || (err == nil) != (caller.Code != "") {
			t.Fatalf("%q %q %q: %+v, %v", key, authorization, query, caller, err)
		}
	})
}
