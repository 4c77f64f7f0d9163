package copilot

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"coding-proxy/auth"
	"coding-proxy/auth/oauth"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func TestLives(t *testing.T) {
	at := func(d time.Duration) string { return fmt.Sprintf(`"expires_at":%d`, noon.Add(d).Unix()) }
	for name, test := range map[string]struct {
		members     string
		life, renew time.Duration // life 0: the token is over
	}{
		"as GitHub answers":              {`"refresh_in":1500,` + at(30*time.Minute), 30 * time.Minute, 24 * time.Minute},
		"refresh_in alone":               {`"refresh_in":1500`, 25 * time.Minute, 24 * time.Minute},
		"expires_in":                     {`"expires_in":600`, 10 * time.Minute, 0},
		"expires_at":                     {at(10 * time.Minute), 10 * time.Minute, 0},
		"nothing":                        {``, 30 * time.Minute, 0},
		"null":                           {`"refresh_in":null,"expires_in":null,"expires_at":null`, 30 * time.Minute, 0},
		"in a string":                    {`"expires_in":"600"`, 10 * time.Minute, 0},
		"fractions":                      {`"expires_in":0.5`, 500 * time.Millisecond, 0},
		"refresh_in of a short token":    {`"refresh_in":40,"expires_in":60`, time.Minute, 20 * time.Second},
		"refresh_in after the end":       {`"refresh_in":1500,"expires_in":60`, time.Minute, 0},
		"zero refresh_in, good end":      {`"refresh_in":0,` + at(10*time.Minute), 10 * time.Minute, 0},
		"zero expires_in, good end":      {`"expires_in":0,` + at(10*time.Minute), 10 * time.Minute, 0},
		"past, but a clock may be wrong": {`"refresh_in":1500,` + at(-time.Hour), 25 * time.Minute, 24 * time.Minute},
		"zero refresh_in":                {`"refresh_in":0`, 0, 0},
		"zero expires_in":                {`"expires_in":0`, 0, 0},
		"negative":                       {`"expires_in":-5`, 0, 0},
		"now":                            {at(0), 0, 0},
		"past":                           {at(-time.Minute), 0, 0},
		"zero date":                      {`"expires_at":0`, 0, 0},
		"all of them over":               {`"refresh_in":0,"expires_in":0,` + at(-time.Second), 0, 0},
		"far away":                       {`"expires_at":1e300`, 24 * time.Hour, 0},
		"very long":                      {`"expires_in":99999999999999`, 24 * time.Hour, 0},
		"very negative":                  {`"expires_at":-1e300`, 0, 0},
	} {
		body := `{"token":"tid=1"`
		if test.members != "" {
			body += "," + test.members
		}
		g, problem := readGrant(200, []byte(body+"}"), noon)
		switch {
		case test.life == 0 && (problem == nil || problem.Reason != oauth.ReasonTemporary):
			t.Errorf("%s: life %v and problem %v, want a token that is over", name, g.life, problem)
		case test.life != 0 && (problem != nil || g.life != test.life || g.renew != test.renew):
			t.Errorf("%s: life %v, renew %v, problem %v; want %v and %v", name, g.life, g.renew, problem, test.life, test.renew)
		}
	}
}

// What oauth.Source is told makes it fetch anew at the time that the exchange has named.
func TestShown(t *testing.T) {
	for _, g := range []grant{
		{life: 30 * time.Minute, renew: 24 * time.Minute}, {life: time.Minute, renew: 20 * time.Second}, {life: time.Hour, renew: 10 * time.Minute},
		{life: 20 * time.Hour, renew: 19*time.Hour + 59*time.Minute},
	} {
		shown := g.shown()
		at := shown - min(2*time.Minute, shown/10)
		if shown > g.life || shown < g.life && (at-g.renew).Abs() > time.Second {
			t.Errorf("life %v, renew %v: shown %v, fetched anew at %v", g.life, g.renew, shown, at)
		}
	}
	if g := (grant{life: time.Hour}); g.shown() != time.Hour {
		t.Errorf("without refresh_in: %v", g.shown())
	}
}

