package cli

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Colours of a terminal, as SGR codes.
const (
	plainColour = ""
	bold        = "1"
	dim         = "2"
	red         = "31"
	yellow      = "33"
)

// onTerminal reports whether a terminal shows what is printed.
func onTerminal(env Environment) bool {
	f, ok := env.Stdout.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// colours reports whether what is printed may have colours: on a terminal that has them, unless NO_COLOR is set.
func colours(env Environment) bool { return onTerminal(env) && hasColours(runtime.GOOS, env.Getenv) }

func hasColours(system string, getenv func(string) (string, bool)) bool {
	if no, _ := getenv("NO_COLOR"); no != "" {
		return false
	}
	if system == "windows" {
		_, modern := getenv("WT_SESSION")
		return modern
	}
	term, _ := getenv("TERM")
	return term != "" && term != "dumb"
}

// nothingThere stands for an empty cell.
const nothingThere = "–"

// cell is one of a table.
type cell struct{ text, colour string }

// column is one of a table. A cell that is wider than most is cut.
type column struct {
	name  string
	most  int
	right bool // numbers
}

// table prints rows in columns, aligned by what is seen: Chinese characters are two wide. Names in its cells are chosen
// by clients: nothing in them may reach a terminal as anything but text.
type table struct {
	columns []column
	widths  []int
	colours bool
}

func newTable(columns []column, colours bool) *table {
	t := &table{columns, make([]int, len(columns)), colours}
	for i, c := range columns {
		t.widths[i] = displayWidth(c.name)
	}
	return t
}

// fit makes the columns wide enough for the rows.
func (t *table) fit(rows ...[]cell) {
	for _, row := range rows {
		for i, c := range row {
			t.widths[i] = max(t.widths[i], displayWidth(shown(c.text, t.columns[i].most)))
		}
	}
}

// least makes the columns at least so wide.
func (t *table) least(widths ...int) {
	for i, w := range widths {
		t.widths[i] = max(t.widths[i], w)
	}
}

func (t *table) head(w io.Writer) error {
	row := make([]cell, len(t.columns))
	for i, c := range t.columns {
		row[i] = cell{c.name, bold}
	}
	return t.print(w, row)
}

func (t *table) print(w io.Writer, row []cell) error {
	var b strings.Builder
	for i, c := range row {
		text := shown(c.text, t.columns[i].most)
		space := strings.Repeat(" ", max(0, t.widths[i]-displayWidth(text)))
		if t.colours && c.colour != plainColour {
			text = "\x1b[" + c.colour + "m" + text + "\x1b[0m"
		}
		if i > 0 {
			b.WriteString("  ")
		}
		if t.columns[i].right {
			b.WriteString(space + text)
		} else {
			b.WriteString(text + space)
		}
	}
	_, err := fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
	return err
}

// shown makes text one line of printable characters that is at most so wide; the others are written as their codes.
func shown(text string, most int) string {
	if text == "" {
		return nothingThere
	}
	text = strings.ToValidUTF8(text, "\ufffd")
	var b strings.Builder
	width, runes := 0, 0
	for i, r := range text {
		piece := printableRune(r)
		room := most - width
		if i+utf8.RuneLen(r) < len(text) { // for the sign that something is cut
			room--
		}
		if displayWidth(piece) > room || runes >= 4*most { // marks have no width
			b.WriteString("…")
			break
		}
		b.WriteString(piece)
		width += displayWidth(piece)
		runes++
	}
	return b.String()
}

// printable writes what is not printable as its code.
func printable(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		b.WriteString(printableRune(r))
	}
	return b.String()
}

func printableRune(r rune) string {
	if unicode.IsPrint(r) {
		return string(r)
	}
	return strings.Trim(strconv.QuoteRuneToASCII(r), "'")
}

// displayWidth is how many columns of a terminal the text takes.
func displayWidth(text string) (width int) {
	for _, r := range text {
		switch {
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case isWide(r):
			width += 2
		default:
			width++
		}
	}
	return width
}

// isWide reports whether a terminal gives the character two columns: those of East Asia and the pictures.
func isWide(r rune) bool {
	if r < 0x1100 {
		return false
	}
	for _, span := range [...][2]rune{
		{0x1100, 0x115f}, {0x2e80, 0x303e}, {0x3041, 0xa4cf}, {0xa960, 0xa97c}, {0xac00, 0xd7a3}, {0xf900, 0xfaff}, {0xfe10, 0xfe19}, {0xfe30, 0xfe6f},
		{0xff00, 0xff60}, {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
	} {
		if span[0] <= r && r <= span[1] {
			return true
		}
	}
	return false
}

// thousands writes 1234567 as 1,234,567.
func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// period writes milliseconds for people.
func period(ms int64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%d ms", ms)
	case ms < 60_000:
		return fmt.Sprintf("%.1f s", float64(ms)/1000)
	}
	return fmt.Sprintf("%d min %d s", ms/60_000, ms/1000%60)
}

// dollars writes a cost in USD; small ones have more digits.
func dollars(v float64) string {
	if v == 0 {
		return "0.00"
	}
	if v < 0.00005 { // it is not nothing
		return "<0.0001"
	}
	if v < 1 {
		return strconv.FormatFloat(v, 'f', 4, 64)
	}
	whole, cents, _ := strings.Cut(strconv.FormatFloat(v, 'f', 2, 64), ".")
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil {
		return whole
	}
	return thousands(n) + "." + cents
}
