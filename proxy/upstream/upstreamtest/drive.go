package upstreamtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"

	"coding-proxy/proxy/ir"
)

// clientSecrets are credentials and cookies that a client has sent for others.
var clientSecrets = []string{"client-own-key-1", "client-own-key-2", "client-own-key-3", "client-cookie-4"}

// maxTries is how often one attempt may send: a token refused, then each host twice.
const maxTries = 6

// outcome is what an attempt came to.
type outcome struct {
	status int
	body   string
	fault  *ir.Fault // of Choose or Sign: nothing could be sent
	sends  int
	err    error // of the network
}

// do makes one attempt as the proxy does.
func (g *rig) do(ctx context.Context, asked Request) outcome {
	speaks, _, fault := g.kind.Choose(ctx, asked.Dialect, asked.Model)
	if fault != nil {
		return outcome{fault: fault}
	}
	if want := asked.speaks(); speaks != want {
		g.problem("Choose(%s, %s) names the dialect %q, not %q", asked.Dialect, asked.Model, speaks, want)
	}
	var out outcome
	for try := 0; ; try++ {
		req := newRequest(ctx, asked)
		if out.fault = g.kind.Sign(req, try); out.fault != nil {
			return out
		}
		if req.URL.Host == "" || req.Host != "" && req.Host != req.URL.Host {
			g.problem("Sign leaves the hosts %q and %q", req.URL.Host, req.Host)
		}
		resp, err := g.client.RoundTrip(req)
		out.sends++
		if err != nil {
			out.err = err
			return out
		}
		g.kind.Open(resp)
		body, err := io.ReadAll(resp.Body)
		if closing := resp.Body.Close(); err == nil {
			err = closing
		}
		out.status, out.body, out.err = resp.StatusCode, string(body), err
		if err != nil || resp.StatusCode < 400 {
			return out
		}
		if !g.kind.Again(req, try, faultOf(resp.StatusCode, body)) {
			return out
		}
		if out.sends >= maxTries {
			g.problem("Again asks for more than %d tries", maxTries)
			return out
		}
	}
}

func (r Request) speaks() string {
	if r.Speaks != "" {
		return r.Speaks
	}
	return r.Dialect
}

// newRequest is what the proxy hands to Sign: the dialect's path without a host, the client's headers on the raw lane.
func newRequest(ctx context.Context, asked Request) *http.Request {
	method := asked.Method
	if method == "" {
		method = http.MethodPost
	}
	target := asked.Path
	if asked.Query != "" {
		target += "?" + asked.Query
	}
	req, err := http.NewRequestWithContext(ctx, method, target, strings.NewReader(asked.Body))
	if err != nil {
		panic(fmt.Sprintf("upstreamtest: the case's request %q: %v", asked.Name, err))
	}
	req.Header = http.Header{
		"Content-Type":    {"application/json"},
		"User-Agent":      {"some-client/1.0"},
		"Accept":          {"application/json"},
		"Accept-Encoding": {"identity"},
		"X-Api-Key":       {clientSecrets[0]},
		"Authorization":   {"Bearer " + clientSecrets[1]},
		"X-Goog-Api-Key":  {clientSecrets[2]},
		"Cookie":          {"session=" + clientSecrets[3]},
	}
	return req
}

// faultOf reads the error of any dialect.
func faultOf(status int, body []byte) *ir.Fault {
	var e struct {
		Error struct {
			Type, Status, Message string
			Code                  json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &e) // what is no envelope says nothing
	f := &ir.Fault{Status: status, Kind: ir.KindOf(status), Type: e.Error.Type, Message: e.Error.Message}
	if f.Type == "" {
		f.Type = e.Error.Status
	}
	_ = json.Unmarshal(e.Error.Code, &f.Code) // a number is no code
	return f
}
