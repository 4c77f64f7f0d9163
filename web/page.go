package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"coding-proxy/pool"
)

//go:embed *.html
var templates embed.FS

//go:embed stats.css
var styleSheet string

//go:embed stats.js
var scriptText string

const (
	cssPath    = "/stats/assets/stats.css"
	scriptPath = "/stats/assets/stats.js"

	// policy lets the pages load their own two files and ask their own origin, and nothing else. Where % stands is where forms go.
	policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; base-uri 'none'; form-action '%'; frame-ancestors 'none'"
)

// The pages, by the key of their title without "page.".
const (
	pageStats  = "stats"
	pagePool   = "pool"
	pageUsage  = "usage"
	pageCaller = "caller"
)

func pageNames() []string { return []string{pageStats, pagePool, pageUsage, pageCaller} }

// pagePath is where a page is, and where its document.
func pagePath(name string) (page, api string) {
	switch name {
	case pagePool:
		return "/stats/pool", "/api/pool/stats"
	case pageUsage:
		return "/stats/pool/usage", "/api/pool/usage"
	case pageCaller:
		return "/stats/request-keys", "/api/request-keys/usage"
	}
	return "/stats", "/api/stats"
}

// pages are the templates by page and language, and the texts by language.
type pages struct {
	templates map[pageKey]*template.Template
	signIn    map[lang]*template.Template
	texts     map[lang]*translator
}

type pageKey struct {
	page string
	lang lang
}

func newPages() pages {
	out := pages{map[pageKey]*template.Template{}, map[lang]*template.Template{}, map[lang]*translator{}}
	for _, l := range langs() {
		tr := newTranslator(l)
		out.texts[l] = tr
		out.signIn[l] = newSignIn(tr)
		for _, name := range pageNames() {
			t := template.New("layout.html").Funcs(functions(tr))
			out.templates[pageKey{name, l}] = template.Must(t.ParseFS(templates, "layout.html", name+".html"))
		}
	}
	return out
}

// functions are what the templates of one language call.
func functions(tr *translator) template.FuncMap {
	return template.FuncMap{
		"t": tr.text, "th": tr.html, "at": at, "n": number, "grouped": grouped, "ratio": ratio, "amount": amount, "usd": dollars, "seconds": seconds, "cells": tr.cells, "word": tr.word, "tone": tone,
		"windows": windowRows, "percent": func(v *float64) string { return percent(*v) }, "inc": func(i int) int { return i + 1 },
		"stamp": func(v time.Time) string { return v.Format(time.RFC3339Nano) },
		"ago": func(now, v time.Time) template.HTML {
			return template.HTML(remaining(tr.phrases["day"].in(tr.lang), v, now))
		},
		"left":  func(now, v time.Time) string { return remaining(tr.phrases["day"].in(tr.lang), now, v) },
		"mark":  func(path, kind, word string) marked { return marked{path, kind, word} },
		"time":  func(path string, now, v time.Time) template.HTML { return timeElement(tr.lang, path, now, v) },
		"when":  func(path string, now time.Time, t *time.Time) timed { return timed{path, now, *t} },
		"bar":   func(path, label string, l limit) barred { return barred{path, label, l, false} },
		"brief": func(path, label string, l limit) barred { return barred{path, label, l, true} },
		"gauge": func(label string, used, budget int64) barred {
			return barred{"", label, limitOf(pool.Limit{Of: float64(budget), Used: float64(used)}), false}
		},
		"key":  func(now time.Time, path string, k keyJSON) keyed { return keyed{path, now, k} },
		"text": func(s *string) string { return *s },
	}
}

// What the shared templates of layout.html take.
type (
	marked struct{ Path, Kind, Word string }
	timed  struct {
		Path    string
		Now, At time.Time
	}
	keyed struct {
		Path string
		Now  time.Time
		Key  keyJSON
	}
	barred struct {
		Path, Label string
		Limit       limit
		Word        bool // say how full it is, where that is worth a word
	}
)

// Of is where the bar ends, Tight and Over where it changes its colour (pool.Limit.State).
func (b barred) Of() int64    { return *b.Limit.Limit }
func (b barred) Tight() int64 { return (4**b.Limit.Limit + 4) / 5 }
func (b barred) Over() int64  { return max(*b.Limit.Limit-1, 0) }

type link struct {
	Href, Text, Lang string
	Current          bool
}

