package oauth

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultInterval = 5 * time.Second // between polls, RFC 8628
	slowDown        = 5 * time.Second // that the provider's slow_down adds
	longestInterval = time.Minute
	defaultExpiry   = 15 * time.Minute // of a device code
	longestExpiry   = time.Hour
	deviceGrant     = "urn:ietf:params:oauth:grant-type:device_code"
)

// Device signs in by a code that a person types in at the provider's page (RFC 8628, and GitHub's way of it: errors are
// answered with status 200). show tells the person the code, the page and until when. Errors: *Error, and ctx's own.
func (l Login) Device(ctx context.Context, show func(userCode, page string, expires time.Time)) (Credential, error) {
	if l.Client.DeviceCodeURL == "" || l.Client.TokenURL == "" {
		return Credential{}, &Error{Reason: ReasonTemporary, Final: true, Message: "the client has no device_code_url or token_url in the configuration"}
	}
	form := url.Values{}
	if len(l.Client.Scopes) > 0 {
		form.Set("scope", strings.Join(l.Client.Scopes, " "))
	}
	r, e := l.ask(ctx, l.Client.DeviceCodeURL, form)
	if ctx.Err() != nil {
		return Credential{}, context.Cause(ctx)
	}
	if e != nil {
		return Credential{}, e
	}
	page, ok := r.verification()
	if r.DeviceCode == "" || r.UserCode == "" || !ok {
		if e := l.refused(r); e != nil { // an answer without a token always is one
			return Credential{}, e
		}
		return Credential{}, temporary("the provider's answer holds no device code")
	}
	expires := l.Now().Add(orDefault(r.ExpiresIn.duration(longestExpiry), defaultExpiry))
	show(printable(r.UserCode), page, expires)
	return l.poll(ctx, r.DeviceCode, orDefault(r.Interval.duration(longestInterval), defaultInterval), expires)
}

// verification is the page on which a person types the code in; ok is false if it is no web page.
func (r *reply) verification() (page string, ok bool) {
	if page = r.Page; page == "" {
		page = r.OldPage
	}
	u, err := url.Parse(page)
	return printable(page), err == nil && u.Host != "" && (u.Scheme == "https" || u.Scheme == "http")
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// poll asks for the token until a person has decided. A provider that cannot be reached is asked again: the person may be
// typing meanwhile.
func (l Login) poll(ctx context.Context, code string, interval time.Duration, expires time.Time) (Credential, error) {
	wait := time.NewTimer(interval)
	defer wait.Stop()
	for {
		select {
		case <-ctx.Done():
			return Credential{}, context.Cause(ctx)
		case <-wait.C:
		}
		if !l.Now().Before(expires) {
			return Credential{}, expired()
		}
		r, e := l.ask(ctx, l.Client.TokenURL, url.Values{"grant_type": {deviceGrant}, "device_code": {code}})
		var retry time.Duration
		switch {
		case e == nil && r.refusal() == nil: // whoever has stopped waiting: it was granted
			return l.credential(r), nil
		case ctx.Err() != nil:
			return Credential{}, context.Cause(ctx)
		case e != nil, r.status >= 500:
			interval = min(2*interval, longestInterval)
		case r.status == http.StatusTooManyRequests:
			interval, retry = min(2*interval, longestInterval), r.retry
		case r.Problem.code == "authorization_pending":
		case r.Problem.code == "slow_down":
			interval = min(max(interval+slowDown, r.Interval.duration(longestInterval)), longestInterval)
		default:
			return Credential{}, l.refused(r)
		}
		wait.Reset(min(max(interval, retry), expires.Sub(l.Now())+time.Second))
	}
}
