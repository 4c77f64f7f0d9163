package demo

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Consent is what a person does on an identity provider's pages.
type Consent int

const (
	Asks       Consent = iota // the page has the buttons #allow and #deny
	Allows                    // no page: the browser is sent back with a code at once
	Denies                    // no page: it is sent back with access_denied
	MixesState                // the page's #allow sends it back with a state that is not the one it came with
)

// SetConsent sets how authorize pages behave from now on.
func (i *Identity) SetConsent(consent Consent) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.consent = consent
}

// codeGrant is a code that waits for its exchange.
type codeGrant struct {
	client, redirect, challenge, scope string
	offline                            bool
	until                              time.Time
}

// deviceFlow is a device that waits for a person.
type deviceFlow struct {
	client, userCode, scope string
	until, polled           time.Time
	interval                int
	decision                string // "" = none yet, else "allow" or "deny"
	script                  []string
}

// authorize shows the page on which a person agrees, and sends the browser back.
func (i *Identity) authorize(c *identityCall) {
	q := c.r.URL.Query()
	if problem := i.checkAuthorize(q); problem != "" {
		c.page(http.StatusBadRequest, page("Error 400", "<p id=\"error\">"+html.EscapeString(problem)+"</p>"))
		return
	}
	i.mu.Lock()
	consent := i.consent
	i.mu.Unlock()
	decision := c.form.Get("decision")
	switch {
	case consent == Allows:
		decision = "allow"
	case consent == Denies:
		decision = "deny"
	case c.r.Method != http.MethodPost:
		c.page(http.StatusOK, page("Sign in", `<form method="post"><p>Allow this program to act for you?</p>
<button id="allow" name="decision" value="allow">Allow</button>
<button id="deny" name="decision" value="deny">Cancel</button></form>`))
		return
	}
	back := url.Values{"state": {q.Get("state")}}
	if consent == MixesState {
		back.Set("state", "another-"+q.Get("state"))
	}
	if decision == "allow" {
		back.Set("code", i.newCode(q))
		back.Set("scope", q.Get("scope"))
	} else {
		back.Set("error", Denied)
	}
	to, _ := url.Parse(q.Get("redirect_uri")) // checked above
	to.RawQuery = back.Encode()
	c.w.Header().Set("location", to.String())
	c.write(http.StatusFound, "text/html; charset=utf-8", nil)
}

// checkAuthorize says what is wrong with an authorize request, "" when nothing is.
func (i *Identity) checkAuthorize(q url.Values) string {
	to, err := url.Parse(q.Get("redirect_uri"))
	switch {
	case q.Get("client_id") == "" || i.options.ClientID != "" && q.Get("client_id") != i.options.ClientID:
		return "invalid_client: the OAuth client was not found"
	case q.Has("client_secret"):
		return "invalid_request: a secret does not belong in a browser"
	case err != nil || to.Scheme != "http" || to.Hostname() != "127.0.0.1" && to.Hostname() != "localhost" && to.Hostname() != "::1":
		return "redirect_uri_mismatch: only loopback addresses are registered"
	case q.Get("response_type") != "code":
		return "unsupported_response_type"
	case q.Get("state") == "":
		return "invalid_request: state is missing"
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43:
		return "invalid_request: code_challenge with S256 is missing"
	}
	return ""
}

func (i *Identity) newCode(q url.Values) string {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.serial++
	code := fmt.Sprintf("demo-code-%08d", i.serial)
	i.codes[code] = &codeGrant{client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"),
		scope: q.Get("scope"), offline: q.Get("access_type") == "offline", until: i.options.Now().Add(grantLife)}
	return code
}

// redeem exchanges a code, once, for who can show the verifier of its challenge.
func (i *Identity) redeem(c *identityCall) (url.Values, *refusal) {
	code := c.form.Get("code")
	g := i.codes[code]
	delete(i.codes, code)
	verifier := c.form.Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	switch {
	case code == "":
		return nil, oauthRefusal("invalid_request", "code is missing")
	case g == nil || i.options.Now().After(g.until):
		return nil, oauthRefusal(InvalidGrant, "Malformed auth code.")
	case g.client != c.form.Get("client_id"):
		return nil, oauthRefusal(InvalidGrant, "the code belongs to another client")
	case g.redirect != c.form.Get("redirect_uri"):
		return nil, oauthRefusal("redirect_uri_mismatch", "redirect_uri is not the one that the code was sent to")
	case len(verifier) < 43 || len(verifier) > 128:
		return nil, oauthRefusal("invalid_request", "code_verifier must have 43 to 128 characters")
	case !same(base64.RawURLEncoding.EncodeToString(sum[:]), g.challenge):
		return nil, oauthRefusal(InvalidGrant, "Invalid code verifier.")
	}
	granted := i.mint(c, g.scope)
	if !c.github && (g.offline || !i.options.Offline) {
		granted.Set("refresh_token", i.newRefresh())
	}
	return granted, nil
}

