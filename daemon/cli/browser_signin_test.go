//go:build unix

package cli_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

const browserAdminKey = "admin-key-of-the-owner"

// enter types a text where the focus is, which is on the field, and presses Enter. It waits for the page that follows.
func (p *tab) enter(t *testing.T, text string) {
	t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	var focus string
	if p.run(t, `new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(document.activeElement.id))))`, &focus); focus != "key" {
		t.Errorf("the focus is on %q", focus)
	}
	p.do(t, "Input.insertText", struct {
		Text string `json:"text"`
	}{text}, nil)
	for _, kind := range []string{"keyDown", "keyUp"} {
		p.do(t, "Input.dispatchKeyEvent", struct {
			Type string `json:"type"`
			Key  string `json:"key"`
			Text string `json:"text"`
			Code int    `json:"windowsVirtualKeyCode"`
		}{kind, "Enter", "\r", 13}, nil)
	}
	p.await(t, p.loaded, "the form is sent")
}

// where says which page is shown: its title and its address.
func (p *tab) where(t *testing.T) (where string) {
	t.Helper()
	p.run(t, `document.querySelector("h1").textContent + " " + location.pathname + location.search`, &where)
	return where
}

// TestBrowserSignIn signs in by keyboard in both languages, after a wrong key, and out again. The form holds what holds of all
// pages, and a page whose session has ended shows it by itself.
func TestBrowserSignIn(t *testing.T) {
	b := startBrowser(t)
	keys := []shownKey{{id: "work", more: `, "daily_limit_tokens": 5000000`}}
	dir := t.TempDir()
	providerURL, _ := simulated(t, keys)
	configuration := bytes.Replace(shownConfig(dir, providerURL, "", keys), []byte(`"auth": {`), fmt.Appendf(nil, `"auth": {"admin_key": %q, "protect_pages": true, `, browserAdminKey), 1)
	url, _ := serveShown(t, dir, configuration)
	for lang, texts := range map[string][]string{
		"en": {"Sign in /stats/pool?lang=en", "That is not the admin key.", "Key pool /stats/pool"}, "zh": {"登录 /stats/pool?lang=zh", "管理密钥不正确。", "密钥池 /stats/pool"},
	} {
		t.Run(lang, func(t *testing.T) {
			p := b.open(t)
			defer p.close(t)
			p.visit(t, url+"/stats/pool?lang="+lang)
			if where := p.where(t); where != texts[0] {
				t.Errorf("at %q", where)
			}
			p.checkForm(t, "signin-"+lang)
			p.enter(t, "wrong")
			var problem string
			if p.run(t, `document.querySelector("[role=alert]").textContent`, &problem); problem != texts[1] {
				t.Errorf("it says %q", problem)
			}
			p.checkForm(t, "signin-wrong-"+lang)
			p.enter(t, browserAdminKey)
			if where := p.where(t); where != texts[2] {
				t.Errorf("at %q", where)
			}
			p.checkForm(t, "signed-in-"+lang)
			p.click(t, "header button")
			if where := p.where(t); !strings.HasPrefix(where, strings.Fields(texts[0])[0]) || !strings.HasSuffix(where, " /stats") {
				t.Errorf("signed out, at %q", where)
			}
			for _, complaint := range p.noises(url) {
				if !strings.Contains(complaint, "401 (Unauthorized)") {
					t.Error(complaint)
				}
			}
		})
	}
	p := b.open(t)
	defer p.close(t)
	p.visit(t, url+"/stats/sign-in?next=/stats&lang=en")
	p.enter(t, browserAdminKey)
	if where := p.where(t); where != "Usage by model /stats" {
		t.Errorf("at %q", where)
	}
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	p.run(t, `fetch("/stats/sign-out", {method: "POST"}).then(() => { document.dispatchEvent(new Event("visibilitychange")) })`, nil)
	p.await(t, p.loaded, "the page notices that the session has ended")
	if where := p.where(t); where != "Sign in /stats" {
		t.Errorf("at %q", where)
	}
}

// checkForm is checkLayout and checkContrast in all sizes and schemes, of a page with fewer texts than others have.
func (p *tab) checkForm(t *testing.T, name string) {
	t.Helper()
	fewer := strings.NewReplacer("rects.length < 10", "rects.length < 8", "seen < 10", "seen < 8")
	for _, width := range []int{360, 1280} {
		p.resize(t, width)
		for _, scheme := range []string{"dark", "light"} {
			p.scheme(t, scheme)
			for _, check := range []string{tooWide, overlapping, faint} {
				for _, f := range p.find(t, fewer.Replace(check)) {
					t.Errorf("%d, %s: %s", width, scheme, f)
				}
			}
			p.picture(t, fmt.Sprintf("%s-%d-%s", name, width, scheme))
		}
	}
}
