package daemon

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The rules of promtool check metrics, and those of prometheus.io/docs/practices/naming.

var (
	notBaseUnit  = regexp.MustCompile(`_(milli|micro|nano|kilo|mega|giga|mebi|gibi)?(minutes|hours|days|weeks|bits)(_|$)|_(milli|micro|nano|kilo|mega|giga|kibi|mebi|gibi)(seconds|bytes)(_|$)`)
	abbreviation = regexp.MustCompile(`_(s|ms|us|ns|sec|b|kb|mb|gb|tb|pb|m|h|d)(_|$)`)
	typeInName   = regexp.MustCompile(`_(counter|gauge|histogram|summary)(_|$)`)
	camelCase    = regexp.MustCompile(`[a-z][A-Z]`)
	ourPrefix    = regexp.MustCompile(`^(coding_proxy|process|go)_`)
)

// unitOf are the units that words in a name ask for.
func unitOf() map[string]string {
	return map[string]string{"duration": "seconds", "time": "seconds", "cpu": "seconds", "memstats": "bytes", "heap": "bytes", "waiting": "bytes",
		"cost": "usd", "used": "tokens", "limit": "tokens", "budget": "tokens"}
}

// lintExposition says what is wrong with names, types and labels.
func lintExposition(families []*expoFamily) (problems []string) {
	for _, f := range families {
		wrong := func(when bool, what string) {
			if when {
				problems = append(problems, f.name+": "+what)
			}
		}
		base := strings.TrimSuffix(f.name, "_total")
		wrong(strings.TrimSpace(f.help) == "", "no help")
		wrong(f.kind == "" || f.kind == "untyped", "no type")
		wrong(f.kind == "counter" && base == f.name, "a counter that does not end in _total")
		wrong(f.kind != "counter" && base != f.name, "no counter, and ends in _total")
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			wrong(strings.HasSuffix(base, suffix), "ends in "+suffix)
		}
		wrong(strings.Contains(f.name, ":"), "a colon in the name")
		wrong(!ourPrefix.MatchString(f.name), "no prefix of this program")
		wrong(notBaseUnit.MatchString(f.name), "not a base unit")
		wrong(abbreviation.MatchString(f.name), "a unit is abbreviated")
		wrong(typeInName.MatchString(f.name), "the type is in the name")
		wrong(camelCase.MatchString(f.name), "not in snake_case")
		for word, unit := range unitOf() {
			wrong(slices.Contains(strings.Split(base, "_"), word) && !strings.HasSuffix(base, "_"+unit), "no unit")
		}
		problems = append(problems, lintLabels(f)...)
	}
	return problems
}

// lintLabels says what is wrong with the labels of a family.
func lintLabels(f *expoFamily) (problems []string) {
	var first []string
	for i, s := range f.samples {
		var names []string
		for _, l := range s.labels {
			if l[0] == "le" && f.kind == "histogram" {
				continue
			}
			names = append(names, l[0])
			if l[0] == "le" || l[0] == "quantile" || strings.HasPrefix(l[0], "__") || camelCase.MatchString(l[0]) {
				problems = append(problems, f.name+": the label "+l[0])
			}
		}
		if i == 0 {
			first = names
		}
		if !slices.Equal(first, names) {
			problems = append(problems, f.name+": series with different labels")
		}
	}
	return problems
}

