package daemon

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A reader of Prometheus's text format, version 0.0.4, written from its specification alone
// (prometheus.io/docs/instrumenting/exposition_formats): what it does not allow is an error here.

// expoFamily is one metric with its lines.
type expoFamily struct {
	name, kind, help string // kind "" is untyped, without a TYPE line
	helped           bool
	samples          []expoSample
}

// expoSample is one line. Its labels are in the order of their names.
type expoSample struct {
	name   string
	labels [][2]string
	value  float64
}

// series names a sample: no two may be equal.
func (s expoSample) series() string { return fmt.Sprintf("%s%q", s.name, s.labels) }

// label is the value of a label, "" where there is none: the two mean the same.
func (s expoSample) label(name string) string {
	for _, l := range s.labels {
		if l[0] == name {
			return l[1]
		}
	}
	return ""
}

// without is the sample's labels but one.
func (s expoSample) without(name string) string {
	return fmt.Sprintf("%q", slices.DeleteFunc(slices.Clone(s.labels), func(l [2]string) bool { return l[0] == name }))
}

// expoParser reads line by line.
type expoParser struct {
	families []*expoFamily
	seen     map[string]bool // series
}

// parseExposition reads a whole text.
func parseExposition(text string) ([]*expoFamily, error) {
	p := &expoParser{seen: map[string]bool{}}
	switch {
	case !utf8.ValidString(text):
		return nil, errors.New("not UTF-8")
	case text != "" && !strings.HasSuffix(text, "\n"):
		return nil, errors.New("the last line does not end with a line feed")
	}
	for n, line := range strings.Split(text, "\n") {
		if err := p.line(strings.Trim(line, " \t")); err != nil {
			return nil, fmt.Errorf("line %d: %w: %s", n+1, err, line)
		}
	}
	for _, f := range p.families {
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
	}
	return p.families, nil
}

func (p *expoParser) line(line string) error {
	switch {
	case line == "":
		return nil
	case line[0] != '#':
		return p.sample(line)
	}
	word, rest := nextToken(line[1:])
	switch word {
	case "HELP":
		return p.help(rest)
	case "TYPE":
		return p.typed(rest)
	}
	return nil // a comment
}

// nextToken is the first token of a text, and what is behind it.
func nextToken(text string) (word, rest string) {
	text = strings.TrimLeft(text, " \t")
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], strings.TrimLeft(text[i:], " \t")
	}
	return text, ""
}

func (p *expoParser) help(text string) error {
	name, doc := nextToken(text)
	f, err := p.group(name)
	if err != nil {
		return err
	}
	if f.helped || len(f.samples) > 0 {
		return errors.New("HELP for the second time or behind samples")
	}
	f.helped = true
	f.help, err = unescape(doc, `\n`)
	return err
}

func (p *expoParser) typed(text string) error {
	name, rest := nextToken(text)
	kind, more := nextToken(rest)
	if more != "" || !slices.Contains([]string{"counter", "gauge", "histogram", "summary", "untyped"}, kind) {
		return errors.New("TYPE takes a name and a type")
	}
	f, err := p.group(name)
	if err != nil {
		return err
	}
	if f.kind != "" || len(f.samples) > 0 {
		return errors.New("TYPE for the second time or behind samples")
	}
	f.kind = kind
	return nil
}

// group is the family of a name: the last one or a new one, since the lines of each are one uninterrupted group.
func (p *expoParser) group(name string) (*expoFamily, error) {
	if !isMetricName(name) {
		return nil, errors.New("not a metric's name")
	}
	i := slices.IndexFunc(p.families, func(f *expoFamily) bool { return f.name == name })
	switch {
	case i < 0:
		p.families = append(p.families, &expoFamily{name: name})
		return p.families[len(p.families)-1], nil
	case i < len(p.families)-1:
		return nil, errors.New("the lines of a metric are apart")
	}
	return p.families[i], nil
}

// familyOf is the name of a sample's metric: that of a histogram or summary has suffixes.
func (p *expoParser) familyOf(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok {
			continue
		}
		for _, f := range p.families {
			if f.name == base && (f.kind == "histogram" || f.kind == "summary" && suffix != "_bucket") {
				return base
			}
		}
	}
	return name
}

