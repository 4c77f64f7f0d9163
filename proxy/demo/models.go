package demo

import (
	"net/http"
	"slices"
	"strconv"
)

// modelInfo is an entry of the model list.
type modelInfo struct {
	Type           string `json:"type"`
	ID             string `json:"id"`
	DisplayName    string `json:"display_name"`
	CreatedAt      string `json:"created_at"`
	MaxInputTokens int    `json:"max_input_tokens"`
	MaxTokens      int    `json:"max_tokens"`
}

type modelPage struct {
	Data    []modelInfo `json:"data"`
	HasMore bool        `json:"has_more"`
	FirstID *string     `json:"first_id"`
	LastID  *string     `json:"last_id"`
}

func describe(id string) modelInfo {
	return modelInfo{
		Type: "model", ID: id, DisplayName: id, CreatedAt: "2026-01-01T00:00:00Z",
		MaxInputTokens: 1_000_000, MaxTokens: 128_000,
	}
}

// names are the models in a dialect's list; a provider that takes any name shows a few.
func (p *Provider) names(dialect string) []string {
	if len(p.options.Models) > 0 {
		return p.options.Models
	}
	switch dialect {
	case anthropic:
		return []string{"claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"}
	case gemini:
		return []string{"gemini-3.8-flash", "gemini-3.1-pro-preview", "gemini-2.5-pro"}
	}
	return []string{"gpt-6.2-sol", "gpt-5.5", "gpt-5"}
}

func (p *Provider) serves(model string) bool {
	return len(p.options.Models) == 0 || slices.Contains(p.options.Models, model)
}

// listModels answers a page of at most ?limit= models, after the one that ?after_id= names.
func (p *Provider) listModels(a *answer) {
	names, query := p.names(anthropic), a.r.URL.Query()
	if after := query.Get("after_id"); after != "" {
		names = names[slices.Index(names, after)+1:]
	}
	limit := 20
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 1000 {
			a.refuse(refuse(http.StatusBadRequest, "limit: must be between 1 and 1000"))
			return
		}
		limit = n
	}
	page := modelPage{Data: []modelInfo{}, HasMore: len(names) > limit}
	for _, name := range names[:min(limit, len(names))] {
		page.Data = append(page.Data, describe(name))
	}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	a.json(http.StatusOK, page)
}

func (p *Provider) showModel(a *answer, id string) {
	if !p.serves(id) {
		a.refuse(refuse(http.StatusNotFound, "model: "+id))
		return
	}
	a.json(http.StatusOK, describe(id))
}
