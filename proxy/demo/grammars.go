package demo

import (
	"bytes"
	"encoding/json"
	"sync"
)

// grammars are read when a request first needs them, once for each provider.
type grammars struct {
	anthropic, chat, responses, gemini, jsonSchema, side func() *grammar
}

func newGrammars() grammars {
	lazily := func(definitions string, proto bool) func() *grammar {
		return sync.OnceValue(func() *grammar { return newGrammar(definitions, proto) })
	}
	return grammars{
		anthropic: lazily(anthropicGrammar, false), chat: lazily(chatGrammar, false), responses: lazily(responsesGrammar, false),
		gemini: lazily(geminiGrammar, true), jsonSchema: lazily(geminiGrammar, false), side: lazily(sideGrammar, false),
	}
}

// indent writes JSON as Google does.
func indent(data string) string {
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(data), "", "  "); err != nil {
		return data
	}
	return b.String()
}
