package web

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"coding-proxy/stats"
)

// Prometheus's text format, version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats).

const expositionType = "text/plain; version=0.0.4; charset=utf-8"

// The kinds of families that are shown here.
const (
	counter   = "counter"
	gauge     = "gauge"
	histogram = "histogram"
)

// family is a metric and its series. A series that is added to twice is one, with the sum: no label may make two alike.
type family struct {
	name, kind, help string
	labels           []string
	series           map[string]float64 // by label text
}

func newFamily(name, kind, help string, labels ...string) *family {
	return &family{name, kind, help, labels, map[string]float64{}}
}

// add adds v to the series with these label values.
func (f *family) add(v float64, values ...string) {
	f.series[labelText(f.labels, values)] += v
}

// append appends the family, its series in order; nothing where there are none.
func (f *family) append(b []byte) []byte {
	if len(f.series) == 0 {
		return b
	}
	b = appendHead(b, f.name, f.kind, f.help)
	texts := make([]string, 0, len(f.series))
	for text := range f.series {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	for _, text := range texts {
		b = appendSample(b, f.name, text, f.series[text])
	}
	return b
}

// labelText is label values as the format has them between braces. What is not UTF-8 becomes the replacement character.
func labelText(names, values []string) string {
	var b []byte
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(b, name...), `="`...)
		b = append(appendEscaped(b, strings.ToValidUTF8(values[i], "\uFFFD"), true), '"')
	}
	return string(b)
}

// appendEscaped makes any text a help text, or a label value.
func appendEscaped(b []byte, s string, label bool) []byte {
	for _, r := range s {
		switch {
		case r == '\\' || r == '"' && label:
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

func appendHead(b []byte, name, kind, help string) []byte {
	b = append(b, "# HELP "+name+" "...)
	b = appendEscaped(b, help, false)
	return append(b, "\n# TYPE "+name+" "+kind+"\n"...)
}

func appendSample(b []byte, name, labels string, value float64) []byte {
	b = append(b, name...)
	if labels != "" {
		b = append(b, '{')
		b = append(b, labels...)
		b = append(b, '}')
	}
	b = append(b, ' ')
	b = appendValue(b, value)
	return append(b, '\n')
}

// appendValue writes whole numbers without an exponent, for people.
func appendValue(b []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.AppendInt(b, int64(v), 10)
	}
	return strconv.AppendFloat(b, v, 'g', -1, 64)
}

// appendHistogram appends one histogram of a family in seconds: cumulative buckets, the sum, the count.
func appendHistogram(b []byte, name, labels string, h stats.Histogram) []byte {
	bounds, below := stats.Bounds(), int64(0)
	for i, n := range h.Counts {
		below += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(inSeconds(bounds[i]), 'g', -1, 64)
		}
		b = appendSample(b, name+"_bucket", labels+`,le="`+le+`"`, float64(below))
	}
	b = appendSample(b, name+"_sum", labels, inSeconds(h.SumMS))
	return appendSample(b, name+"_count", labels, float64(below))
}

func inSeconds(ms int64) float64 { return float64(ms) / 1000 }
