package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong. Line and Column count from 1, columns in characters; both are 0 for what stands
// in no file: a flag, an environment variable. Values of the file are never quoted in Text: any of them could be a key.
type Problem struct {
	Line, Column int
	Path, Text   string
}

// Problems is everything that is wrong with a configuration, sorted by place.
type Problems struct {
	File  string // "" = no file
	List  []Problem
	cause error
}

// Error gives one line a problem.
func (p *Problems) Error() string { return strings.Join(p.Lines(), "\n") }

// Lines gives the problems with their places.
func (p *Problems) Lines() []string { return render(p.File, p.List) }

// Unwrap gives the error of reading the file, if that was the problem.
func (p *Problems) Unwrap() error { return p.cause }

func render(file string, list []Problem) []string {
	var lines []string
	for _, p := range list {
		line := p.Text
		if p.Path != "" {
			line = p.Path + ": " + line
		}
		if p.Line > 0 {
			line = fmt.Sprintf("%s:%d:%d: %s", file, p.Line, p.Column, line)
		}
		lines = append(lines, line)
	}
	return lines
}

func sortByPlace(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// longestShown bounds the names of fields that are repeated in a problem, in characters. Providers' keys are longer,
// so one that was pasted in the place of a name is not shown.
const longestShown = 40

// fieldPath names a field of the object at parent.
func fieldPath(parent, name string) string {
	switch {
	case utf8.RuneCountInString(name) > longestShown:
		return parent + "[…]"
	case !isIdentifier(name):
		return parent + "[" + strconv.Quote(name) + "]"
	case parent == "":
		return name
	}
	return parent + "." + name
}

func isIdentifier(s string) bool {
	for _, c := range s {
		if c != '_' && c != '-' && !isAlphanumeric(c) {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c rune) bool {
	return '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// didYouMean is a half-sentence with the valid name that is nearest to name, or nothing if none is near.
func didYouMean(name string, valid []string) string {
	near := Nearest(name, valid)
	if near == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", near)
}

// Nearest returns the valid name that looks most like name, or "" when none is near.
func Nearest(name string, valid []string) string {
	if name == "" || len(name) > 2*longestShown {
		return ""
	}
	best, least := "", len(name)/3+2
	for _, v := range valid {
		if n := editDistance(name, v); n < least {
			best, least = v, n
		}
	}
	return best
}

// editDistance counts the bytes to insert, delete or replace to get from a to b.
func editDistance(a, b string) int {
	last, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			replace := last[j]
			if a[i] != b[j] {
				replace++
			}
			row[j+1] = min(replace, last[j+1]+1, row[j]+1)
		}
		last, row = row, last
	}
	return last[len(b)]
}

// quoteAll lists names for a message.
func quoteAll[T ~string](names []T) string {
	var quoted []string
	for _, n := range names {
		quoted = append(quoted, strconv.Quote(string(n)))
	}
	return strings.Join(quoted, ", ")
}
