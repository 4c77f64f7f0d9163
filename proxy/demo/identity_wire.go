package demo

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// identityCall is one request at an identity provider.
type identityCall struct {
	w         http.ResponseWriter
	r         *http.Request
	end       *Outcome
	form      url.Values
	github    bool
	malformed string // what is wrong with the request's form
}

// read takes a form, or the JSON object that some clients send.
func (c *identityCall) read(body []byte) {
	if c.r.Method != http.MethodPost {
		return
	}
	if c.r.URL.Query().Has("client_secret") || c.r.URL.Query().Has("refresh_token") {
		c.malformed = "credentials do not belong in a query, which is logged"
		return
	}
	if strings.HasPrefix(c.r.Header.Get("content-type"), "application/json") {
		tree, err := parseTree(body)
		if err != nil || tree.kind != object {
			c.malformed = "the body is no JSON object"
			return
		}
		for n, name := range tree.names {
			c.form.Set(name, tree.list[n].string())
		}
		return
	}
	if !strings.HasPrefix(c.r.Header.Get("content-type"), "application/x-www-form-urlencoded") {
		c.malformed = "the content type must be application/x-www-form-urlencoded"
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		c.malformed = "the body is no form"
		return
	}
	c.form = form
}

// give writes what was granted. GitHub writes a form unless JSON is asked for.
func (c *identityCall) give(granted url.Values) {
	for name, values := range granted {
		if values[0] == "" && name != "scope" {
			granted.Del(name)
		}
	}
	if c.github && !strings.Contains(c.r.Header.Get("accept"), "json") {
		c.write(http.StatusOK, "application/x-www-form-urlencoded; charset=utf-8", []byte(granted.Encode()))
		return
	}
	names := make([]string, 0, len(granted))
	for name := range granted {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	for n, name := range names {
		b.WriteString(map[bool]string{true: "{", false: ","}[n == 0])
		writeString(&b, name)
		b.WriteByte(':')
		if value := granted.Get(name); name == "expires_in" || name == "interval" {
			b.WriteString(value)
		} else {
			writeString(&b, value)
		}
	}
	b.WriteByte('}')
	c.write(http.StatusOK, "application/json; charset=utf-8", []byte(b.String()))
}

// oauth writes an error: GitHub's status is 200 whatever it is.
func (c *identityCall) oauth(status int, word, description string) {
	if status == 0 {
		switch {
		case c.github:
			status = http.StatusOK
		case word == Pending: // as Google says it
			status = http.StatusPreconditionRequired
		case word == SlowDown, word == Denied:
			status = http.StatusForbidden
		default:
			status = http.StatusBadRequest
		}
	}
	if !c.github {
		c.fail(status, word, description)
		return
	}
	c.w.Header().Set("cache-control", "no-store")
	if status == http.StatusUnauthorized {
		status, word = http.StatusOK, "incorrect_client_credentials"
	}
	if strings.Contains(c.r.Header.Get("accept"), "json") {
		c.fail(status, word, description)
		return
	}
	c.write(status, "application/x-www-form-urlencoded; charset=utf-8", []byte(url.Values{"error": {word}, "error_description": {description}}.Encode()))
}

func (c *identityCall) fail(status int, word, description string) {
	c.json(status, struct {
		Error       string `json:"error"`
		Description string `json:"error_description,omitempty"`
	}{word, description})
}

func (c *identityCall) json(status int, value any) {
	c.write(status, "application/json; charset=utf-8", encode(value))
}

func (c *identityCall) page(status int, html string) {
	c.write(status, "text/html; charset=utf-8", []byte(html))
}

func (c *identityCall) write(status int, contentType string, body []byte) {
	c.w.Header().Set("content-type", contentType)
	c.w.Header().Set("content-length", strconv.Itoa(len(body)))
	c.w.WriteHeader(status)
	if _, err := c.w.Write(body); err == nil {
		*c.end = Completed
	}
}
