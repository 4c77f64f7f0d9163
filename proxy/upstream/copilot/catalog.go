package copilot

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const (
	catalogLife     = 300 * time.Second
	catalogPatience = 10 * time.Second // of requests that wait for the first list, too
	catalogPause    = 30 * time.Second // after a failure
	maxCatalog      = 4 << 20          // bytes
	maxModels       = 1000
)

// Model is an entry of the account's list.
type Model struct {
	ID        string   `json:"id"`
	Name      string   `json:"name,omitempty"`
	Vendor    string   `json:"vendor,omitempty"`
	Family    string   `json:"family,omitempty"`
	Type      string   `json:"type,omitempty"` // chat, embeddings …
	Preview   bool     `json:"preview,omitempty"`
	Disabled  bool     `json:"disabled,omitempty"` // by the account's policy
	Endpoints []string `json:"supported_endpoints,omitempty"`
	Context   int64    `json:"max_context_window_tokens,omitempty"`
	Output    int64    `json:"max_output_tokens,omitempty"`
}

// catalog keeps the account's models. One request serves all who wait; a list that is old still serves while another is
// fetched.
type catalog struct {
	fetch func(ctx context.Context) ([]Model, error)
	now   func() time.Time

	mu     sync.Mutex
	models []Model // not to be changed
	at     time.Time
	due    time.Time // not before, after a failure
	flight *listing  // under way
}

type listing struct {
	done chan struct{}
	err  error
}

// get returns the models, nil while none are known. It waits for the first list only, and not longer than it takes to fail.
func (c *catalog) get(ctx context.Context) []Model {
	c.mu.Lock()
	now := c.now()
	if !c.at.IsZero() && now.Sub(c.at) < catalogLife {
		defer c.mu.Unlock()
		return c.models
	}
	if c.flight == nil && !now.Before(c.due) {
		c.start()
	}
	f, old := c.flight, c.models
	c.mu.Unlock()
	if f == nil || old != nil {
		return old
	}
	select {
	case <-f.done:
	case <-ctx.Done():
	}
	return c.known()
}

// newList is up to which age a list need not be asked for again, whoever wants to see it.
const newList = 5 * time.Second

// refresh fetches the list anew, whatever its age.
func (c *catalog) refresh(ctx context.Context) error {
	c.mu.Lock()
	if c.flight == nil {
		c.start()
	}
	f := c.flight
	c.mu.Unlock()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// known returns the last list, whatever its age.
func (c *catalog) known() []Model {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.models
}

// age is how old the list is; false: there is none.
func (c *catalog) age() (time.Duration, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now().Sub(c.at), !c.at.IsZero()
}

// forget lets the next request ask anew.
func (c *catalog) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.models, c.at, c.due = nil, time.Time{}, time.Time{}
}

// start begins a request. The lock is held.
func (c *catalog) start() {
	f := &listing{done: make(chan struct{})}
	c.flight = f
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), catalogPatience)
		defer cancel()
		models, err := c.fetch(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.flight = nil; err == nil {
			c.models, c.at, c.due = models, c.now(), time.Time{}
		} else {
			c.due = c.now().Add(catalogPause)
		}
		f.err = err
		close(f.done)
	}()
}

// listError says why there is no list of models.
type listError struct {
	status  int // 0: there was no answer
	message string
}

func (e *listError) Error() string { return e.message }

// list asks for the account's models.
func (p *Provider) list(ctx context.Context) ([]Model, error) {
	dropped := false
	for try := 0; ; try++ {
		token, err := p.token(ctx)
		if err != nil {
			return nil, err
		}
		base, fresh := p.hosts.pick()
		u := base.JoinPath("models")
		status, _, body, err := p.get(ctx, u, bearer(token), "model-access", maxCatalog)
		switch {
		case err != nil:
			return nil, &listError{0, "the list of models at " + u.Host + " " + unreached(ctx)}
		case status == http.StatusMisdirectedRequest && try+1 < maxTries &&
			p.hosts.misdirected(&http.Request{URL: u, Close: fresh}, p.opt.Now()):
		case isRefusal(status) && !dropped:
			p.drop(http.Header{"Authorization": {bearer(token)}})
			dropped = true
		case status != http.StatusOK:
			return nil, &listError{status, "the list of models was refused: " + http.StatusText(status)}
		default:
			p.hosts.answered(u)
			return readModels(body)
		}
	}
}

// readModels reads the answer of /models. Entries that cannot be read are left out.
func readModels(body []byte) ([]Model, error) {
	models := []Model{}
	err := rawjson.Elements(rawjson.Get(body, "data"), func(_ int, entry []byte) error {
		if m := readModel(entry); m.ID != "" && len(models) < maxModels {
			models = append(models, m)
		}
		return nil
	})
	if err != nil {
		return nil, &listError{http.StatusOK, "the list of models could not be read"}
	}
	return models, nil
}

func readModel(entry []byte) Model {
	id := text(entry, "id")
	if id != printable(id, maxName) {
		return Model{} // no name that could be asked for
	}
	abilities := rawjson.Get(entry, "capabilities")
	limits := rawjson.Get(abilities, "limits")
	m := Model{ID: id, Name: printable(text(entry, "name"), maxName), Vendor: printable(text(entry, "vendor"), maxName),
		Family: printable(text(abilities, "family"), maxName), Type: printable(text(abilities, "type"), maxName),
		Disabled: text(rawjson.Get(entry, "policy"), "state") == "disabled"}
	m.Preview, _ = rawjson.Bool(rawjson.Get(entry, "preview"))
	m.Context, _ = rawjson.Int(rawjson.Get(limits, "max_context_window_tokens"))
	m.Output, _ = rawjson.Int(rawjson.Get(limits, "max_output_tokens"))
	_ = rawjson.Elements(rawjson.Get(entry, "supported_endpoints"), func(_ int, e []byte) error { // absent: none are named
		if s, ok := rawjson.String(e); ok && len(m.Endpoints) < 16 {
			m.Endpoints = append(m.Endpoints, printable(s, maxName))
		}
		return nil
	})
	return m
}

// Models asks for the account's models now. A fault says why there are none: the token's, or the list's own.
func (p *Provider) Models(ctx context.Context) ([]Model, *ir.Fault) {
	if age, ok := p.catalog.age(); ok && age >= 0 && age < newList {
		return p.catalog.known(), nil
	}
	err := p.catalog.refresh(ctx)
	if err == nil {
		return p.catalog.known(), nil
	}
	if e := new(listError); errors.As(err, &e) {
		return nil, &ir.Fault{Status: http.StatusBadGateway, Kind: ir.KindAPI, Type: "models_unavailable", Message: e.message}
	}
	if e := new(oauth.Error); errors.As(err, &e) {
		return nil, faultOf(err)
	}
	return nil, &ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: "timeout", Message: "the list of models did not come in time"}
}
