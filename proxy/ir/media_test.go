package ir

import (
	"fmt"
	"testing"
)

func TestMediaAt(t *testing.T) {
	for address, want := range map[string]string{
		"https://x.test/a.png":                "{  https://x.test/a.png  } true",
		"data:image/JPG;base64,/9j_4A":        "{image/jpeg /9j/4A==   } true",
		"DATA:text/plain;charset=utf-8,a%20b": "{text/plain YSBi   } true",
		"data:;name=x;base64,iVBO\nRw0K":      "{ iVBORw0K   } true",
		"data:image/png;base64,":              "{image/png    } false",
		"data:image/png":                      "{image/png    } false",
		"data:text/plain,%zz":                 "{text/plain    } false",
	} {
		m, ok := MediaAt(address)
		if got := fmt.Sprint(m, ok); got != want {
			t.Errorf("%q: %s, want %s", address, got, want)
		}
	}
}

func TestMediaType(t *testing.T) {
	for m, want := range map[Media]string{
		{MIME: "image/PNG; q=1", Data: "/9j/"}:               "image/png",
		{Data: "/9j/4AAQ"}:                                   "image/jpeg",
		{MIME: "application/octet-stream", Data: "JVBERi0="}: "application/pdf",
		{MIME: "image/*", Data: "UklGRg=="}:                  "image/webp",
		{MIME: "application/octet-stream", Data: "AAAA"}:     "application/octet-stream",
		{Data: "AAAA"}: "",
	} {
		if got := m.Type(); got != want {
			t.Errorf("%v: %q, want %q", m, got, want)
		}
	}
}
