package demo

import (
	"net/http"
	"slices"
	"strings"
)

type copilotList struct {
	Object string             `json:"object"`
	Data   []copilotListEntry `json:"data"`
}

type copilotListEntry struct {
	Object       string              `json:"object"`
	ID           string              `json:"id"`
	Name         string              `json:"name"`
	Vendor       string              `json:"vendor"`
	Version      string              `json:"version"`
	Preview      bool                `json:"preview"`
	Picker       bool                `json:"model_picker_enabled"`
	Policy       map[string]string   `json:"policy"`
	Endpoints    []string            `json:"supported_endpoints,omitempty"`
	Capabilities copilotCapabilities `json:"capabilities"`
}

type copilotCapabilities struct {
	Family string         `json:"family"`
	Type   string         `json:"type"`
	Limits map[string]int `json:"limits"`
}

// list answers with the account's models. What was refused as unknown is known from now on.
func (c *Copilot) list(a *answer) {
	c.mu.Lock()
	clear(c.unknown)
	list := copilotList{Object: "list", Data: []copilotListEntry{}}
	for _, m := range c.models {
		state := "enabled"
		if m.Disabled {
			state = "disabled"
		}
		list.Data = append(list.Data, copilotListEntry{Object: "model", ID: m.ID, Name: m.ID, Vendor: "Simulated", Version: m.ID, Picker: true,
			Policy: map[string]string{"state": state}, Endpoints: m.Endpoints,
			Capabilities: copilotCapabilities{Family: m.ID, Type: "chat", Limits: map[string]int{"max_context_window_tokens": 200_000, "max_output_tokens": 64_000}}})
	}
	c.mu.Unlock()
	a.json(http.StatusOK, list)
}

// checkModel refuses a model that the account does not have, or not at this endpoint.
func (c *Copilot) checkModel(endpoint string, body []byte) *refusal {
	request, err := parseTree(body)
	if err != nil {
		return bad("failed to parse request")
	}
	name := request.str("model")
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.IndexFunc(c.models, func(m CopilotModel) bool { return m.ID == name })
	if at < 0 || c.models[at].Disabled || c.unknown[name] {
		return &refusal{status: http.StatusBadRequest, message: "The requested model is not supported.", code: "model_not_supported", param: "model"}
	}
	if m := c.models[at]; m.Endpoints != nil && !slices.Contains(m.Endpoints, endpoint) {
		return &refusal{status: http.StatusBadRequest, code: "unsupported_api_for_model", message: "model \"" + name + "\" is not accessible via the " + endpoint + " endpoint"}
	}
	return nil
}

// copilotSenderFlaw is what a request does not say of its sender.
func copilotSenderFlaw(r *http.Request) string {
	for _, name := range []string{"User-Agent", "Editor-Version", "Editor-Plugin-Version", "X-Github-Api-Version"} {
		if r.Header.Get(name) == "" {
			return "missing " + name + " header for IDE auth"
		}
	}
	return ""
}

// copilotHeaderFlaw is what is wrong with the headers of a request to the API. A client's credentials for others are none
// of its business.
func copilotHeaderFlaw(r *http.Request) string {
	if flaw := copilotSenderFlaw(r); flaw != "" {
		return flaw
	}
	for _, name := range []string{"Copilot-Integration-Id", "Openai-Intent", "X-Request-Id"} {
		if len(r.Header.Values(name)) != 1 || r.Header.Get(name) == "" {
			return "missing or repeated " + name + " header"
		}
	}
	for name := range r.Header {
		lower := strings.ToLower(name)
		messages := strings.HasSuffix(r.URL.Path, "/v1/messages") && (lower == "anthropic-version" || lower == "anthropic-beta")
		if slices.Contains([]string{"x-api-key", "api-key", "x-goog-api-key", "cookie"}, lower) || strings.HasPrefix(lower, "anthropic-") && !messages {
			return "unexpected " + name + " header"
		}
	}
	return ""
}

// checkTurn compares what the headers say of a request with its body.
func (c *Copilot) checkTurn(h http.Header, dialect string, body []byte) *refusal {
	request, err := parseTree(body)
	if err != nil {
		return bad("failed to parse request")
	}
	messages := request.get("messages")
	if dialect == openAIResponses {
		messages = request.get("input")
	}
	wanted, said := copilotInitiator(dialect, messages), h.Values("X-Initiator")
	if len(said) != 1 || said[0] != wanted {
		return &refusal{status: http.StatusBadRequest, code: "invalid_initiator", message: "invalid initiator: the last message is the " + wanted + "'s"}
	}
	switch flag := h.Get("Copilot-Vision-Request"); {
	case showsImage(messages) && flag != "true":
		return bad("missing required Copilot-Vision-Request header for vision requests")
	case !showsImage(messages) && flag != "":
		return bad("Copilot-Vision-Request without an image")
	}
	return nil
}

// copilotInitiator is whose turn the last message makes it.
func copilotInitiator(dialect string, messages *node) string {
	list := messages.elements()
	for len(list) > 0 && slices.Contains([]string{"system", "developer"}, list[len(list)-1].str("role")) {
		list = list[:len(list)-1]
	}
	if len(list) == 0 {
		return "user"
	}
	last := list[len(list)-1]
	if last.str("role") != "user" {
		return "agent"
	}
	blocks := last.items("content")
	own := func(b *node) bool { return b.str("type") != "tool_result" }
	if dialect == anthropic && len(blocks) > 0 && !slices.ContainsFunc(blocks, own) {
		return "agent"
	}
	return "user"
}

// showsImage looks for an image in messages, their parts, and results of tools.
func showsImage(n *node) bool {
	if slices.ContainsFunc(n.elements(), showsImage) {
		return true
	}
	if !n.is(object) {
		return false
	}
	return slices.Contains([]string{"image", "image_url", "input_image", "computer_screenshot"}, n.str("type")) ||
		showsImage(n.get("content")) || showsImage(n.get("output"))
}
