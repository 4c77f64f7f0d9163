package copilot

import (
	"maps"
	"time"
)

// Diagnosis is what a person is told of the account. It holds no token.
type Diagnosis struct {
	AccountType  string          `json:"account_type"`
	TokenURL     string          `json:"token_url"`
	Configured   string          `json:"configured_base_url"` // "" = none
	BaseURL      string          `json:"resolved_base_url"`
	Candidates   []string        `json:"candidate_base_urls"`
	Mode         string          `json:"token_mode"` // exchange, direct; "" = no token yet
	SKU          string          `json:"sku,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
	Token        TokenState      `json:"token"`
	Models       []string        `json:"available_models_cache"`
	ModelsAge    *float64        `json:"available_models_cache_age_seconds"` // null: there is no list
	Requested    string          `json:"requested_model,omitempty"`
	Resolved     string          `json:"resolved_model,omitempty"`
	Protocol     string          `json:"protocol,omitempty"`            // in which the last model was asked
	Misdirected  *time.Time      `json:"last_misdirected_at,omitempty"` // the last 421
}

// TokenState is how the account's token stands.
type TokenState struct {
	Good        bool       `json:"good"`
	ExpiresAt   *time.Time `json:"expires_at,omitempty"`
	ErrorKind   string     `json:"error_kind,omitempty"`
	LastError   string     `json:"last_error,omitempty"`
	NeedsReauth bool       `json:"needs_reauth"`
	Retry       float64    `json:"retry_seconds,omitempty"`
}

// Diagnose says how the account stands. It asks for nothing.
func (p *Provider) Diagnose() Diagnosis {
	d := Diagnosis{AccountType: p.opt.AccountType, TokenURL: p.opt.TokenURL.Redacted(), Token: p.tokenState(), Models: []string{}}
	if d.AccountType == "" {
		d.AccountType = "individual"
	}
	if p.opt.BaseURL != nil {
		d.Configured = p.opt.BaseURL.Redacted()
	}
	p.hosts.describe(&d)
	for _, m := range p.catalog.known() {
		d.Models = append(d.Models, m.ID)
	}
	if age, ok := p.catalog.age(); ok {
		seconds := age.Seconds()
		d.ModelsAge = &seconds
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Mode, d.SKU, d.Capabilities = p.mode, p.granted.sku, maps.Clone(p.granted.flags)
	d.Requested, d.Resolved, d.Protocol = p.asked.requested, p.asked.resolved, p.asked.protocol
	return d
}

func (p *Provider) tokenState() TokenState {
	state := p.source.State()
	p.mu.Lock()
	defer p.mu.Unlock()
	t := TokenState{Good: state.Good}
	if !p.kept.Access.IsZero() && p.opt.Now().Before(p.kept.Expires) {
		expires := p.kept.Expires
		t.Good, t.ExpiresAt = true, &expires
	}
	if e := state.Err; e != nil {
		t.ErrorKind, t.LastError, t.NeedsReauth, t.Retry = e.Reason, e.Message, e.Final, e.Retry.Seconds()
	}
	return t
}

// describe fills in where the account is served.
func (h *hosts) describe(d *Diagnosis) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d.BaseURL = h.candidates[h.at].Redacted()
	for _, c := range h.candidates {
		d.Candidates = append(d.Candidates, c.Redacted())
	}
	if !h.misdirectAt.IsZero() {
		at := h.misdirectAt
		d.Misdirected = &at
	}
}
