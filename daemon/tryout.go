package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"coding-proxy/daemon/config"
	"coding-proxy/pool"
	"coding-proxy/proxy/upstream"
)

const (
	tryPatience = 30 * time.Second
	mostTryBody = 64 << 10
	mostMessage = 200 // characters of a provider's words that are shown
	tryModel    = "claude-haiku-4-5"
)

// Tryout is what one tiny request with a key came to.
type Tryout struct {
	Key     string            `json:"key"`
	Tier    string            `json:"tier"`
	Model   string            `json:"model,omitempty"` // the upstream's name
	Skipped string            `json:"skipped,omitempty"`
	Status  int               `json:"status,omitempty"`
	MS      int64             `json:"ms"`
	Error   string            `json:"error,omitempty"`
	Limits  map[string]string `json:"limits,omitempty"` // the rate-limit headers
}

// OK reports whether the key works, as far as was tried.
func (t *Tryout) OK() bool { return t.Skipped != "" || t.Status >= 200 && t.Status < 300 }

// TryKeys sends one request of one token with each key, in their order, and tells each of what came of it.
func TryKeys(ctx context.Context, cfg *config.Config, each func(Tryout)) {
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment, // never for loopback
		DialContext:         (&net.Dialer{Timeout: cfg.Proxy.Timeouts.Connect}).DialContext,
		TLSHandshakeTimeout: cfg.Proxy.Timeouts.Connect,
		ForceAttemptHTTP2:   true,
	}
	defer transport.CloseIdleConnections()
	p := pool.New(cfg.Pool, nil, time.Now, 0)
	ups := upstreams(cfg)
	for _, t := range cfg.Pool.Tiers {
		for _, k := range t.Keys {
			if ctx.Err() != nil {
				return
			}
			try := Tryout{Key: k.ID, Tier: t.Name}
			switch {
			case k.Disabled:
				try.Skipped = k.DisabledReason
			case k.Passthrough:
				try.Skipped = "passes each client's own credential on"
			default:
				try.send(ctx, transport, ups[k.ID], modelFor(p, k.ID))
			}
			each(try)
		}
	}
}

// modelFor returns a name by which the key's upstream knows a model, the cheapest that is known.
func modelFor(p *pool.Pool, key string) string {
	scope := pool.Only(key)
	names := p.Models(scope, []string{tryModel})
	if len(names) == 0 {
		return tryModel
	}
	name := names[0]
	if i := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "haiku") }); i >= 0 {
		name = names[i]
	}
	for _, t := range p.Route(&pool.Want{Scope: scope, Model: p.Resolve(name)}).Tiers {
		for _, k := range t.Keys {
			if k.ID == key && k.UpstreamModel != "" {
				return k.UpstreamModel
			}
		}
	}
	return name
}

func (t *Tryout) send(ctx context.Context, transport *http.Transport, up *upstream.Upstream, model string) {
	t.Model = model
	ctx, cancel := context.WithTimeout(ctx, tryPatience)
	defer cancel()
	name, _ := json.Marshal(model) // a string cannot fail
	body := fmt.Sprintf(`{"model":%s,"max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`, name)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, up.URL("/v1/messages", "").String(), strings.NewReader(body))
	if err != nil {
		t.Error = "the address is wrong"
		return
	}
	req.Header = http.Header{"Content-Type": {"application/json"}, "Anthropic-Version": {"2023-06-01"}, "User-Agent": {"coding-proxy"}}
	up.SetHeaders(req.Header)
	began := time.Now()
	resp, err := transport.RoundTrip(req)
	t.MS = time.Since(began).Milliseconds()
	if err != nil {
		t.Error = unreached(err)
		return
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, mostTryBody)) // what came is looked at
	t.MS = time.Since(began).Milliseconds()
	t.Status, t.Limits = resp.StatusCode, limitsOf(resp.Header)
	if !t.OK() {
		t.Error = printable(string(up.Mask([]byte(providerWords(answer)))))
	}
}

// unreached says in plain words why there is no answer.
func unreached(err error) string {
	var dns *net.DNSError
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted"
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer in time"
	case errors.As(err, &dns):
		return "the name of the host is not known"
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		return "no TLS connection: " + err.Error()
	}
	return "no connection: " + err.Error()
}

// limitsOf keeps what tells of limits.
func limitsOf(h http.Header) map[string]string {
	var out map[string]string
	for name, values := range h {
		name = strings.ToLower(name)
		if name != "retry-after" && !strings.HasPrefix(name, "anthropic-ratelimit-") && !strings.HasPrefix(name, "x-ratelimit-") {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = printable(values[0])
	}
	return out
}

// providerWords is the message of an error body, of whatever form.
func providerWords(body []byte) string {
	var e struct {
		Error   struct{ Type, Message string }
		Message string
	}
	if json.Unmarshal(body, &e) != nil {
		return "the answer is not one of the API"
	}
	if e.Error.Message == "" {
		return e.Message
	}
	return e.Error.Message
}

// printable keeps a provider's words from moving the terminal.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if b.Len() >= mostMessage {
			b.WriteString("…")
			break
		}
		if r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0 {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}
