package auth

import (
	"net/http"
	"net/netip"
	"testing"
)

func ranges(t *testing.T, texts ...string) Addresses {
	t.Helper()
	var l Addresses
	for _, s := range texts {
		p, err := ParseAddresses(s)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		l = append(l, p)
	}
	return l
}

func TestParseAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"192.0.2.7": "192.0.2.7/32", "192.0.2.0/24": "192.0.2.0/24", "0.0.0.0/0": "0.0.0.0/0", "::/0": "::/0",
		"2001:db8::7": "2001:db8::7/128", "2001:db8::/32": "2001:db8::/32",
		"::ffff:192.0.2.7": "192.0.2.7/32", "::ffff:192.0.2.0/120": "192.0.2.0/24", "::ffff:0:0/96": "0.0.0.0/0",
	} {
		if got, err := ParseAddresses(text); err != nil || got.String() != want {
			t.Errorf("%q: %v, %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", " ", "*", "any", "localhost", "192.0.2", "192.0.2.7.1", "192.0.2.256", "192.0.2.07", "192.0.2.7:80", "192.0.2.7/", "192.0.2.0/33", "192.0.2.0/-1",
		"192.0.2.7/24", "2001:db8::7/32", "2001:db8::/129", "fe80::1%eth0", "fe80::%eth0/64", "[::1]", "::ffff:0:0/64", "192.0.2.1-192.0.2.9", " 192.0.2.7",
	} {
		if got, err := ParseAddresses(text); err == nil {
			t.Errorf("%q is taken as %v", text, got)
		}
	}
}

func TestAddressesHas(t *testing.T) {
	l := ranges(t, "192.0.2.0/24", "198.51.100.7", "2001:db8::/32", "fe80::/10")
	for text, want := range map[string]bool{
		"192.0.2.0": true, "192.0.2.255": true, "192.0.3.0": false, "::ffff:192.0.2.9": true, "198.51.100.7": true, "198.51.100.8": false,
		"2001:db8::1": true, "2001:db9::1": false, "fe80::1%eth0": true, "::192.0.2.9": false,
	} {
		if got := l.Has(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if l.Has(netip.Addr{}) || ranges(t, "0.0.0.0/0", "::/0").Has(netip.Addr{}) {
		t.Error("an address that is not known is in a range")
	}
}

func TestClientAddress(t *testing.T) {
	trusted := ranges(t, "127.0.0.1", "10.0.0.0/8", "2001:db8::/32")
	for _, tc := range []struct {
		name, remote string
		header       http.Header
		want         string // "" = cannot be told
	}{
		{"straight", "203.0.113.7:5", nil, "203.0.113.7"},
		{"IPv6", "[2001:db9::7]:5", nil, "2001:db9::7"},
		{"mapped", "[::ffff:203.0.113.7]:5", nil, "203.0.113.7"},
		{"nobody who is trusted says so", "203.0.113.7:5", headerOf("X-Forwarded-For", "127.0.0.1"), "203.0.113.7"},
		{"no address", "@", nil, ""},
		{"the proxy's own", "127.0.0.1:5", nil, "127.0.0.1"},
		{"through one", "127.0.0.1:5", headerOf("X-Forwarded-For", "203.0.113.7"), "203.0.113.7"},
		{"through one that is mapped", "[::ffff:127.0.0.1]:5", headerOf("X-Forwarded-For", "203.0.113.7"), "203.0.113.7"},
		{"the client writes one, too", "127.0.0.1:5", headerOf("X-Forwarded-For", "127.0.0.1, 203.0.113.7"), "203.0.113.7"},
		{"in a header of its own", "127.0.0.1:5", headerOf("X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.7"), "203.0.113.7"},
		{"through two", "127.0.0.1:5", headerOf("X-Forwarded-For", "198.51.100.1, 203.0.113.7, 10.1.2.3"), "203.0.113.7"},
		{"all are trusted", "127.0.0.1:5", headerOf("X-Forwarded-For", "10.0.0.1, 10.0.0.2"), "10.0.0.1"},
		{"with a port", "127.0.0.1:5", headerOf("X-Forwarded-For", "203.0.113.7:4444"), "203.0.113.7"},
		{"IPv6 with a port", "127.0.0.1:5", headerOf("X-Forwarded-For", "[2001:db9::7]:4444"), "2001:db9::7"},
		{"real ip", "127.0.0.1:5", headerOf("X-Real-Ip", "203.0.113.7"), "203.0.113.7"},
		{"two headers that agree", "127.0.0.1:5", headerOf("X-Real-Ip", "203.0.113.7", "X-Forwarded-For", "198.51.100.1,203.0.113.7"), "203.0.113.7"},
		{"two headers that don't", "127.0.0.1:5", headerOf("X-Real-Ip", "203.0.113.7", "X-Forwarded-For", "10.9.9.9"), ""},
		{"RFC 7239", "127.0.0.1:5", headerOf("Forwarded", `for=198.51.100.1, For="[2001:db9::7]:99";proto=https;by=10.0.0.1`), "2001:db9::7"},
		{"RFC 7239, unknown", "127.0.0.1:5", headerOf("Forwarded", "for=unknown"), ""},
		{"RFC 7239, hidden", "127.0.0.1:5", headerOf("Forwarded", "for=_hidden"), ""},
		{"RFC 7239 without for", "127.0.0.1:5", headerOf("Forwarded", "proto=https"), ""},
		{"rubbish", "127.0.0.1:5", headerOf("X-Forwarded-For", "203.0.113.7, what"), ""},
		{"empty", "127.0.0.1:5", headerOf("X-Forwarded-For", ""), ""},
		{"an end that is empty", "127.0.0.1:5", headerOf("X-Forwarded-For", "203.0.113.7,"), ""},
		{"rubbish before what counts", "127.0.0.1:5", headerOf("X-Forwarded-For", "what, 203.0.113.7"), "203.0.113.7"},
		{"a bracket that stays open", "127.0.0.1:5", headerOf("X-Forwarded-For", "[2001:db9::7"), ""},
	} {
		got := ""
		if a := ClientAddress(&http.Request{RemoteAddr: tc.remote, Header: tc.header}, trusted); a.IsValid() {
			got = a.String()
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Whatever the headers say: who is not trusted stays who he is, and who is gets none of the proxies' addresses unless all
// named are trusted.
func FuzzClientAddress(f *testing.F) {
	f.Add("203.0.113.7:1", "10.0.0.1, 203.0.113.9", `for="[2001:db9::7]:9"`, "10.0.0.1")
	f.Add("127.0.0.1:1", "203.0.113.9", "for=203.0.113.9;proto=https", "203.0.113.9")
	trusted := Addresses{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
	f.Fuzz(func(t *testing.T, remote, xff, fwd, real string) {
		r := &http.Request{RemoteAddr: remote, Header: headerOf("X-Forwarded-For", xff, "Forwarded", fwd, "X-Real-Ip", real)}
		got, from := ClientAddress(r, trusted), RemoteAddress(r)
		if !trusted.Has(from) && got != from {
			t.Fatalf("%v, though %v is not trusted", got, from)
		}
		if got.Is4In6() || got.Zone() != "" && trusted.Has(from) {
			t.Fatalf("%v is not in its plain form", got)
		}
	})
}

// Refusal by address: denied before allowed, an unknown address is refused by any rule.
func TestMayCome(t *testing.T) {
	for _, tc := range []struct {
		allow, deny []string
		address     string
		want        bool
	}{
		{nil, nil, "203.0.113.7", true},
		{nil, nil, "", true},
		{[]string{"203.0.113.0/24"}, nil, "203.0.113.7", true},
		{[]string{"203.0.113.0/24"}, nil, "203.0.114.7", false},
		{[]string{"203.0.113.0/24"}, nil, "::ffff:203.0.113.7", true},
		{[]string{"203.0.113.0/24"}, []string{"203.0.113.7"}, "203.0.113.7", false},
		{nil, []string{"203.0.113.7"}, "203.0.113.7", false},
		{nil, []string{"203.0.113.7"}, "203.0.113.8", true},
		{nil, []string{"203.0.113.7"}, "", false},
		{[]string{"0.0.0.0/0", "::/0"}, nil, "", false},
		{[]string{"0.0.0.0/0"}, nil, "2001:db8::1", false},
	} {
		c := NewCallers(Options{AllowAddresses: ranges(t, tc.allow...), DenyAddresses: ranges(t, tc.deny...)})
		var a netip.Addr
		if tc.address != "" {
			a = netip.MustParseAddr(tc.address)
		}
		if got := c.MayCome(a); got != tc.want {
			t.Errorf("allow %v, deny %v, from %q: %v", tc.allow, tc.deny, tc.address, got)
		}
	}
}