func (p *expoParser) sample(line string) error {
	end := strings.IndexAny(line, "{ \t")
	if end < 0 {
		return errors.New("no value")
	}
	s := expoSample{name: line[:end]}
	rest := strings.TrimLeft(line[end:], " \t")
	if strings.HasPrefix(rest, "{") {
		var err error
		if s.labels, rest, err = readLabels(rest[1:]); err != nil {
			return err
		}
	}
	number, rest := nextToken(rest)
	stamp, more := nextToken(rest)
	var err error
	if s.value, err = strconv.ParseFloat(number, 64); err != nil {
		return err
	}
	if stamp != "" {
		if _, err := strconv.ParseInt(stamp, 10, 64); err != nil {
			return err
		}
	}
	if more != "" {
		return errors.New("something behind the timestamp")
	}
	f, err := p.group(p.familyOf(s.name))
	if err != nil || !isMetricName(s.name) {
		return errors.Join(err, errors.New("not a sample"))
	}
	slices.SortFunc(s.labels, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	if p.seen[s.series()] {
		return errors.New("a series for the second time")
	}
	p.seen[s.series()] = true
	f.samples = append(f.samples, s)
	return nil
}

// readLabels reads what is behind the opening brace.
func readLabels(text string) (labels [][2]string, rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t")
		if rest, ok := strings.CutPrefix(text, "}"); ok {
			return labels, rest, nil
		}
		name, value, ok := strings.Cut(text, "=")
		name, value = strings.TrimRight(name, " \t"), strings.TrimLeft(value, " \t")
		if !ok || !isLabelName(name) || !strings.HasPrefix(value, `"`) {
			return nil, "", errors.New("not a label")
		}
		if slices.ContainsFunc(labels, func(l [2]string) bool { return l[0] == name }) {
			return nil, "", errors.New("a label for the second time")
		}
		end := closingQuote(value[1:])
		if end < 0 {
			return nil, "", errors.New("a label's value has no end")
		}
		plain, err := unescape(value[1:1+end], `"\n`)
		if err != nil {
			return nil, "", err
		}
		labels = append(labels, [2]string{name, plain})
		text = strings.TrimLeft(value[1+end+1:], " \t")
		if next, ok := strings.CutPrefix(text, ","); ok {
			text = next
		} else if !strings.HasPrefix(text, "}") {
			return nil, "", errors.New("no comma between labels")
		}
	}
}

// closingQuote is where a label's value ends, -1 where it does not.
func closingQuote(s string) int {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// unescape reads \\, \n and, where among names it is there, \".
func unescape(s, allowed string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		switch {
		case i == len(s):
			return "", errors.New("a backslash at the end")
		case s[i] == '\\':
			b.WriteByte('\\')
		case s[i] == 'n':
			b.WriteByte('\n')
		case s[i] == '"' && strings.HasPrefix(allowed, `"`):
			b.WriteByte('"')
		default:
			return "", fmt.Errorf("an escape that there is not: %q", s[i-1:i+1])
		}
	}
	return b.String(), nil
}

func isMetricName(s string) bool { return s != "" && nameEnd(s, true) == len(s) }

func isLabelName(s string) bool { return s != "" && nameEnd(s, false) == len(s) }

// nameEnd is where the name at the beginning of s ends; colons are for metrics alone.
func nameEnd(s string, colons bool) int {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c != ':' || !colons) && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(s)
}

// check is what holds for a family as a whole.
func (f *expoFamily) check() error {
	switch f.kind {
	case "counter":
		for _, s := range f.samples {
			if !(s.value >= 0) {
				return fmt.Errorf("a counter of %v", s.value)
			}
		}
	case "histogram":
		return f.checkHistograms()
	}
	return nil
}

// checkHistograms checks each of the family's histograms: increasing bounds, cumulative counts, and a sum and a count that
// equals the last bucket.
func (f *expoFamily) checkHistograms() error {
	type state struct {
		bound, count float64 // of the last bucket
		total, sum   bool
	}
	all := map[string]*state{}
	at := func(s expoSample) *state {
		key := s.without("le")
		if all[key] == nil {
			all[key] = &state{bound: math.Inf(-1)}
		}
		return all[key]
	}
	for _, s := range f.samples {
		if s.name != f.name+"_bucket" {
			if s.name == f.name || s.label("le") != "" {
				return fmt.Errorf("%s does not belong into a histogram", s.series())
			}
			continue
		}
		bound, err := strconv.ParseFloat(s.label("le"), 64)
		if err != nil {
			return err
		}
		h := at(s)
		if !(bound > h.bound) || !(s.value >= h.count) {
			return fmt.Errorf("%s is out of order or not cumulative", s.series())
		}
		h.bound, h.count = bound, s.value
	}
	for _, s := range f.samples {
		h := at(s)
		switch s.name {
		case f.name + "_count":
			if h.total = true; s.value != h.count || !math.IsInf(h.bound, 1) {
				return fmt.Errorf("%s is not the bucket of +Inf", s.series())
			}
		case f.name + "_sum":
			h.sum = true
		}
	}
	for labels, h := range all {
		if !h.total || !h.sum {
			return fmt.Errorf("the histogram of %s has no count or no sum", labels)
		}
	}
	return nil
}
