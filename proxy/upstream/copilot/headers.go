package copilot

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
)

// The dialects of Copilot's endpoints, as configurations name them.
const (
	anthropic       = "anthropic"
	openAIChat      = "openai-chat"
	openAIResponses = "openai-responses"
)

// apiVersion is the version of GitHub's API that is spoken here.
const apiVersion = "2025-04-01"

// dialectOf names the dialect of a path below which answers are asked for; "" is another endpoint.
func dialectOf(path string) string {
	switch {
	case strings.HasPrefix(path, "/v1/messages"):
		return anthropic
	case path == "/v1/chat/completions":
		return openAIChat
	case strings.HasPrefix(path, "/v1/responses"):
		return openAIResponses
	}
	return ""
}

// name puts in who is asking: this program, by its own name. The integration is one of those that Copilot knows; it
// refuses all others.
func (p *Provider) name(h http.Header) {
	self := "coding-proxy/" + p.opt.Version
	h.Set("User-Agent", self)
	h.Set("Editor-Version", self)
	h.Set("Editor-Plugin-Version", self)
	h.Set("Copilot-Integration-Id", "vscode-chat")
	h.Set("X-Github-Api-Version", apiVersion)
	h.Set("X-Request-Id", newUUID())
}

// intend says what the request is: on whose initiative, and whether there is something to see.
func intend(h http.Header, dialect string, body []byte) {
	h.Del("X-Initiator") // never what a client says of itself: it decides what is billed
	h.Del("Copilot-Vision-Request")
	if dialect == "" || body == nil {
		return
	}
	intent := "conversation-agent"
	if dialect == anthropic {
		intent = "messages-proxy"
	}
	h.Set("Openai-Intent", intent)
	t := readTurn(dialect, body)
	h.Set("X-Initiator", t.initiator)
	if t.image {
		h.Set("Copilot-Vision-Request", "true")
	}
}

// dropForeign takes out what a client has sent for its own provider.
func dropForeign(h http.Header, dialect string) {
	for name := range h {
		lower := strings.ToLower(name)
		switch {
		case dialect == anthropic && (lower == "anthropic-version" || lower == "anthropic-beta"):
		case strings.HasPrefix(lower, "anthropic-"), strings.HasPrefix(lower, "openai-"), strings.HasPrefix(lower, "x-goog-"),
			strings.HasPrefix(lower, "chatgpt-"), lower == "x-api-key", lower == "api-key", lower == "authorization", lower == "proxy-authorization", lower == "cookie":
			delete(h, name)
		}
	}
}

// newUUID returns a random UUID, version 4.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
