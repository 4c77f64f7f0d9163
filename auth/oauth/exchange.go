package oauth

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	mostAnswer  = 256 << 10
	mostWords   = 200 // characters of a provider's words
	minSecret   = 4   // the shortest secret that is looked for in a provider's words
	defaultLife = time.Hour
	longestLife = 365 * 24 * time.Hour // of a token; more is taken for this
	longestWait = time.Hour            // that a provider may ask for by Retry-After
)

// answer is what a provider says: a token (RFC 6749), a device code (RFC 8628) or why there is none.
type answer struct {
	Access      string  `json:"access_token"`
	Refresh     string  `json:"refresh_token"`
	ExpiresIn   seconds `json:"expires_in"`
	Scope       string  `json:"scope"`
	IDToken     string  `json:"id_token"`
	DeviceCode  string  `json:"device_code"`
	UserCode    string  `json:"user_code"`
	Page        string  `json:"verification_uri"`
	OldPage     string  `json:"verification_url"` // Google's name for it
	Interval    seconds `json:"interval"`
	Problem     problem `json:"error"`
	Description string  `json:"error_description"`
	Message     string  `json:"message"`
}

// seconds is a number of them, which some providers write as text. What is neither counts as absent.
type seconds float64

func (s *seconds) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		n = 0
	}
	*s = seconds(n)
	return nil
}

// duration is the time, at most the longest.
func (s seconds) duration(longest time.Duration) time.Duration {
	return time.Duration(min(max(float64(s), -1), longest.Seconds()) * float64(time.Second))
}

// problem is an error's code: OAuth's text, or what is in the object that other APIs answer.
type problem struct{ code, message string }

func (p *problem) UnmarshalJSON(data []byte) error {
	var object struct {
		Code    json.RawMessage
		Status  string
		Type    string
		Message string
	}
	if err := json.Unmarshal(data, &p.code); err == nil {
		return nil
	}
	p.code = ""
	if lenient(data, &object) != nil {
		return nil // neither: the status says what there is to say
	}
	_ = json.Unmarshal(object.Code, &p.code) // numbers repeat the status
	p.code, p.message = cmp.Or(p.code, object.Status, object.Type), object.Message
	return nil
}

// lenient leaves fields of unexpected types out.
func lenient(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if unexpected := new(json.UnmarshalTypeError); errors.As(err, &unexpected) && unexpected.Field != "" {
		return nil
	}
	return err
}

// reply is an answer and what came with it.
type reply struct {
	answer
	status  int
	retry   time.Duration
	isJSON  bool
	scope   bool // it says that too little was granted
	secrets []string
}

// secretFields are those of a form that no message may repeat.
var secretFields = [...]string{"client_secret", "refresh_token", "code", "code_verifier", "device_code"}

// ask posts a form to a provider. It follows no redirects: they would carry secrets elsewhere.
func ask(ctx context.Context, transport http.RoundTripper, address string, form url.Values, now time.Time) (*reply, *Error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil || req.URL.Host == "" {
		return nil, temporary("the configured address of the provider is not valid")
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json") // GitHub answers a form otherwise
	req.Header.Set("User-Agent", "coding-proxy")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, unreached(err, req.URL.Host)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, mostAnswer))
	if err != nil {
		return nil, temporary("the answer of %s broke off", req.URL.Host)
	}
	r := readReply(resp.StatusCode, body)
	r.retry = retryAfter(resp.Header.Get("Retry-After"), now)
	for _, name := range secretFields {
		r.secrets = append(r.secrets, form.Get(name))
	}
	return r, nil
}

func readReply(status int, body []byte) *reply {
	r := &reply{status: status}
	if r.isJSON = lenient(body, &r.answer) == nil; !r.isJSON {
		r.answer = answer{}
	}
	r.scope = bytes.Contains(bytes.ToUpper(body), []byte("ACCESS_TOKEN_SCOPE_INSUFFICIENT"))
	r.secrets = []string{r.Access, r.Refresh, r.IDToken, r.DeviceCode}
	return r
}

// refusal says why there is no token in the answer; nil: there is one.
func (r *reply) refusal() *Error {
	e := &Error{Reason: ReasonTemporary, Retry: r.retry}
	failed := r.status < 200 || r.status > 299
	switch {
	case !failed && r.Problem.code == "" && usable(r.Access):
		return nil
	case r.status < 500 && r.status != http.StatusTooManyRequests:
		e.Reason = reasonOf(r.Problem.code)
		if r.scope {
			e.Reason = ReasonScope
		}
		e.Final = e.Reason != ReasonTemporary
	}
	switch words := r.words(); {
	case words != "":
		e.Message = "the provider says: " + words
	case failed:
		e.Message = fmt.Sprintf("the provider answered with status %d", r.status)
	case !r.isJSON:
		e.Message = "the provider's answer is not JSON"
	default:
		e.Message = "the provider's answer holds no usable token"
	}
	return e
}

// reasonOf takes the codes of RFC 6749 and those of GitHub, Google and OpenAI. What is not known is worth another try.
func reasonOf(code string) string {
	switch code {
	case "invalid_grant", "bad_refresh_token", "refresh_token_reused", "refresh_token_expired", "refresh_token_invalidated":
		return ReasonGrant
	case "invalid_client", "unauthorized_client", "incorrect_client_credentials", "deleted_client", "disabled_client":
		return ReasonCredentials
	case "invalid_scope", "insufficient_scope", "ACCESS_TOKEN_SCOPE_INSUFFICIENT":
		return ReasonScope
	}
	return ReasonTemporary
}

// words are the provider's own, without secrets, cut, and harmless on a terminal.
func (r *reply) words() string {
	text := r.Problem.code
	if more := cmp.Or(r.Description, r.Problem.message, r.Message); more != "" && more != text {
		text = strings.TrimPrefix(text+": "+more, ": ")
	}
	for _, s := range r.secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "***")
			text = strings.ReplaceAll(text, url.QueryEscape(s), "***")
		}
	}
	return printable(text)
}

// printable keeps words from moving a terminal, and cuts them.
func printable(s string) string {
	var b strings.Builder
	n := 0
	for _, r := range s {
		if n++; n > mostWords {
			b.WriteString("…")
			break
		}
		if r < 0x20 || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 { // also what turns text around
			r = ' '
		}
		b.WriteRune(r)
	}
	return strings.TrimSpace(b.String())
}

// usable reports whether a token can stand in a header.
func usable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= 0x20 || r >= 0x7f })
}

// life is how long the access token serves.
func (r *reply) life() time.Duration {
	if r.ExpiresIn == 0 {
		return defaultLife
	}
	return r.ExpiresIn.duration(longestLife)
}

// retryAfter reads the header of this name: seconds or a date.
func retryAfter(text string, now time.Time) time.Duration {
	var wait time.Duration
	if n, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(n) {
		wait = seconds(n).duration(longestWait)
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(now)
	}
	return min(max(wait, 0), longestWait)
}

func temporary(format string, args ...any) *Error {
	return &Error{Reason: ReasonTemporary, Message: fmt.Sprintf(format, args...)}
}

// unreached says in plain words why there is no answer. The error itself may tell addresses of proxies, with their passwords.
func unreached(err error, host string) *Error {
	var dns *net.DNSError
	var timeout net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return temporary("interrupted while asking %s", host)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return temporary("no answer from %s in time", host)
	case errors.As(err, &dns):
		return temporary("the name of the host %s is not known", host)
	case strings.Contains(err.Error(), "tls:"), strings.Contains(err.Error(), "x509:"):
		return temporary("no TLS connection to %s", host)
	}
	return temporary("no connection to %s", host)
}
