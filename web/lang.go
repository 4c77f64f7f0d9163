package web

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// lang is a language of the pages.
type lang string

const (
	english lang = "en"
	chinese lang = "zh"
)

// langs lists the languages, the default first.
func langs() []lang { return []lang{english, chinese} }

// tag is what <html lang> says.
func (l lang) tag() string {
	if l == chinese {
		return "zh-CN"
	}
	return "en"
}

const langCookie = "lang"

// language returns the language of a page: the one asked for by the parameter (chosen), else by the cookie, else the
// one that the browser likes most.
func language(r *http.Request) (l lang, chosen bool, err error) {
	if q := r.URL.Query(); q.Has("lang") {
		if l = lang(q.Get("lang")); !slices.Contains(langs(), l) {
			return "", false, &Error{http.StatusBadRequest, "invalid_request_error", "lang must be en or zh"}
		}
		return l, true, nil
	}
	if c, err := r.Cookie(langCookie); err == nil && slices.Contains(langs(), lang(c.Value)) {
		return lang(c.Value), false, nil
	}
	return negotiate(strings.Join(r.Header.Values("Accept-Language"), ",")), false, nil
}

// remember makes the choice stay.
func remember(w http.ResponseWriter, l lang) {
	http.SetCookie(w, &http.Cookie{
		Name: langCookie, Value: string(l), Path: "/stats", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// negotiate reads Accept-Language (RFC 9110, 12.5.4). Of equal weights the first counts.
func negotiate(header string) lang {
	type wish struct {
		of     lang
		weight float64
	}
	var wishes []wish
	for part := range strings.SplitSeq(header, ",") {
		name, parameters, _ := strings.Cut(part, ";")
		primary, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(name)), "-")
		of := lang(primary)
		if primary == "*" {
			of = langs()[0]
		}
		if weight := quality(parameters); weight > 0 && slices.Contains(langs(), of) {
			wishes = append(wishes, wish{of, weight})
		}
	}
	if len(wishes) == 0 {
		return langs()[0]
	}
	slices.SortStableFunc(wishes, func(a, b wish) int { return cmp.Compare(b.weight, a.weight) })
	return wishes[0].of
}

// quality reads "q=0.5"; none is 1, one that cannot be read 0.
func quality(parameters string) float64 {
	text, ok := strings.CutPrefix(strings.ToLower(strings.ReplaceAll(parameters, " ", "")), "q=")
	if !ok {
		return 1
	}
	q, err := strconv.ParseFloat(text, 64)
	if err != nil || !(q >= 0 && q <= 1) {
		return 0
	}
	return q
}
