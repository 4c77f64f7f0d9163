package upstream

import (
	"context"
	"errors"
	"net/http"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/ir"
)

// account is the Kind of keys that show what a login obtained at the addresses of the key.
type account struct {
	tokens    *oauth.Source
	endpoints []Endpoint
}

// Choose takes the client's own dialect where it is spoken.
func (a *account) Choose(_ context.Context, dialect, model string) (protocol, name string, f *ir.Fault) {
	return endpointFor(a.endpoints, dialect).Protocol, model, nil
}

func (a *account) Sign(req *http.Request, _ int) *ir.Fault {
	token, err := a.tokens.Token(req.Context())
	if err != nil {
		return noToken(err)
	}
	req.Header["Authorization"] = []string{"Bearer " + token.Access.Reveal()}
	return nil
}

// Again drops a token that was refused, once.
func (a *account) Again(req *http.Request, try int, f *ir.Fault) bool {
	if f.Status != http.StatusUnauthorized || try > 0 {
		return false
	}
	a.tokens.Refused(req.Header.Get("Authorization"))
	return true
}

// Open notes that a token has served.
func (a *account) Open(resp *http.Response) {
	if resp.StatusCode < http.StatusBadRequest && resp.Request != nil {
		a.tokens.Served(resp.Request.Header.Get("Authorization"))
	}
}

// Reset asks for another token.
func (a *account) Reset() { a.tokens.Reset() }

// noToken is the fault of a key for which there is no token.
func noToken(err error) *ir.Fault {
	var e *oauth.Error
	if !errors.As(err, &e) { // the request is over
		return &ir.Fault{Status: http.StatusGatewayTimeout, Kind: ir.KindTimeout, Type: ir.KindTimeout, Message: "no token came in time"}
	}
	return ir.NoToken(e.Reason, e.Message, e.Final, e.Retry)
}
