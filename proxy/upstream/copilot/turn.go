package copilot

import (
	"bytes"
	"strings"

	"coding-proxy/proxy/rawjson"
)

// turn is what a request's body says of itself. Copilot bills by it, and refuses what does not fit the last message.
type turn struct {
	initiator string // "user" or "agent"
	image     bool   // there is one anywhere in the conversation
}

const (
	byUser  = "user"
	byAgent = "agent"
)

// readTurn follows the last message: a user's own text is the user's turn; a tool's result, or the model's own, the
// agent's. Instructions that stand behind it say nothing. What cannot be read counts as the user's: it is the dearer one.
func readTurn(dialect string, body []byte) turn {
	list := "messages"
	if dialect == openAIResponses {
		list = "input"
	}
	t := turn{initiator: byUser}
	var messages []byte
	_ = rawjson.Walk(body, func(key []byte, f rawjson.Field) error { // what cannot be read is the provider's to refuse
		if string(key) == list {
			messages = f.Value(body)
		}
		return nil
	})
	// Most requests hold no image. Looking for the words is cheap, looking into all parts is not.
	look := false
	for _, sign := range [...]string{`"image`, "_image", "_screenshot"} {
		look = look || bytes.Contains(messages, []byte(sign))
	}
	_ = rawjson.Elements(messages, func(_ int, message []byte) error {
		if who := initiatorOf(dialect, message); who != "" {
			t.initiator = who
		}
		t.image = t.image || look && hasImage(message)
		return nil
	})
	return t
}

// initiatorOf is whose a message is; "" is nobody's.
func initiatorOf(dialect string, message []byte) string {
	switch text(message, "role") {
	case "system", "developer":
		return ""
	case "user":
		if dialect == anthropic && onlyResults(rawjson.Get(message, "content")) {
			return byAgent
		}
		return byUser
	}
	return byAgent
}

// onlyResults reports whether the content of a user's message holds results of tools and nothing else.
func onlyResults(content []byte) bool {
	some, other := false, false
	err := rawjson.Elements(content, func(_ int, block []byte) error {
		if strings.HasSuffix(text(block, "type"), "tool_result") {
			some = true
		} else {
			other = true
		}
		return nil
	})
	return err == nil && some && !other
}

// hasImage looks at the parts of a message, and of results of tools in it.
func hasImage(message []byte) bool {
	switch text(message, "type") {
	case "image", "image_url", "input_image", "computer_screenshot":
		return true
	}
	found := false
	for _, name := range [...]string{"content", "output"} {
		inner := rawjson.Get(message, name)
		if found || len(inner) == 0 {
			continue
		}
		switch inner[0] {
		case '[':
			_ = rawjson.Elements(inner, func(_ int, part []byte) error {
				found = found || hasImage(part)
				return nil
			})
		case '{':
			found = hasImage(inner)
		}
	}
	return found
}

func text(object []byte, name string) string {
	s, _ := rawjson.String(rawjson.Get(object, name))
	return s
}
