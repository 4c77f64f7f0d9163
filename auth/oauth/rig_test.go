package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"coding-proxy/auth"
)

// memory is a vault that "processes" of one test share. It blocks on channels, so that synctest sees who waits.
type memory struct {
	lock  chan struct{} // holds one while nobody updates
	mu    sync.Mutex
	kept  map[string]Credential
	held  map[string]chan struct{}
	fail  error                            // of Update
	write func(kept map[string]Credential) // before a change is there
	reads atomic.Int32
}

func newMemory(kept map[string]Credential) *memory {
	m := &memory{lock: make(chan struct{}, 1), kept: map[string]Credential{}, held: map[string]chan struct{}{}}
	m.lock <- struct{}{}
	maps.Copy(m.kept, kept)
	return m
}

func (m *memory) Read() (map[string]Credential, error) {
	m.reads.Add(1)
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.kept), nil
}

func (m *memory) Update(ctx context.Context, change func(map[string]Credential) error) error {
	select {
	case <-m.lock:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { m.lock <- struct{}{} }()
	kept, _ := m.Read()
	if err := change(kept); err != nil {
		return err
	}
	if m.write != nil {
		m.write(kept)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.kept = kept
	return nil
}

func (m *memory) Hold(ctx context.Context, name string, work func() error) error {
	m.mu.Lock()
	if m.held[name] == nil {
		m.held[name] = make(chan struct{}, 1)
		m.held[name] <- struct{}{}
	}
	held := m.held[name]
	m.mu.Unlock()
	select {
	case <-held:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { held <- struct{}{} }()
	return work()
}

func (m *memory) get(name string) Credential {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[name]
}

func (m *memory) failWith(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

// provider is a token endpoint as a transport. Its n-th exchange gives "access-n", and rotates "refresh-n" in.
type provider struct {
	mu      sync.Mutex
	refresh string // that is good now
	rotates bool
	life    int // seconds; 0: it does not say
	status  int // 0: it serves
	body    string
	header  http.Header
	gate    chan struct{} // each answer takes one
	forms   []url.Values
}

func (p *provider) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.gate != nil {
		select {
		case <-p.gate:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	form, _ := url.ParseQuery(string(body))
	p.forms = append(p.forms, form)
	switch {
	case r.Method != http.MethodPost || r.Header.Get("Accept") != "application/json":
		return respond(http.StatusNotAcceptable, nil, "{}"), nil
	case p.status != 0:
		return respond(p.status, p.header, p.body), nil
	case form.Get("grant_type") != "refresh_token" || form.Get("client_id") != "client-1":
		return respond(http.StatusBadRequest, nil, `{"error":"invalid_request"}`), nil
	case form.Get("refresh_token") != p.refresh:
		return respond(http.StatusUnauthorized, nil, `{"error":{"code":"refresh_token_reused","message":"it was used before"}}`), nil
	}
	a := map[string]any{"access_token": fmt.Sprintf("access-%d", len(p.forms)), "token_type": "Bearer"}
	if p.life != 0 {
		a["expires_in"] = p.life
	}
	if p.rotates {
		p.refresh = fmt.Sprintf("refresh-%d", len(p.forms))
		a["refresh_token"] = p.refresh
	}
	text, _ := json.Marshal(a)
	return respond(http.StatusOK, nil, string(text)), nil
}

func respond(status int, h http.Header, body string) *http.Response {
	if h == nil {
		h = http.Header{}
	}
	return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(strings.NewReader(body))}
}

func (p *provider) exchanges() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.forms)
}

// answers makes the provider answer this until it serves again.
func (p *provider) answers(status int, body string, header ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.body, p.header = status, body, http.Header{}
	for i := 0; i < len(header); i += 2 {
		p.header.Set(header[i], header[i+1])
	}
}

func (p *provider) serves(refresh string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.status, p.refresh = 0, refresh
}

const work = "work" // the name of the account in these tests

var workClient = Client{Kind: KindGoogle, ClientID: "client-1", ClientSecret: auth.NewSecret("client-secret-1"), TokenURL: "https://idp.example/token"}

// process is a manager with this client, as each process has one.
func process(v Vault, p http.RoundTripper) *Manager {
	m := NewManager(v, time.Now, func() http.RoundTripper { return p })
	m.Configure(map[string]Client{work: workClient})
	return m
}

// signedIn is a credential whose access token has ended.
func signedIn() Credential {
	return Credential{Kind: KindGoogle, Refresh: "refresh-0", Obtained: time.Now().Add(-24 * time.Hour), Account: "ada@example.com"}
}

var errFull = errors.New("no space left on device")

// noSecrets fails the test if a text holds one of the secrets.
func noSecrets(t *testing.T, texts []string, secrets ...string) {
	t.Helper()
	for _, text := range texts {
		for _, s := range secrets {
			if s != "" && bytes.Contains([]byte(text), []byte(s)) {
				t.Errorf("%q holds %q", text, s)
			}
		}
	}
}