// The examples of the specification are read as what they say.
func TestExpositionParser(t *testing.T) {
	t.Parallel()
	families, err := parseExposition(`
# HELP http_requests_total The total number of HTTP requests.
# TYPE http_requests_total counter
http_requests_total{method="post",code="200"} 1027 1395066363000
http_requests_total{method="post",code="400"}    3 1395066363000

# Escaping in label values:
msdos_file_access_time_seconds{path="C:\\DIR\\FILE.TXT",error="Cannot find file:\n\"FILE.TXT\""} 1.458255915e9

# Minimalistic line:
metric_without_timestamp_and_labels 12.47

# A weird metric from before the epoch:
something_weird{problem="division by zero"} +Inf -3982045
` + "\t # TYPE\tspaced   gauge \n  spaced { a = \"}\" , b=\"\", }  \t-Inf \nspaced{}NaN\n" + `
# HELP http_request_duration_seconds A histogram of\n the request \\ duration.
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{le="0.05"} 24054
http_request_duration_seconds_bucket{le="1"} 133988
http_request_duration_seconds_bucket{le="+Inf"} 144320
http_request_duration_seconds_sum 53423
http_request_duration_seconds_count 144320
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range families {
		got = append(got, fmt.Sprintf("%s %q %q", f.name, f.kind, f.help))
		for _, s := range f.samples {
			got = append(got, fmt.Sprint("  ", s.series(), " ", s.value))
		}
	}
	want := `http_requests_total "counter" "The total number of HTTP requests."
  http_requests_total[["code" "200"] ["method" "post"]] 1027
  http_requests_total[["code" "400"] ["method" "post"]] 3
msdos_file_access_time_seconds "" ""
  msdos_file_access_time_seconds[["error" "Cannot find file:\n\"FILE.TXT\""] ["path" "C:\\DIR\\FILE.TXT"]] 1.458255915e+09
metric_without_timestamp_and_labels "" ""
  metric_without_timestamp_and_labels[] 12.47
something_weird "" ""
  something_weird[["problem" "division by zero"]] +Inf
spaced "gauge" ""
  spaced[["a" "}"] ["b" ""]] -Inf
  spaced[] NaN
http_request_duration_seconds "histogram" "A histogram of\n the request \\ duration."
  http_request_duration_seconds_bucket[["le" "0.05"]] 24054
  http_request_duration_seconds_bucket[["le" "1"]] 133988
  http_request_duration_seconds_bucket[["le" "+Inf"]] 144320
  http_request_duration_seconds_sum[] 53423
  http_request_duration_seconds_count[] 144320`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("read as\n%s\nwant\n%s", text, want)
	}
}

// What the specification does not allow is refused, each for its own reason.
func TestExpositionParserRefuses(t *testing.T) {
	t.Parallel()
	const head = "# TYPE h histogram\n"
	for text, why := range map[string]string{
		"a 1":           "line feed",
		"a 1\xff\n":     "UTF-8",
		"a\n":           "no value",
		"a \n":          "no value",
		"1a 1\n":        "metric's name",
		"a-b 1\n":       "metric's name",
		"{x=\"y\"} 1\n": "metric's name",
		"é 1\n":         "metric's name",
		"a one\n":       "invalid syntax",
		"a 1 x\n":       "invalid syntax",
		"a 1 1.5\n":     "invalid syntax",
		"a 1 2 3\n":     "timestamp",
		"a 1,5\n":       "invalid syntax",

		`a{x="y} 1` + "\n":         "no end",
		`a{x="y"z="w"} 1` + "\n":   "no comma",
		`a{x="y",,z="w"} 1` + "\n": "not a label",
		`a{,} 1` + "\n":            "not a label",
		`a{x} 1` + "\n":            "not a label",
		`a{x=y} 1` + "\n":          "not a label",
		`a{x:y="z"} 1` + "\n":      "not a label",
		`a{0x="z"} 1` + "\n":       "not a label",
		`a{x="y"` + "\n":           "no comma",
		`a{x="\t"} 1` + "\n":       "escape",
		`a{x="\é"} 1` + "\n":       "escape",
		`a{x="y\"} 1` + "\n":       "no end",
		"a{x=\"y\nz\"} 1\n":        "no end",
		`a{x="y",x="z"} 1` + "\n":  "label for the second time",
		"a 1\na 2\n":               "series for the second time",
		"a 1\na{} 2\n":             "series for the second time",
		`a{x="1",y="2"} 1` + "\n" + `a{y="2",x="1"} 1` + "\n": "series for the second time",

		"a 1\nb 1\na{x=\"y\"} 1\n":                         "apart",
		"# HELP a x\n# HELP b x\na 1\nb 1\n":               "apart",
		"# TYPE a gauge\n# TYPE a gauge\na 1\n":            "TYPE for the second time",
		"# HELP a x\n# HELP a x\na 1\n":                    "HELP for the second time",
		"a 1\n# TYPE a gauge\n":                            "behind samples",
		"a 1\n# HELP a x\n":                                "behind samples",
		"# TYPE a\n":                                       "takes a name and a type",
		"# TYPE a number\n":                                "takes a name and a type",
		"# TYPE a gauge more\n":                            "takes a name and a type",
		"# HELP\n":                                         "metric's name",
		"# HELP a \\x\n":                                   "escape",
		"# HELP a \\\n":                                    "backslash",
		"# HELP a \\\"\n":                                  "escape",
		"# TYPE a counter\na -1\n":                         "a counter of",
		"# TYPE a counter\na NaN\n":                        "a counter of",
		head + "h 1\n":                                     "does not belong",
		head + "h_bucket 1\nh_sum 1\nh_count 1\n":          "invalid syntax",
		head + "h_sum 1\nh_count 1\n":                      "+Inf",
		head + "h_sum{le=\"1\"} 1\nh_count 1\n":            "does not belong",
		head + buckets("1", 1) + "h_sum 1\nh_count 1\n":    "+Inf",
		head + buckets("+Inf", 1) + "h_sum 1\nh_count 2\n": "+Inf",
		head + buckets("+Inf", 1) + "h_sum 1\n":            "no count",
		head + buckets("+Inf", 1) + "h_count 1\n":          "no sum",
		head + buckets("1", 2) + buckets("+Inf", 1) + "h_sum 1\nh_count 1\n":            "not cumulative",
		head + buckets("2", 1) + buckets("1", 1) + buckets("+Inf", 1) + "h_count 1\n":   "out of order",
		head + buckets("1", 1) + buckets("1.0", 1) + buckets("+Inf", 1) + "h_count 1\n": "out of order",
	} {
		if _, err := parseExposition(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

func buckets(le string, n int) string { return fmt.Sprintf("h_bucket{le=%q} %d\n", le, n) }

// Each rule finds what it is for, and nothing else.
func TestExpositionLintCanFail(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"# HELP go_x X.\n# TYPE go_x gauge\ngo_x 1\n":                                        "",
		"# TYPE go_x gauge\ngo_x 1\n":                                                        "no help",
		"# HELP go_x X.\ngo_x 1\n":                                                           "no type",
		"# HELP go_x X.\n# TYPE go_x counter\ngo_x 1\n":                                      "does not end in _total",
		"# HELP go_x_total X.\n# TYPE go_x_total gauge\ngo_x_total 1\n":                      "no counter",
		"# HELP go_x_count X.\n# TYPE go_x_count gauge\ngo_x_count 1\n":                      "ends in _count",
		"# HELP go_x_sum_total X.\n# TYPE go_x_sum_total counter\ngo_x_sum_total 1\n":        "ends in _sum",
		"# HELP go_x:y X.\n# TYPE go_x:y gauge\ngo_x:y 1\n":                                  "colon",
		"# HELP x X.\n# TYPE x gauge\nx 1\n":                                                 "prefix",
		"# HELP go_x_milliseconds X.\n# TYPE go_x_milliseconds gauge\ngo_x_milliseconds 1\n": "base unit",
		"# HELP go_x_hours X.\n# TYPE go_x_hours gauge\ngo_x_hours 1\n":                      "base unit",
		"# HELP go_x_mb X.\n# TYPE go_x_mb gauge\ngo_x_mb 1\n":                               "abbreviated",
		"# HELP go_x_gauge X.\n# TYPE go_x_gauge gauge\ngo_x_gauge 1\n":                      "type is in the name",
		"# HELP go_xY X.\n# TYPE go_xY gauge\ngo_xY 1\n":                                     "snake_case",
		"# HELP go_duration X.\n# TYPE go_duration gauge\ngo_duration 1\n":                   "no unit",
		"# HELP go_cost_total X.\n# TYPE go_cost_total counter\ngo_cost_total 1\n":           "no unit",
		"# HELP go_x X.\n# TYPE go_x gauge\ngo_x{le=\"1\"} 1\n":                              "the label le",
		"# HELP go_x X.\n# TYPE go_x gauge\ngo_x{__a=\"1\"} 1\n":                             "the label __a",
		"# HELP go_x X.\n# TYPE go_x gauge\ngo_x{a=\"1\"} 1\ngo_x{b=\"1\"} 1\n":              "different labels",
	} {
		families, err := parseExposition(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		problems := lintExposition(families)
		if len(problems) > 1 || strings.Join(problems, "") != "" != (want != "") || !strings.Contains(strings.Join(problems, ""), want) {
			t.Errorf("%q: %q, want %q", text, problems, want)
		}
	}
}
