//go:build unix

package cli_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// The pages in a real browser. With SCREENSHOTS=<folder> they are kept as pictures there.

type shownPage struct{ name, path, api string }

func shownPages() []shownPage {
	return []shownPage{
		{"stats", "/stats?", "/api/stats"},
		{"month", "/stats?window=days:30&", "/api/stats?window=days:30"},
		{"pool", "/stats/pool?", "/api/pool/stats"},
		{"usage", "/stats/pool/usage?", "/api/pool/usage"},
		{"callers", "/stats/request-keys?", "/api/request-keys/usage"},
	}
}

// TestBrowserPages looks at each page in each language, with one key and with forty, on a telephone and on a desk.
func TestBrowserPages(t *testing.T) {
	b := startBrowser(t)
	for _, instance := range []struct {
		name  string
		start func(*testing.T) *shown
	}{{"1", oneKey}, {"40", fortyKeys}} {
		t.Run(instance.name, func(t *testing.T) {
			s := instance.start(t)
			for _, page := range shownPages() {
				for _, lang := range []string{"en", "zh"} {
					name := fmt.Sprintf("%s-%s-%s", page.name, lang, instance.name)
					t.Run(name, func(t *testing.T) { s.look(t, b, page, lang, name) })
				}
			}
		})
	}
}

// look opens a page and checks what must hold of every one.
func (s *shown) look(t *testing.T, b *browser, page shownPage, lang, name string) {
	p := b.open(t)
	defer p.close(t)
	p.scheme(t, "light")
	p.resize(t, 360)
	p.visit(t, s.url+page.path+"lang="+lang)
	p.checkLanguage(t, lang)
	for _, width := range []int{360, 1280} {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			p.resize(t, width)
			p.checkLayout(t)
			p.checkFigures(t, s.document(t, page.api))
			for _, scheme := range []string{"dark", "light"} {
				p.scheme(t, scheme)
				p.checkContrast(t, scheme)
				p.picture(t, fmt.Sprintf("%s-%d-%s", name, width, scheme))
			}
		})
	}
	p.checkQuiet(t, s.url)
}

// picture keeps a screenshot where they are wanted.
func (p *tab) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("SCREENSHOTS")
	if dir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), p.screenshot(t), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (p *tab) checkLanguage(t *testing.T, lang string) {
	t.Helper()
	var got string
	p.run(t, `document.documentElement.lang + "|" + document.querySelector(".langs [aria-current]").lang + "|" + document.querySelectorAll(".pages [aria-current=page]").length`, &got)
	if tag := map[string]string{"en": "en", "zh": "zh-CN"}[lang]; got != tag+"|"+tag+"|1" {
		t.Errorf("language and current page: %s", got)
	}
}

// Whatever a client or an operator calls things stays text: nothing runs, nothing is fetched, nothing breaks the layout.
func TestBrowserHostileNames(t *testing.T) {
	b := startBrowser(t)
	long := strings.Repeat("long", 50)
	models := []string{
		"<img src=x onerror=alert(1)>", `"><script>alert(2)</script>`, "javascript:alert(3)", "'+alert(4)+'", "{{alert(5)}}", "left\u202eright", long,
	}
	codes := []string{`<img src=x onerror=alert(6)>`, `"><svg onload=alert(7)>`, "caller-" + strings.Repeat("code", 23)}
	var callers []string
	for _, code := range codes {
		callers = append(callers, fmt.Sprintf(`{"code": %q, "api_key": %q}`, code, "request-key-of-"+code))
	}
	tiers := []string{"<img src=x onerror=alert(8)>", "tier-" + strings.Repeat("tier", 23)}
	s := startShown(t, fmt.Sprintf(`[{"name": %q}, {"name": %q, "circuit_breaker": {}, "quota_guard": {}}]`, tiers[0], tiers[1]), []shownKey{
		{id: "key", tier: tiers[0], more: `, "daily_limit_tokens": 5000000`}, {id: "spare", tier: tiers[1], more: `, "enabled": false`},
	}, callers...)
	for _, code := range codes {
		for _, model := range models {
			if status := s.ask(t, code, model); status != 200 {
				t.Errorf("caller %q, model %q: status %d", code, model, status)
			}
		}
	}
	// The models cool: so they are on the page of the pool too.
	for _, model := range models {
		s.providers["key"].Push(refusal(429))
		s.ask(t, codes[0], model)
	}
	for _, page := range shownPages() {
		want := map[string][]string{"stats": models, "month": models, "pool": slices.Concat(models, tiers), "usage": tiers, "callers": codes}[page.name]
		for _, width := range []int{360, 1280} {
			name := fmt.Sprintf("%s-hostile-%d", page.name, width)
			t.Run(name, func(t *testing.T) {
				p := b.open(t)
				defer p.close(t)
				p.resize(t, width)
				p.visit(t, s.url+page.path)
				var text string
				p.run(t, `document.body.innerText`, &text)
				for _, w := range want {
					if !strings.Contains(text, w) {
						t.Errorf("the page does not show %q", w)
					}
				}
				var made int
				p.run(t, `document.querySelectorAll("img, svg, iframe, main script, [onerror], [onload], [style]").length + document.scripts.length - 1`, &made)
				if made != 0 {
					t.Errorf("%d elements were made of names", made)
				}
				p.checkLayout(t)
				p.checkFigures(t, s.document(t, page.api))
				p.picture(t, name)
				p.checkQuiet(t, s.url)
			})
		}
	}
}

