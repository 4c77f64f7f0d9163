package estimate

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// FuzzAnthropic: whatever the body, there is a *FieldError and no count, or a count over 0 that a message more raises.
func FuzzAnthropic(f *testing.F) {
	for _, body := range bodies(f) {
		f.Add(body)
	}
	f.Add([]byte(oneMessage(`[{"type":"document","source":{"type":"base64","data":"JVBERi0xLjQ="}},{"type":"redacted_thinking","data":"AAAA"}]`)))
	f.Add([]byte(oneMessage(`[{"type":"hologram","a":"\ud83d\ude00 \\ \" 你","b":[1e9,true,null]}]`)))
	f.Fuzz(func(t *testing.T, body []byte) {
		n, err := Anthropic(body)
		if err != nil {
			field, ok := err.(*FieldError)
			if !ok || field.Field == "" || field.Problem == "" || n != 0 {
				t.Fatalf("%d, %#v", n, err)
			}
			return
		}
		if n <= 0 {
			t.Fatalf("%d tokens", n)
		}
		var r struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := json.Unmarshal(body, &r); err != nil {
			t.Fatalf("counted, yet %v", err)
		}
		more, err := json.Marshal(struct {
			Messages []json.RawMessage `json:"messages"`
		}{append(r.Messages, json.RawMessage(`{"role":"user","content":"hi"}`))})
		if err != nil {
			t.Fatal(err)
		}
		// Without system and tools the rest of the body is messages alone.
		less, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if a, b := count(t, string(less)), count(t, string(more)); a > n || b <= a {
			t.Fatalf("%d tokens, %d by the messages alone, %d with one more", n, a, b)
		}
	})
}

// FuzzImageSize: a size is none or two positive numbers, and Image keeps its bounds.
func FuzzImageSize(f *testing.F) {
	for _, format := range []string{"png", "jpeg", "gif"} {
		f.Add(encoded(f, format)[:400])
	}
	f.Add(withExif(encoded(f, "jpeg"), 500)[:900])
	for _, file := range webpFiles() {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		w, h := imageSize(bytes.NewReader(file))
		if w < 0 || h < 0 || (w == 0) != (h == 0) {
			t.Fatalf("%d by %d", w, h)
		}
		if n := Image(w, h); n < 1 || n > maxImage {
			t.Fatalf("%d tokens", n)
		}
	})
}

// FuzzText: some tokens for some text, no more than three a character, and no less for twice the text.
func FuzzText(f *testing.F) {
	for _, text := range []string{prose, goCode, jsonText, "你好 мир 🎉🚀 ──── É", "\xff\xfe\x00", strings.Repeat(" \n", 9)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n := Text(text)
		if n < 0 || (n == 0) != (text == "") || n > 3*len(text) {
			t.Fatalf("%d tokens for %d bytes", n, len(text))
		}
		if twice := Text(text + text); twice < n {
			t.Fatalf("%d tokens, %d twice over", n, twice)
		}
	})
}
