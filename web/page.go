package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"strconv"

	"coding-proxy/pool"
	"coding-proxy/stats"
)

//go:embed stats.html
var statsHTML string

//go:embed stats.css
var statsCSS string

// page is the statistics page: one document, no script, nothing fetched.
type page struct {
	template *template.Template
	policy   string
}

func newPage() *page {
	sum := sha256.Sum256([]byte(statsCSS))
	t := template.Must(template.New("stats").Funcs(template.FuncMap{
		"n": grouped, "usd": usd, "css": func() template.CSS { return template.CSS(statsCSS) },
	}).Parse(statsHTML))
	return &page{t, "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"}
}

// grouped writes 1234567 as 1,234,567.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func usd(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }

type windowLink struct {
	Name, Label string
	Current     bool
}

// statsPage shows the same figures as /api/stats, by model.
func (x *Web) statsPage(w http.ResponseWriter, r *http.Request) error {
	name, days, err := span(r.URL.Query().Get("window"), x.now())
	if err != nil {
		return err
	}
	var links []windowLink
	for _, l := range [][2]string{
		{"today", "Today"}, {"week", "This week"}, {"month", "This month"}, {"last_week", "Last week"}, {"last_month", "Last month"},
	} {
		links = append(links, windowLink{l[0], l[1], l[0] == name})
	}
	v := x.pool.View()
	var buf bytes.Buffer
	if err := x.page.template.Execute(&buf, struct {
		Links     []windowLink
		Days      stats.Range
		Totals    stats.Totals
		PoolState string
		Pool      pool.View
	}{links, days, x.stats.Totals(days), poolState(v), v}); err != nil {
		return err
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", x.page.policy)
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(buf.Bytes()) // a browser that is gone needs no error
	return nil
}
