package copilot

import (
	"strings"
	"testing"
)

func BenchmarkTurn(b *testing.B) {
	text := strings.Repeat("some text of a conversation, with \\u001b escapes and words. ", 300)
	message := `{"role":"user","content":[{"type":"text","text":"` + text + `"}]},{"role":"assistant","content":[{"type":"text","text":"` + text + `"}]},`
	body := []byte(`{"model":"m","max_tokens":9,"messages":[` + strings.Repeat(message, 25) + `{"role":"user","content":"x"}]}`)
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		readTurn(anthropic, body)
	}
}
