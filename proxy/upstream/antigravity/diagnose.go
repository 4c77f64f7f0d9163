package antigravity

import "time"

// Diagnosis is what a person is told of the account. It holds no token.
type Diagnosis struct {
	Mode    string     `json:"mode"` // code_assist or generative_language
	Bases   []Base     `json:"base_urls"`
	Project string     `json:"project,omitempty"`         // "" = not known yet
	Problem string     `json:"project_problem,omitempty"` // why it is not known
	Refused string     `json:"refused,omitempty"`         // why the service has shut the account out, in a closed word
	Token   TokenState `json:"token"`
}

// Base is an address of the service.
type Base struct {
	URL   string     `json:"url"`
	Until *time.Time `json:"passed_over_until,omitempty"` // it has failed
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
	d := Diagnosis{Mode: "code_assist", Bases: p.bases.list()}
	if p.opt.GenerativeLanguage {
		d.Mode = "generative_language"
	}
	d.Project, d.Problem = p.home.state()
	state := p.opt.Token.State()
	if d.Token.Good = state.Good; !state.Expires.IsZero() {
		d.Token.ExpiresAt = &state.Expires
	}
	if e := state.Err; e != nil {
		d.Token.ErrorKind, d.Token.LastError, d.Token.NeedsReauth, d.Token.Retry = e.Reason, e.Message, e.Final, e.Retry.Seconds()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Refused = p.refused
	return d
}
