//go:build unix

package cli_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What must hold of every page, asked in the browser.

// checkLayout: nothing is wider than its box, and no text lies on another.
func (p *tab) checkLayout(t *testing.T) {
	t.Helper()
	for _, f := range append(p.find(t, tooWide), p.find(t, overlapping)...) {
		t.Error(f)
	}
}

func (p *tab) checkContrast(t *testing.T, scheme string) {
	t.Helper()
	for _, f := range p.find(t, faint) {
		t.Errorf("%s: %s", scheme, f)
	}
}

// checkQuiet: nothing was fetched from elsewhere, nothing went wrong, no dialog came.
func (p *tab) checkQuiet(t *testing.T, origin string) {
	t.Helper()
	for _, f := range p.noises(origin) {
		t.Error(f)
	}
}

func (p *tab) noises(origin string) (found []string) {
	requests, problems, dialogs := p.heard()
	if len(requests) < 3 {
		found = append(found, fmt.Sprintf("only these requests were seen: %s", requests))
	}
	for _, r := range requests {
		if !strings.HasPrefix(r, origin+"/") {
			found = append(found, "a request to another origin: "+r)
		}
	}
	for _, problem := range problems {
		found = append(found, "the browser complains: "+problem)
	}
	for _, d := range dialogs {
		found = append(found, "a dialog: "+d)
	}
	return found
}

// find runs a check and returns what it found.
func (p *tab) find(t *testing.T, check string) (found []string) {
	t.Helper()
	p.run(t, check, &found)
	return found
}

// tooWide finds elements that are wider than their box, and do not scroll. Inline ones have no box of their own.
const tooWide = `(() => {
  const found = [];
  const root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) found.push("the document scrolls sideways: " + root.scrollWidth + " in " + root.clientWidth);
  for (const e of document.querySelectorAll("body, body *")) {
    const style = getComputedStyle(e);
    if (["none", "inline", "contents"].includes(style.display) || ["auto", "scroll"].includes(style.overflowX)) continue;
    if (e.scrollWidth > e.clientWidth + 1) found.push("too wide: " + e.outerHTML.slice(0, 200) + ": " + e.scrollWidth + " in " + e.clientWidth);
  }
  return found;
})()`

// overlapping finds texts that lie on one another. A line's box is higher than its glyphs: a fifth at each end is air.
const overlapping = `(() => {
  const rects = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, parent = node.parentElement;
    if (!node.data.trim() || parent.closest(".skip, noscript, #note") || getComputedStyle(parent).visibility !== "visible") continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      const air = r.height / 5;
      const c = {left: r.left, right: r.right, top: r.top + air, bottom: r.bottom - air, parent, text: node.data.trim()};
      for (let e = parent; e && e !== document.body; e = e.parentElement) {
        if (getComputedStyle(e).overflowX === "visible") continue;
        const box = e.getBoundingClientRect();
        c.left = Math.max(c.left, box.left); c.right = Math.min(c.right, box.right);
        c.top = Math.max(c.top, box.top); c.bottom = Math.min(c.bottom, box.bottom);
      }
      if (c.right - c.left > 1 && c.bottom - c.top > 1) rects.push(c);
    }
  }
  if (rects.length < 10) return ["only " + rects.length + " texts were found"];
  rects.sort((a, b) => a.top - b.top);
  const found = [];
  rects.forEach((a, i) => {
    for (let j = i + 1; j < rects.length && rects[j].top < a.bottom - 1; j++) {
      const b = rects[j];
      if (a.parent.contains(b.parent) || b.parent.contains(a.parent)) continue;
      if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1 && Math.min(a.bottom, b.bottom) - b.top > 1)
        found.push("overlap: " + JSON.stringify(a.text) + " and " + JSON.stringify(b.text));
    }
  });
  return found.slice(0, 20);
})()`

// faint finds texts whose contrast is below that of WCAG AA.
const faint = `(() => {
  const parse = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
  const luminance = (c) => { const [r, g, b] = c.map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const found = new Set();
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || e.closest("noscript, meter, [hidden]")) continue;
    seen++;
    let back = null;
    for (let p = e; p && !back; p = p.parentElement) { const c = parse(getComputedStyle(p).backgroundColor); if (c[3] === 1) back = c; else if (c[3] > 0) found.add("a background that is half transparent: " + p.className); }
    if (!back) { found.add("no background below " + e.className); continue; }
    const [a, b] = [luminance(parse(getComputedStyle(e).color).slice(0, 3)), luminance(back.slice(0, 3))];
    const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (contrast < 4.5) found.add("contrast " + contrast.toFixed(2) + ": " + e.tagName + "." + e.className);
  }
  if (seen < 10) found.add("only " + seen + " texts were found");
  return [...found];
})()`

// TestBrowserChecksCanFail shows that each check finds what it is for.
func TestBrowserChecksCanFail(t *testing.T) {
	const bad = `<!doctype html><title>bad</title><link rel=stylesheet href=/bad.css><script src=/bad.js></script><body>
<div class=narrow>unbreakableunbreakableunbreakableunbreakable</div>
<div class=here>a text</div><div class=there>another text</div>
<p class=faint>hardly to be seen</p><p class=scroll>a long line of text, far too long, that may be scrolled, so that nothing is wrong with it</p>
<p style="color: red">against the policy</p><p>1</p><p>2</p><p>3</p><p>4</p><p>5</p><p>6</p>`
	files := map[string]string{
		"/": bad,
		"/bad.css": `body { background: white; color: black } .narrow { width: 50px } .there { margin-top: -1em } .faint { color: #999 }
.scroll { width: 50px; overflow-x: auto; white-space: nowrap }`,
		"/bad.js": `console.error("wrong"); fetch("http://127.0.0.2:9/elsewhere").catch(() => {}); setTimeout(() => { throw new Error("thrown") }); onload = () => setTimeout(() => alert("dialog"))`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", "default-src 'self'; connect-src *")
		w.Header().Set("Content-Type", map[string]string{"/": "text/html", "/bad.css": "text/css", "/bad.js": "text/javascript"}[r.URL.Path])
		_, _ = w.Write([]byte(files[r.URL.Path]))
	}))
	t.Cleanup(server.Close)
	p := startBrowser(t).open(t)
	defer p.close(t)
	p.resize(t, 360)
	p.visit(t, server.URL+"/")
	p.await(t, p.dialog, "the dialog")
	p.do(t, "Page.handleJavaScriptDialog", struct {
		Accept bool `json:"accept"`
	}{true}, nil)
	for _, c := range []struct {
		what  string
		found []string
		want  []string
	}{
		{"layout", p.find(t, tooWide), []string{"too wide: <div class=\"narrow\""}},
		{"overlap", p.find(t, overlapping), []string{`overlap: "a text" and "another text"`}},
		{"contrast", p.find(t, faint), []string{"P.faint"}},
		{"noises", p.noises(server.URL), []string{"127.0.0.2:9/elsewhere", "wrong", "thrown", "a dialog", "inline style"}},
	} {
		all := strings.Join(c.found, "\n")
		for _, want := range c.want {
			if !strings.Contains(all, want) {
				t.Errorf("%s: %q is not found in: %s", c.what, want, all)
			}
		}
		if strings.Contains(all, "class=\"scroll\"") {
			t.Errorf("%s: what scrolls is found: %s", c.what, all)
		}
	}
}
