package copilot

import "testing"

func listOf(ids ...string) []Model {
	var list []Model
	for _, id := range ids {
		list = append(list, Model{ID: id})
	}
	return list
}

func TestResolve(t *testing.T) {
	list := listOf("claude-sonnet-4", "claude-sonnet-4.5", "claude-opus-4.6", "claude-opus-4.7-fast", "claude-haiku-4.5", "claude-3.7-sonnet", "gpt-4o", "gpt-4o-mini", "gpt-5",
		"gpt-5-mini", "gpt-5.1-codex", "gpt-5.2-codex", "gemini-2.5-pro", "o4-mini", "grok-code-fast-1", "text-embedding-3-small", "gemini-3-pro-preview")
	for name, want := range map[string]string{
		"claude-sonnet-4.5":           "claude-sonnet-4.5",
		"claude-sonnet-4-5":           "claude-sonnet-4.5",
		"claude-sonnet-4-5-20250929":  "claude-sonnet-4.5",
		"claude-sonnet-4-5@20250929":  "claude-sonnet-4.5",
		"claude-sonnet-4-5[1m]":       "claude-sonnet-4.5",
		"anthropic/claude-sonnet-4.5": "claude-sonnet-4.5",
		"Claude Sonnet 4.5":           "claude-sonnet-4.5",
		"claude-sonnet-4-20250514":    "claude-sonnet-4",
		"claude-sonnet-4-0":           "claude-sonnet-4",
		"claude-sonnet-4-9":           "claude-sonnet-4.5", // same major
		"claude-sonnet-5-5":           "claude-sonnet-4.5", // the family's highest
		"claude-sonnet":               "claude-sonnet-4.5",
		"claude-3-7-sonnet-20250219":  "claude-3.7-sonnet",
		"claude-3-5-sonnet-latest":    "claude-3.7-sonnet",
		"claude-opus-4-1":             "claude-opus-4.6", // not the fast one
		"claude-opus-4-1-fast":        "claude-opus-4.7-fast",
		"claude-haiku-5":              "claude-haiku-4.5",
		"claude-haiku-4-5-thinking":   "claude-haiku-4.5",
		"gpt-4o-2024-08-06":           "gpt-4o",
		"gpt-5.5":                     "gpt-5",
		"gpt-5-codex":                 "gpt-5.2-codex",
		"gpt-5.1-codex":               "gpt-5.1-codex",
		"gemini-2.5-pro-preview":      "gemini-2.5-pro",
		"gemini-3-pro":                "gemini-3-pro-preview",
		"grok-code-fast-1":            "grok-code-fast-1",
		// Never another family.
		"gpt-5-nano":              "gpt-5-nano",
		"gpt-4o-audio":            "gpt-4o-audio",
		"gpt-5.1-codex-max":       "gpt-5.1-codex-max",
		"claude-fable-5-20260101": "claude-fable-5",
		"o4":                      "o4",
		"openai/o3":               "o3",
		"":                        "",
		"/":                       "",
	} {
		if got, _ := resolve(list, name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	for name, want := range map[string]string{"claude-sonnet-4-5-20250929": "claude-sonnet-4.5", "claude-3-5-haiku-20241022": "claude-3.5-haiku",
		"claude-opus-4-6-fast": "claude-opus-4.6-fast", "gpt-4o-2024-08-06": "gpt-4o-2024-08-06", "claude-sonnet": "claude-sonnet"} {
		if got, entry := resolve(nil, name); got != want || entry != nil {
			t.Errorf("without a list %s: %s, want %s", name, got, want)
		}
	}
	off := listOf("claude-sonnet-4", "claude-sonnet-4.5")
	off[1].Disabled = true
	if got, _ := resolve(off, "claude-sonnet-4-5"); got != "claude-sonnet-4" {
		t.Errorf("a model that is switched off was taken: %s", got)
	}
}

func TestEndpointFor(t *testing.T) {
	at := func(paths ...string) *Model { return &Model{Endpoints: paths} }
	for _, test := range []struct {
		entry               *Model
		name, dialect, want string
	}{
		{at("/chat/completions", "/v1/messages"), "x", anthropic, anthropic},
		{at("/chat/completions", "/v1/messages"), "x", openAIChat, openAIChat},
		{at("/chat/completions", "/v1/messages"), "x", openAIResponses, anthropic},
		{at("/chat/completions", "/v1/messages"), "x", "gemini", anthropic},
		{at("/responses"), "claude", anthropic, openAIResponses},
		{at("/chat/completions", "/responses", "ws:/responses"), "x", "gemini", openAIResponses},
		{at("/chat/completions"), "gpt-5", openAIResponses, openAIChat},
		{at("ws:/responses"), "gpt-4o", anthropic, openAIChat},
		{at(), "claude-sonnet-4.5", openAIChat, anthropic},
		{nil, "claude-sonnet-4.5", openAIChat, anthropic},
		{nil, "claude-3.7-sonnet", "gemini", anthropic},
		{nil, "gpt-5", openAIChat, openAIResponses},
		{nil, "gpt-5.1-codex-max", anthropic, openAIResponses},
		{nil, "gpt-6.2-sol", anthropic, openAIResponses},
		{nil, "codex-mini", openAIChat, openAIResponses},
		{nil, "gpt-4.1", anthropic, openAIChat},
		{nil, "gpt-4o", openAIResponses, openAIChat},
		{nil, "gemini-2.5-pro", "gemini", openAIChat},
		{nil, "o4-mini", anthropic, openAIChat},
		{nil, "", anthropic, openAIChat},
	} {
		if got := endpointFor(test.entry, test.name, test.dialect); got != test.want {
			t.Errorf("%v %s for %s: %s, want %s", test.entry, test.name, test.dialect, got, test.want)
		}
	}
}
