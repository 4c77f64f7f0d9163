package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"coding-proxy/auth/oauth"
)

// value is a node and where it stands. The zero value stands nowhere: nothing was given.
type value struct {
	*node
	path   string
	nameAt position // of the field's name; of the value itself in a list
}

func (v value) given() bool { return v.node != nil }

// str is a string of the file, variables replaced.
type str struct {
	value
	text string
}

// written is the text as the file has it.
func (s str) written() string {
	if !s.given() {
		return ""
	}
	return s.node.text
}

// entry is one member of an object whose names are the user's.
type entry struct {
	str
	field string
}

// missing is a variable that the file names and the environment does not have.
type missing struct {
	at       value
	variable string
	effect   string // what follows from it
	moot     bool   // nothing follows, the text is not used
}

// decoder collects what is wrong while a file is taken apart.
type decoder struct {
	lookup   func(string) (string, bool)
	problems []Problem
	warnings []Problem
	missing  []*missing
	named    map[string]bool         // variables that the file names
	seen     map[string]value        // by path
	logins   map[string]oauth.Client // of `oauth`, once all is read
}

// field is a name that an object may have. The tables of fields are the format of the file.
type field struct {
	name string
	read reader
}

type reader func(*decoder, value)

func (d *decoder) problem(at position, path, format string, args ...any) {
	d.problems = append(d.problems, Problem{at.line, at.column, path, fmt.Sprintf(format, args...)})
}

// fail reports a value.
func (d *decoder) fail(v value, format string, args ...any) {
	var at position
	if v.given() {
		at = v.at
	}
	d.problem(at, v.path, format, args...)
}

// hasProblem reports whether something below v is wrong already.
func (d *decoder) hasProblem(v value) bool {
	return slices.ContainsFunc(d.problems, func(p Problem) bool { return strings.HasPrefix(p.Path, v.path+".") })
}

func (d *decoder) warn(v value, format string, args ...any) {
	p := Problem{Path: v.path, Text: fmt.Sprintf(format, args...)}
	if v.given() {
		p.Line, p.Column = v.at.line, v.at.column
	}
	d.warnings = append(d.warnings, p)
}

// require reports a field that is not there.
func (d *decoder) require(v value, of value, name string) bool {
	if !v.given() {
		d.fail(of, "`%s` is required", name)
	}
	return v.given()
}

func (d *decoder) is(v value, k kind) bool {
	if v.kind != k {
		d.fail(v, "must be %s, not %s", k, v.kind)
	}
	return v.kind == k
}

// needsItem reports a list or object, as k says, without anything in it.
func (d *decoder) needsItem(v value, k kind, why string) {
	if v.kind == k && len(v.items)+len(v.members) == 0 {
		d.fail(v, "must not be empty: %s", why)
	}
}

// members returns the fields of an object, each once.
func (d *decoder) members(v value, each func(name string, v value)) {
	if !d.is(v, kindObject) {
		return
	}
	first := make(map[string]position)
	for _, m := range v.members {
		path := fieldPath(v.path, m.name)
		if at, twice := first[m.name]; twice {
			d.problem(m.at, path, "given twice; first in line %d", at.line)
			continue
		}
		first[m.name] = m.at
		each(m.name, value{m.value, path, m.at})
	}
}

// object reads the known fields of v and reports all others.
func (d *decoder) object(v value, fields []field) {
	var names []string
	for _, f := range fields {
		names = append(names, f.name)
	}
	d.members(v, func(name string, v value) {
		i := slices.Index(names, name)
		if i < 0 {
			d.problem(v.nameAt, v.path, "unknown field%s", didYouMean(name, names))
			return
		}
		d.seen[v.path] = v
		fields[i].read(d, v)
	})
}

// list calls each for the items of v.
func (d *decoder) list(v value, each func(value)) {
	if !d.is(v, kindList) {
		return
	}
	for i, item := range v.items {
		each(value{item, fmt.Sprintf("%s[%d]", v.path, i), item.at})
	}
}

// str reads a string and replaces ${NAME} in it.
func (d *decoder) str(v value) (str, bool) {
	if !d.is(v, kindString) {
		return str{}, false
	}
	text, names, unset := expand(v.text, d.lookup)
	for _, n := range names {
		d.named[n] = true
	}
	for _, n := range unset {
		d.missing = append(d.missing, &missing{at: v, variable: n})
	}
	return str{v, text}, true
}