// The page shows new figures by itself, without being loaded again, and says when the proxy is gone.
func TestBrowserKeepsItselfUpToDate(t *testing.T) {
	b := startBrowser(t)
	dir := t.TempDir()
	keys := []shownKey{{id: "work", more: `, "daily_limit_tokens": 5000000`}}
	providerURL, providers := simulated(t, keys)
	url, stop := serveShown(t, dir, shownConfig(dir, providerURL, "", keys))
	s := newShown(t, url, providers)
	s.only(t, "work", usage(100, 10, 0, 0), 200)

	p := b.open(t)
	defer p.close(t)
	p.resize(t, 360)
	p.visit(t, url+"/stats")
	p.run(t, `document.documentElement.dataset.test = "the same document"; document.querySelector(".scroll").focus(); document.querySelector(".scroll").scrollLeft = 77; window.scrollTo(0, 50); true`, nil)
	s.only(t, "work", usage(1000, 20, 0, 0), 200)
	p.run(t, waitFor(`document.querySelector("[data-f='total.input_tokens']").value === "1100"`), nil)
	var state string
	p.run(t, `[document.documentElement.dataset.test, document.activeElement.className, document.querySelector(".scroll").scrollLeft, window.scrollY, document.getElementById("note").hidden].join()`, &state)
	if state != "the same document,scroll,77,50,true" {
		t.Errorf("after the update: %s", state)
	}
	p.checkFigures(t, s.document(t, "/api/stats"))

	pool := b.open(t)
	defer pool.close(t)
	pool.visit(t, url+"/stats/pool")
	s.only(t, "work", demo.Step{Status: 429, Header: map[string][]string{"Retry-After": {"3600"}}}, 429)
	pool.run(t, waitFor(`document.querySelector(".keys .left") !== null`), nil)
	// Between two updates the page counts by itself.
	pool.run(t, `window.seen = {}; true`, nil)
	pool.run(t, waitFor(`(() => {
  const now = {at: document.getElementById("main").dataset.now, left: document.querySelector(".keys .left").textContent};
  const counted = now.at === window.seen.at && now.left < window.seen.left;
  window.seen = now;
  return counted;
})()`), nil)
	for _, tab := range []*tab{p, pool} {
		tab.checkQuiet(t, url)
	}

	p.run(t, `window.height = document.documentElement.scrollHeight; true`, nil)
	stop()
	p.run(t, waitFor(`!document.getElementById("note").hidden && document.getElementById("note").textContent.includes("Last update at")`), nil)
	p.checkLayout(t)
	var moved bool
	p.run(t, `window.height !== document.documentElement.scrollHeight`, &moved)
	if moved {
		t.Error("the note moves the page")
	}
	p.picture(t, "stats-stopped-360")
}

// waitFor is a promise that a condition will hold; it is looked at whenever the page changes.
func waitFor(condition string) string {
	return `new Promise((resolve, reject) => {
  const look = () => { if (` + condition + `) { watch.disconnect(); clearTimeout(late); resolve(true); } };
  const watch = new MutationObserver(look);
  const late = setTimeout(() => { watch.disconnect(); reject(new Error("did not come true")); }, 30000);
  watch.observe(document.documentElement, {subtree: true, childList: true, characterData: true, attributes: true});
  look();
})`
}

// The language follows the browser, and a choice stays.
func TestBrowserLanguage(t *testing.T) {
	b := startBrowser(t)
	s := startShown(t, "", []shownKey{{id: "work", more: `, "daily_limit_tokens": 5000000`}})
	p := b.open(t)
	defer p.close(t)
	p.do(t, "Network.setExtraHTTPHeaders", json.RawMessage(`{"headers": {"Accept-Language": "zh-CN,zh;q=0.9,en;q=0.8"}}`), nil)
	p.visit(t, s.url+"/stats")
	p.checkLanguage(t, "zh")
	for _, step := range []struct{ click, want string }{
		{`.langs [lang=en]`, "en"}, {`.pages a:nth-child(2)`, "en"}, {`.langs [lang=zh-CN]`, "zh"}, {`.pages a:nth-child(4)`, "zh"},
	} {
		p.click(t, step.click)
		p.checkLanguage(t, step.want)
	}
	p.visit(t, s.url+"/stats/pool")
	p.checkLanguage(t, "zh")
	p.click(t, `.langs [lang=en]`)
	p.visit(t, s.url+"/stats")
	p.checkLanguage(t, "en")
	p.checkQuiet(t, s.url)
}

// click follows a link.
func (p *tab) click(t *testing.T, selector string) {
	t.Helper()
	for len(p.loaded) > 0 {
		<-p.loaded
	}
	p.run(t, fmt.Sprintf(`document.querySelector(%q).click()`, selector), nil)
	p.await(t, p.loaded, selector+" is followed")
}