func TestReadGrant(t *testing.T) {
	g, problem := readGrant(200, []byte(`{"access_token":"second","token":"first","endpoints":{"api":"https://api.x.githubcopilot.com/"},"sku":"pro","chat_enabled":true,"code_quote_enabled":false,"annotations_enabled":"yes","expires_in":60}`), noon)
	if problem != nil || g.token.Reveal() != "first" || g.base.String() != "https://api.x.githubcopilot.com/" || g.sku != "pro" ||
		len(g.flags) != 2 || !g.flags["chat_enabled"] || g.flags["code_quote_enabled"] {
		t.Errorf("%+v, %v", g, problem)
	}
	if g, problem = readGrant(200, []byte(`{"access_token":"second","expires_in":60}`), noon); problem != nil || g.token.Reveal() != "second" {
		t.Errorf("%+v, %v", g, problem)
	}
}

func TestRefusedGrant(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		reason string
		final  bool
		says   string
	}{
		{401, `{"message":"Bad credentials"}`, oauth.ReasonCredentials, true, "(401: Bad credentials)"},
		{401, ``, oauth.ReasonCredentials, true, "(401)"},
		{401, `{"chat_enabled":true}`, oauth.ReasonCredentials, true, "sign in again"},
		{200, `{"chat_enabled":false}`, oauth.ReasonPermission, true, "plan"},
		{403, `{"agent_mode_auto_approval":true,"message":"x"}`, oauth.ReasonPermission, true, "plan"},
		{500, `{"code_quote_enabled":true}`, oauth.ReasonPermission, true, "plan"},
		{200, `{"chat_enabled":true,"token":""}`, oauth.ReasonPermission, true, "plan"},
		{403, `{"error_description":"Invalid token, really","error":"x"}`, oauth.ReasonCredentials, true, "Invalid token, really"},
		{400, `you are unauthorized`, oauth.ReasonCredentials, true, "unauthorized"},
		{200, `{"error":{"message":"BAD CREDENTIALS"}}`, oauth.ReasonCredentials, true, "BAD"},
		{403, `{"message":"rate limit"}`, oauth.ReasonTemporary, false, "(403: rate limit)"},
		{404, `{"message":"Not Found"}`, oauth.ReasonTemporary, false, "404"},
		{500, ``, oauth.ReasonTemporary, false, "500"},
		{302, ``, oauth.ReasonTemporary, false, "302"},
		{200, `{"token":null}`, oauth.ReasonTemporary, false, "no token"},
		{200, `{"token":"with a blank"}`, oauth.ReasonTemporary, false, "no token"},
		{200, "{\"token\":\"two\\nlines\",\"chat_enabled\":true}", oauth.ReasonTemporary, false, "no token"},
		{200, `{"token":"x"`, oauth.ReasonTemporary, false, "no token"},
		{502, `<html>bad gateway</html>`, oauth.ReasonTemporary, false, "a page"},
		{200, `<html>`, oauth.ReasonTemporary, false, "could not be read"},
		{200, ``, oauth.ReasonTemporary, false, "could not be read"},
		{500, strings.Repeat("x", 5000), oauth.ReasonTemporary, false, strings.Repeat("x", 200) + ")"},
	} {
		_, e := readGrant(test.status, []byte(test.body), noon)
		if e == nil || e.Reason != test.reason || e.Final != test.final || !strings.Contains(e.Message, test.says) {
			t.Errorf("%d %.60s: %v, final %v; want %s, %v, %q", test.status, test.body, e, e != nil && e.Final, test.reason, test.final, test.says)
		}
	}
}

func TestUsableBase(t *testing.T) {
	for text, want := range map[string]bool{
		"https://api.githubcopilot.com": true, "https://copilot-api.example.org/x/": true, "http://127.0.0.1:8080": true, "http://[::1]:80": true, "http://localhost": true,
		"": false, "api.githubcopilot.com": false, "http://api.githubcopilot.com": false, "https://u:p@h": false, "https://h/?a=b": false, "https://h/#a": false,
		"https://": false, "https://:80": false, "ftp://127.0.0.1": false, "http://127.0.0.1.example.org": false, "http://10.0.0.1": false, "https://%zz": false,
	} {
		if got := usableBase(text) != nil; got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

func TestScrub(t *testing.T) {
	token := auth.NewSecret("secret-of-another-form")
	for text, want := range map[string]string{
		"no secret-of-another-form here": "no *** here", "ghu_abcdefgh1234 and gho_abcdefgh1234.": "*** and ***.",
		"github_pat_11AAAA_bbb": "***", "ghosts and gh_x": "ghosts and gh_x", "": "",
	} {
		if got := scrub(text, token); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
