package web

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"coding-proxy/pool"
)

func TestNegotiate(t *testing.T) {
	for header, want := range map[string]lang{
		"":                                    english,
		"en":                                  english,
		"zh":                                  chinese,
		"zh-CN":                               chinese,
		"zh-Hant-TW, en;q=0.9":                chinese,
		"ZH-cn;Q=0.8, en;q=0.7":               chinese,
		"en-US,en;q=0.9,zh;q=0.8":             english,
		"en;q=0.3, zh;q=0.8":                  chinese,
		"fr, zh;q=0.5, en;q=0.4":              chinese,
		"fr, de":                              english,
		"*":                                   english,
		"zh;q=0.1, *;q=0.5":                   english,
		"zh;q=0, en;q=0.1":                    english,
		"en;q=0, zh;q=0.1":                    chinese,
		"zh, en":                              chinese,
		"en, zh":                              english,
		"zh;q=2, en;q=0.1":                    english,
		"zh;q=x, en;q=0.1":                    english,
		"zh;q=NaN, en;q=0.1":                  english,
		";;,,zh ; q=0.5,":                     chinese,
		"zhx":                                 english,
		strings.Repeat("fr;q=0.1,", 5) + "zh": chinese,
	} {
		if got := negotiate(header); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// The parameter beats the cookie, that beats the browser's wish; a choice stays in the links and in a cookie.
func TestLanguageIsKept(t *testing.T) {
	for _, c := range []struct {
		url    string
		header []string
		want   lang
		cookie string
	}{
		{"/stats", nil, english, ""},
		{"/stats", []string{"Accept-Language: zh"}, chinese, ""},
		{"/stats", []string{"Accept-Language: en;q=0.5", "Accept-Language: zh"}, chinese, ""},
		{"/stats", []string{"Accept-Language: zh", "Cookie: lang=en"}, english, ""},
		{"/stats", []string{"Cookie: lang=fr"}, english, ""},
		{"/stats?lang=zh", []string{"Accept-Language: en", "Cookie: lang=en"}, chinese, "lang=zh; Path=/stats; Max-Age=31536000; HttpOnly; SameSite=Strict"},
	} {
		w := small().ask(t, "GET", c.url, c.header...)
		if !strings.Contains(w.Body.String(), `<html lang="`+c.want.tag()+`">`) || w.Header().Get("Set-Cookie") != c.cookie {
			t.Errorf("%s %s: cookie %q, %.60q", c.url, c.header, w.Header().Get("Set-Cookie"), w.Body.String())
		}
	}
	body := get(t, "/stats?lang=zh&window=week").Body.String()
	for _, link := range []string{"/stats/pool?lang=zh", "/stats/pool/usage?lang=zh", "/stats?lang=zh&amp;window=month", "/stats?lang=en&amp;window=week"} {
		if !strings.Contains(body, `href="`+link+`"`) {
			t.Errorf("no link to %s", link)
		}
	}
}

// Every text has both languages.
func TestTranslations(t *testing.T) {
	latin := regexp.MustCompile(`^[\x00-\x7f–’]+$`)
	for _, table := range []map[string]phrase{phrases(), words()} {
		for key, p := range table {
			if p.en == "" || p.zh == "" || !latin.MatchString(p.en) || latin.MatchString(p.zh) && p.zh != "% / %" && key != "product" {
				t.Errorf("%s: %q, %q", key, p.en, p.zh)
			}
			if strings.Count(p.en, "%") != strings.Count(p.zh, "%") {
				t.Errorf("%s: not as much is filled in: %q, %q", key, p.en, p.zh)
			}
		}
	}
	sources := ""
	files, err := templates.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := templates.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		sources += string(data)
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\bth? "([^"]+)"`).FindAllStringSubmatch(sources, -1) {
		used[m[1]] = true
		if _, ok := phrases()[m[1]]; !ok {
			t.Errorf("a template wants %q, which has no text", m[1])
		}
	}
	for key := range phrases() {
		family, _, _ := strings.Cut(key, ".")
		switch family {
		case "page", "intro", "window", "figure": // by name
		default:
			if !used[key] {
				t.Errorf("no template wants %q", key)
			}
		}
	}
}

// Every word that the pool has for a state, a reason or a gate is translated.
func TestWordsOfThePool(t *testing.T) {
	known := words()
	need := []string{
		"limit:healthy", "limit:tight", "limit:exhausted", "tier:open", "tier:refusing", "breaker:closed", "breaker:open", "breaker:half_open",
		"guard:within", "guard:exceeded", "by:budget", "by:cap", "key:parked", "reason:breaker_open", "reason:breaker_half_open", "reason:quota_guard",
	}
	for c := pool.OK; c <= pool.UnknownModel; c++ {
		need = append(need, "reason:"+c.String())
	}
	for g := pool.Gate(0); g < 64; g++ {
		need = append(need, "key:"+g.String())
	}
	for _, k := range need {
		if _, ok := known[k]; !ok {
			t.Errorf("no word for %s", k)
		}
	}
	for _, c := range []struct{ word, en, zh string }{
		{"environment variable A_B is not set", "environment variable A_B is not set", "环境变量 A_B 未设置"},
		{"environment variable % is empty", "environment variable % is empty", "环境变量 % 为空"},
		{"an operator's own text", "an operator's own text", "an operator's own text"},
		{"", "", ""},
	} {
		if en, zh := newTranslator(english).word("reason", c.word), newTranslator(chinese).word("reason", c.word); en != c.en || zh != c.zh {
			t.Errorf("%q: %q, %q", c.word, en, zh)
		}
	}
}

func TestMissingTextIsAFault(t *testing.T) {
	if _, err := newTranslator(english).text("nothing"); err == nil {
		t.Error("no error")
	}
	if _, err := newTranslator(english).html("nothing"); err == nil {
		t.Error("no error")
	}
}

func TestFormats(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100", 9223372036854775807: "9,223,372,036,854,775,807"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s", n, got)
		}
	}
	for d, want := range map[time.Duration]string{
		-time.Second: "0:00:00", 0: "0:00:00", time.Millisecond: "0:00:01", 59 * time.Second: "0:00:59", 3661 * time.Second: "1:01:01", 50 * time.Hour: "2 d 2:00:00",
	} {
		if got := remaining("d", noon(), noon().Add(d)); got != want {
			t.Errorf("%s: %s", d, got)
		}
	}
	for _, c := range []struct {
		l    lang
		at   time.Time
		want string
	}{
		{english, noon(), "12:00:00"}, {english, noon().AddDate(0, 0, 1), "5 Mar 12:00:00"}, {english, noon().AddDate(1, 0, 0), "4 Mar 2027 12:00:00"},
		{chinese, noon().AddDate(0, 0, 1), "3月5日 12:00:00"}, {chinese, noon().AddDate(1, 0, 0), "2027年3月4日 12:00:00"},
		{english, noon().In(time.FixedZone("", 7200)), "12:00:00"},
	} {
		if got := clock(c.l, noon(), c.at); got != c.want {
			t.Errorf("%s: %s", c.at, got)
		}
	}
}