// view is what layout.html draws.
type view struct {
	Lang, Page, API       string
	Now                   time.Time
	Pages, Langs, Windows []link
	Columns               []string
	SignOut               string // where a browser that has signed in signs out
	Waiting, Gone         int64  // bytes and lines of the journal that the disk refused
	Doc                   any
}

// show draws a page around a document.
func (x *Web) show(w http.ResponseWriter, r *http.Request, page string, now time.Time, doc any) error {
	l, chosen, err := language(r)
	if err != nil {
		return err
	}
	v := view{Lang: l.tag(), Page: page, Now: now, Doc: doc, Langs: langLinks(r.URL.Path, r.URL.Query(), l), Columns: columnNames(figuresOf(doc))}
	v.link(x.pages.texts[l], chosen)
	m := x.stats.Metrics()
	v.Waiting, v.Gone = m.Waiting, m.Lost
	if isSignedIn(r) {
		v.SignOut = SignOutPath
	}
	var buf bytes.Buffer
	if err := x.pages.templates[pageKey{page, l}].Execute(&buf, v); err != nil {
		return fmt.Errorf("page %s: %w", page, err)
	}
	if chosen {
		remember(w, l)
	}
	pageHeaders(w, l, isSignedIn(r))
	writeText(w, "text/html; charset=utf-8", buf.Bytes())
	return nil
}

// pageHeaders say what a browser may do with a page.
func pageHeaders(w http.ResponseWriter, l lang, forms bool) {
	action := "none"
	if forms {
		action = "self"
	}
	h := w.Header()
	h.Set("Content-Security-Policy", fill(policy, []string{action}))
	h.Set("Referrer-Policy", "same-origin") // with no-referrer a form of ours comes with the origin null
	h.Set("Content-Language", l.tag())
	h.Set("Vary", "Accept-Language, Cookie")
}

// link makes the links to the pages, the windows and the document. A language that was chosen goes along.
func (v *view) link(tr *translator, chosen bool) {
	keep := url.Values{}
	if chosen {
		keep.Set("lang", string(tr.lang))
	}
	for _, name := range pageNames() {
		path, _ := pagePath(name)
		v.Pages = append(v.Pages, link{Href: href(path, keep), Text: tr.phrases["page."+name].in(tr.lang), Current: name == v.Page})
	}
	self, api := pagePath(v.Page)
	v.API = api
	s, ok := v.Doc.(statsJSON)
	if !ok {
		return
	}
	for _, name := range []string{"today", "week", "month", "last_week", "last_month"} {
		keep.Set("window", name)
		v.Windows = append(v.Windows, link{Href: href(self, keep), Text: tr.phrases["window."+name].in(tr.lang), Current: name == s.Window})
	}
	v.API = href(api, url.Values{"window": {s.Window}})
}

// langLinks lead to the same page in each language.
func langLinks(path string, q url.Values, now lang) []link {
	q = maps.Clone(q)
	names := map[lang]string{english: "English", chinese: "中文"}
	var out []link
	for _, l := range langs() {
		q.Set("lang", string(l))
		out = append(out, link{Href: href(path, q), Text: names[l], Lang: l.tag(), Current: l == now})
	}
	return out
}

func href(path string, q url.Values) string {
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

func writeText(w http.ResponseWriter, kind string, data []byte) {
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data) // a browser that is gone needs no error
}

func (x *Web) statsPage(w http.ResponseWriter, r *http.Request) error {
	doc, err := x.statsDocument(r)
	if err != nil {
		return err
	}
	return x.show(w, r, pageStats, x.now(), doc)
}

func (x *Web) poolPage(w http.ResponseWriter, r *http.Request) error {
	doc := x.poolDocument()
	return x.show(w, r, pagePool, doc.Now, doc)
}

func (x *Web) usagePage(w http.ResponseWriter, r *http.Request) error {
	doc := x.usageDocument()
	return x.show(w, r, pageUsage, doc.Now, doc)
}

func (x *Web) callersPage(w http.ResponseWriter, r *http.Request) error {
	doc := x.callersDocument()
	return x.show(w, r, pageCaller, doc.Now, doc)
}

func (x *Web) css(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, "text/css; charset=utf-8", []byte(styleSheet))
	return nil
}

func (x *Web) script(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, "text/javascript; charset=utf-8", []byte(scriptText))
	return nil
}