// DeviceScript sets what devices that begin from now on hear, poll by poll: Pending, SlowDown, Denied, Expired. After it
// they get their token. nil: they wait until a person decides.
func (i *Identity) DeviceScript(words ...string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.script = words
}

// deviceCode begins a device grant.
func (i *Identity) deviceCode(c *identityCall) {
	i.mu.Lock()
	refusal := i.checkClient(c)
	i.counts.Requests++
	i.serial++
	code, userCode := fmt.Sprintf("demo-device-%08d", i.serial), fmt.Sprintf("DEMO-%04d", i.serial)
	if refusal == nil {
		i.devices[code] = &deviceFlow{client: c.form.Get("client_id"), userCode: userCode, scope: c.form.Get("scope"),
			until: i.options.Now().Add(deviceLife), polled: i.options.Now(), interval: i.options.Interval, script: i.script}
	}
	i.mu.Unlock()
	if refusal != nil {
		c.oauth(refusal.status, refusal.kind, refusal.message)
		return
	}
	c.give(url.Values{"device_code": {code}, "user_code": {userCode}, "verification_uri": {i.verification(c.r)},
		"expires_in": {strconv.Itoa(int(deviceLife.Seconds()))}, "interval": {strconv.Itoa(i.options.Interval)}})
}

// verification is the address of the device page at this provider.
func (i *Identity) verification(r *http.Request) string {
	path := strings.TrimSuffix(r.URL.Path, "/code")
	if prefix, isGitHub := strings.CutSuffix(path, "/device"); isGitHub {
		path = prefix + "/device"
	}
	return "http://" + r.Host + path
}

// Decide does what a person does on the device page.
func (i *Identity) Decide(userCode string, allow bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, d := range i.devices {
		if d.userCode == strings.ToUpper(strings.TrimSpace(userCode)) {
			if d.decision = "deny"; allow {
				d.decision = "allow"
			}
			return true
		}
	}
	return false
}

// devicePage asks for the device's code.
func (i *Identity) devicePage(c *identityCall) {
	if c.r.Method != http.MethodPost {
		c.page(http.StatusOK, page("Connect a device", `<form method="post"><label>Code <input id="code" name="user_code"></label>
<button id="allow" name="decision" value="allow">Authorize</button>
<button id="deny" name="decision" value="deny">Cancel</button></form>`))
		return
	}
	if !i.Decide(c.form.Get("user_code"), c.form.Get("decision") == "allow") {
		c.page(http.StatusOK, page("Connect a device", `<p id="error">The code is not known.</p>`))
		return
	}
	c.page(http.StatusOK, page("Connect a device", `<p id="done">You may close this page.</p>`))
}

// poll answers a device that asks for its token.
func (i *Identity) poll(c *identityCall) (url.Values, *refusal) {
	d, now := i.devices[c.form.Get("device_code")], i.options.Now()
	switch {
	case d == nil:
		return nil, oauthRefusal("incorrect_device_code", "The device_code provided is not valid.")
	case d.client != c.form.Get("client_id"):
		return nil, oauthRefusal(InvalidGrant, "the device belongs to another client")
	case now.After(d.until):
		return nil, oauthRefusal(Expired, "The device_code has expired.")
	}
	early := now.Sub(d.polled) < time.Duration(d.interval)*time.Second*9/10 // clocks and networks shift polls a little
	d.polled = now
	word := Pending
	switch {
	case early:
		word = SlowDown
	case len(d.script) > 0:
		word, d.script = d.script[0], d.script[1:]
	case d.decision == "deny", i.consent == Denies:
		word = Denied
	case d.decision == "allow", i.consent == Allows, d.script != nil:
		word = ""
	}
	switch word {
	case "":
		delete(i.devices, c.form.Get("device_code"))
		granted := i.mint(c, d.scope)
		if !c.github {
			granted.Set("refresh_token", i.newRefresh())
		}
		return granted, nil
	case SlowDown:
		d.interval += pollSeconds
	case Denied, Expired:
		delete(i.devices, c.form.Get("device_code"))
	}
	return nil, oauthRefusal(word, strings.ReplaceAll(word, "_", " "))
}

func page(title, body string) string {
	return "<!doctype html><html lang=\"en\"><title>" + title + "</title><h1>" + title + "</h1>" + body + "</html>\n"
}