// The readers of single values. A check says what is wrong with a text, "" is nothing.

func section(fields []field) reader {
	return func(d *decoder, v value) { d.object(v, fields) }
}

func list(each reader) reader {
	return func(d *decoder, v value) { d.list(v, func(item value) { each(d, item) }) }
}

func boolean(to *bool) reader {
	return func(d *decoder, v value) {
		if d.is(v, kindBool) {
			*to = v.node.text == "true"
		}
	}
}

func number(to *float64, least, most float64) reader {
	return func(d *decoder, v value) {
		if !d.is(v, kindNumber) {
			return
		}
		n, err := strconv.ParseFloat(v.node.text, 64)
		if err != nil || n < least || n > most {
			d.fail(v, "must be between %v and %v", least, most)
			return
		}
		*to = n
	}
}

// integer takes 5e6 too: whole is what counts, not how it is written.
func integer[T int | int64](to *T, least, most T) reader {
	return func(d *decoder, v value) {
		if !d.is(v, kindNumber) {
			return
		}
		n, err := strconv.ParseFloat(v.node.text, 64)
		if err != nil || n != math.Trunc(n) || n < float64(least) || n > float64(most) {
			d.fail(v, "must be a whole number between %d and %d", least, most)
			return
		}
		*to = T(n)
	}
}

// duration reads a number of units, fractions too.
func duration(to *time.Duration, unit, least, most time.Duration) reader {
	return func(d *decoder, v value) {
		if !d.is(v, kindNumber) {
			return
		}
		n, err := strconv.ParseFloat(v.node.text, 64)
		low, high := float64(least)/float64(unit), float64(most)/float64(unit)
		if err != nil || n < low || n > high {
			d.fail(v, "must be between %v and %v", low, high)
			return
		}
		*to = time.Duration(math.Round(n * float64(unit)))
	}
}

func seconds(to *time.Duration) reader {
	return duration(to, time.Second, 0, maxSeconds)
}

func text(to *string, check func(string) string) reader {
	return func(d *decoder, v value) {
		s, ok := d.str(v)
		if !ok {
			return
		}
		if wrong := check(s.text); wrong != "" {
			d.fail(v, "%s%s", wrong, d.unset(v))
			return
		}
		*to = s.text
	}
}

// texts reads a list; what was there before, a default, is replaced even by an empty one.
func texts(to *[]string, check func(string) string) reader {
	return func(d *decoder, v value) {
		*to = []string{}
		d.list(v, func(item value) {
			var s string
			if text(&s, check)(d, item); s != "" {
				*to = append(*to, s)
			}
		})
	}
}

// keep reads a string whose check needs other fields.
func keep(to *str) reader {
	return func(d *decoder, v value) {
		if s, ok := d.str(v); ok {
			*to = s
		}
	}
}

// keepAll reads a list of such strings.
func keepAll(to *[]str) reader {
	return list(func(d *decoder, v value) {
		if s, ok := d.str(v); ok {
			*to = append(*to, s)
		}
	})
}

// entries reads an object whose names are the user's and whose values are strings.
func entries(to *[]entry) reader {
	return func(d *decoder, v value) {
		d.members(v, func(name string, v value) {
			if s, ok := d.str(v); ok {
				*to = append(*to, entry{s, name})
			}
		})
	}
}

// choice reads one of the names.
func choice[T ~string](to *T, names ...T) reader {
	return func(d *decoder, v value) {
		if s, ok := d.str(v); ok && d.oneOf(s, toStrings(names)) {
			*to = T(s.text)
		}
	}
}

// oneOf reports a string that is not one of the names.
func (d *decoder) oneOf(s str, names []string) bool {
	if slices.Contains(names, s.text) {
		return true
	}
	d.fail(s.value, "must be one of %s%s%s", quoteAll(names), didYouMean(s.text, names), d.unset(s.value))
	return false
}

func toStrings[T ~string](names []T) []string {
	var list []string
	for _, n := range names {
		list = append(list, string(n))
	}
	return list
}

// unset names the variables that v lacks, as the end of a sentence about it.
func (d *decoder) unset(v value) string {
	var end string
	for _, m := range d.missing {
		if m.at.node == v.node {
			end += fmt.Sprintf(" (environment variable %s is not set)", m.variable)
		}
	}
	return end
}
