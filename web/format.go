package web

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"

	"coding-proxy/stats"
)

// The functions of the templates. What they mark with data-f is the path of the value in the API's document: a test
// compares each with it. Paths are made of the templates' own words and of indices, never of names.

// at joins a path.
func at(parts ...any) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = fmt.Sprint(p)
	}
	return strings.Join(text, ".")
}

// grouped writes 1234567 as 1,234,567, which is the custom in both languages.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func percent(ratio float64) string { return strconv.FormatFloat(100*ratio, 'f', 1, 64) + "%" }

// number shows a whole figure, its exact value in the title.
func number(path string, v any) (template.HTML, error) {
	var n int64
	switch v := v.(type) {
	case int:
		n = int64(v)
	case int64:
		n = v
	case *int64:
		n = *v
	default:
		return "", fmt.Errorf("%s is no whole figure: %T", path, v)
	}
	class := "n"
	if n == 0 {
		class = "n zero"
	}
	return template.HTML(fmt.Sprintf(`<data class="%s" value="%d" title="%d" data-f="%s">%s</data>`, class, n, n, path, grouped(n))), nil
}

// derived shows what is made of a figure; its exact value is in the title.
func derived(path string, v float64, text string) template.HTML {
	exact := strconv.FormatFloat(v, 'f', -1, 64)
	return template.HTML(fmt.Sprintf(`<data class="d" value="%s" title="%s" data-f="%s">%s</data>`, exact, exact, path, template.HTMLEscapeString(text)))
}

// ratio shows a share as a percentage.
func ratio(path string, v *float64) template.HTML { return derived(path, *v, percent(*v)) }

// amount shows a figure of a provider's, which may have a fraction.
func amount(path string, v *float64) template.HTML {
	text := strconv.FormatFloat(*v, 'f', -1, 64)
	if *v == float64(int64(*v)) {
		text = grouped(int64(*v))
	}
	return derived(path, *v, text)
}

// dollars shows an amount of money; below a cent with as many digits as say something.
func dollars(path string, v any) (template.HTML, error) {
	var usd float64
	switch v := v.(type) {
	case float64:
		usd = v
	case *float64:
		usd = *v
	default:
		return "", fmt.Errorf("%s is no amount: %T", path, v)
	}
	text := strconv.FormatFloat(usd, 'f', 2, 64)
	if usd > 0 && usd < 0.01 { // two digits that are not 0, and no exponent
		text = strings.TrimRight(strconv.FormatFloat(usd, 'f', 1-int(math.Floor(math.Log10(usd))), 64), "0")
	}
	return derived(path, usd, text), nil
}

// seconds shows a number of seconds.
func seconds(path string, v float64) template.HTML {
	return derived(path, v, strconv.FormatFloat(v, 'f', -1, 64))
}

// cacheShare is the share of cache reads in what went in; ok is false when nothing did.
func cacheShare(f stats.Figures) (share float64, ok bool) {
	in := float64(f.InputTokens) + float64(f.CacheCreationTokens) + float64(f.CacheReadTokens)
	if in <= 0 {
		return 0, false
	}
	return float64(f.CacheReadTokens) / in, true
}

const nothing = template.HTML(`<span class="zero">–</span>`)

func shareCell(path string, f stats.Figures) template.HTML {
	v, ok := cacheShare(f)
	if !ok {
		return nothing
	}
	return template.HTML(fmt.Sprintf(`<data class="share" value="%g" title="%g" data-share="%s">%s</data>`, v, v, path, percent(v)))
}

// averageCell shows the mean time of a request; its value is the sum that the API gives.
func averageCell(path string, f stats.Figures) template.HTML {
	if f.Requests <= 0 {
		return nothing
	}
	mean := float64(f.DurationMS) / float64(f.Requests)
	text := strconv.FormatFloat(mean, 'f', 0, 64) + " ms"
	if mean >= 1000 {
		text = strconv.FormatFloat(mean/1000, 'f', 1, 64) + " s"
	}
	return template.HTML(fmt.Sprintf(`<data class="d" value="%d" title="%s ms" data-f="%s.duration_ms">%s</data>`,
		f.DurationMS, strconv.FormatFloat(mean, 'f', -1, 64), path, text))
}

// fullTime is the exact time in a title.
const fullTime = "2006-01-02 15:04:05 -07:00"

func timeElement(l lang, path string, now, t time.Time) template.HTML {
	mark := ""
	if path != "" {
		mark = fmt.Sprintf(` data-f="%s"`, path)
	}
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s"%s>%s</time>`, t.Format(time.RFC3339Nano), t.Format(fullTime), mark, clock(l, now, t)))
}

// clock writes a time in the server's zone, with the date where it is not today's.
func clock(l lang, now, t time.Time) string {
	t = t.In(now.Location())
	ny, nm, nd := now.Date()
	y, m, d := t.Date()
	switch {
	case y == ny && m == nm && d == nd:
		return t.Format("15:04:05")
	case l == chinese && y == ny:
		return fmt.Sprintf("%d月%d日 %s", m, d, t.Format("15:04:05"))
	case l == chinese:
		return fmt.Sprintf("%d年%d月%d日 %s", y, m, d, t.Format("15:04:05"))
	case y == ny:
		return t.Format("2 Jan 15:04:05")
	}
	return t.Format("2 Jan 2006 15:04:05")
}

// remaining writes how long it is until a time, h:mm:ss, rounded up; stats.js writes the same.
func remaining(day string, now, t time.Time) string {
	s := max(0, int64((t.Sub(now)+time.Second-1)/time.Second))
	text := fmt.Sprintf("%d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d %s %s", days, day, text)
	}
	return text
}
