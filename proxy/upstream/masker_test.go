package upstream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/auth"
)

// masked sends a text through in pieces.
func masked(t *testing.T, m *Masker, pieces ...string) string {
	t.Helper()
	var out strings.Builder
	write := func(b []byte) error { out.Write(b); return nil }
	for _, p := range pieces {
		if err := m.Mask([]byte(p), write); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.End(write); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// However a text is cut, it is masked as if it had come whole; nothing else of it changes.
func TestMaskerOfPieces(t *testing.T) {
	u := New(Options{APIKey: auth.NewSecret("key-12345678"), Headers: map[string]auth.Secret{"X-More": auth.NewSecret("key-12345678-longer")},
		Endpoints: []Endpoint{{Protocol: Anthropic}}}, Env{})
	shown := http.Header{"Authorization": {"Bearer clients-own-token"}, "X-Api-Key": {"short"}, "X-Goog-Api-Key": {"goog-12345678"}}
	for text, want := range map[string]string{
		"":                           "",
		"nothing short to hide":      "nothing short to hide",
		"key-12345678":               "***",
		"a key-12345678 b":           "a *** b",
		"key-12345678-longer":        "***",
		"key-12345678-longkey-12345": "***-longkey-12345",
		"key-12345678key-12345678":   "******",
		"key-1234567key-12345678":    "key-1234567***",
		"x clients-own-token, goog-12345678; Bearer clients-own-toke": "x ***, ***; Bearer clients-own-toke",
	} {
		for i := range len(text) + 1 {
			for j := i; j <= len(text); j++ {
				if got := masked(t, u.Masker(shown), text[:i], text[i:j], text[j:]); got != want {
					t.Fatalf("%q, %q, %q: %q, want %q", text[:i], text[i:j], text[j:], got, want)
				}
			}
		}
	}
}

// A secret is masked in the forms that JSON and addresses give it.
func TestMaskForms(t *testing.T) {
	u := New(Options{APIKey: auth.NewSecret("sk/abc+d<ef>&g="), Endpoints: []Endpoint{{Protocol: Anthropic}}}, Env{})
	shown := http.Header{"Authorization": {"Bearer ya29/tok=en"}}
	const text = `raw sk/abc+d<ef>&g= slashed sk\/abc+d<ef>&g= json sk/abc+d\u003cef\u003e\u0026g= both sk\/abc+d\u003cef\u003e\u0026g= address sk%2Fabc%2Bd%3Cef%3E%26g%3D`
	const want = "raw *** slashed *** json *** both *** address ***"
	if got := string(u.Mask([]byte(text))); got != want {
		t.Errorf("Mask: %s", got)
	}
	if got := masked(t, u.Masker(shown), text, `; ya29/tok=en ya29\/tok=en`); got != want+"; *** ***" {
		t.Errorf("Masker: %s", got)
	}
	if n := len(forms("sk-ant-api03-plain_key")); n != 1 {
		t.Errorf("a plain key has %d forms", n)
	}
}

// Random texts over few letters, against a search from each place.
func TestMaskerAgainstSearch(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	letters := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[r.IntN(2)]
		}
		return string(b)
	}
	for range 3000 {
		m := &Masker{}
		for range 1 + r.IntN(3) {
			s := letters(2 + r.IntN(4))
			m.secrets, m.hold = append(m.secrets, []byte(s)), max(m.hold, len(s)-1)
		}
		text := letters(r.IntN(40))
		var want strings.Builder
		for at := 0; at < len(text); {
			long := 0
			for _, s := range m.secrets {
				if strings.HasPrefix(text[at:], string(s)) {
					long = max(long, len(s))
				}
			}
			if long == 0 {
				want.WriteByte(text[at])
				long = 1
			} else {
				want.WriteString("***")
			}
			at += long
		}
		var pieces []string
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		if got := masked(t, m, pieces...); got != want.String() {
			t.Fatalf("secrets %q, pieces %q: %q, want %q", m.secrets, pieces, got, want.String())
		}
	}
}

// What waits is never more than a secret less a byte, and an error ends it.
func TestMaskerIsBounded(t *testing.T) {
	u := New(Options{APIKey: auth.NewSecret("key-12345678"), Endpoints: []Endpoint{{Protocol: Anthropic}}}, Env{})
	m := u.Masker(nil)
	in, out := 0, 0
	piece := bytes.Repeat([]byte("key-1234567"), 1000)
	for range 100 {
		in += len(piece)
		if err := m.Mask(piece, func(b []byte) error { out += len(b); return nil }); err != nil {
			t.Fatal(err)
		}
		if in-out > 11 || cap(m.buf) > 4*len(piece) {
			t.Fatalf("%d bytes wait, %d are held", in-out, cap(m.buf))
		}
	}
	full := fmt.Errorf("full")
	if err := m.Mask(piece, func([]byte) error { return full }); err != full {
		t.Errorf("error: %v", err)
	}
}
