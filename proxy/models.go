package proxy

import (
	"net/http"
	"slices"
	"strings"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

// modelInfo is an entry of a model list, in the shape of Anthropic, OpenAI or Gemini.
type modelInfo struct {
	Type        string   `json:"type,omitempty"`
	Object      string   `json:"object,omitempty"`
	ID          string   `json:"id,omitempty"`
	Name        string   `json:"name,omitempty"`
	Display     string   `json:"display_name,omitempty"`
	DisplayName string   `json:"displayName,omitempty"`
	Version     string   `json:"version,omitempty"`
	CreatedAt   string   `json:"created_at,omitempty"`
	Created     *int64   `json:"created,omitempty"`
	OwnedBy     string   `json:"owned_by,omitempty"`
	Methods     []string `json:"supportedGenerationMethods,omitempty"`
}

// catalogue has the names of the price table, listed where a key serves any name.
func catalogue() pool.Catalogue {
	names := stats.ModelNames()
	dialects := map[string][]string{Anthropic: names["anthropic"], responses: names["openai"], chat: names["openai"], gemini: names["gemini"]}
	for _, provider := range []string{"doubao", "ollama", "openrouter"} { // no dialect's vendor, and no name of theirs is known
		names[provider] = nil
	}
	return pool.Catalogue{Providers: names, Dialects: dialects}
}

// models lists the names that the caller's scope can reach, or one of them.
func (p *Proxy) models(w http.ResponseWriter, r *http.Request, e Entry) {
	c := p.start(r, e)
	scope := pool.Everything()
	if e.Caller.Limited {
		scope = pool.Only(e.Caller.Keys...)
	}
	names := slices.DeleteFunc(p.pool.Models(scope, p.known), func(n string) bool { return !e.Caller.MayUse(p.pool.Resolve(n)) })
	shape := c.dialect.Name
	if e.ID != "" {
		c.record.Requested, c.record.Resolved = printable(e.ID), ""
		if !slices.Contains(names, e.ID) {
			c.fail(w, &pool.ModelError{Model: e.ID})
			return
		}
		c.answerJSON(w, describe(e.ID, shape))
		return
	}
	list := make([]modelInfo, 0, len(names))
	for _, n := range names {
		list = append(list, describe(n, shape))
	}
	switch shape {
	case gemini:
		c.answerJSON(w, struct {
			Models []modelInfo `json:"models"`
		}{list})
	case Anthropic:
		c.answerJSON(w, anthropicPage(list, names))
	default:
		c.answerJSON(w, struct {
			Object string      `json:"object"`
			Data   []modelInfo `json:"data"`
		}{"list", list})
	}
}

func anthropicPage(list []modelInfo, names []string) any {
	page := struct {
		Data    []modelInfo `json:"data"`
		HasMore bool        `json:"has_more"`
		FirstID *string     `json:"first_id"`
		LastID  *string     `json:"last_id"`
	}{Data: list}
	if len(names) > 0 {
		page.FirstID, page.LastID = &names[0], &names[len(names)-1]
	}
	return page
}

func describe(name, shape string) modelInfo {
	switch shape {
	case Anthropic:
		return modelInfo{Type: "model", ID: name, Display: name, CreatedAt: "1970-01-01T00:00:00Z"}
	case gemini:
		full := name
		if !strings.HasPrefix(name, tuned) {
			full = "models/" + name
		}
		return modelInfo{Name: full, DisplayName: name, Version: "001", Methods: []string{"generateContent", "countTokens"}}
	}
	return modelInfo{Object: "model", ID: name, Created: new(int64), OwnedBy: "coding-proxy"}
}
