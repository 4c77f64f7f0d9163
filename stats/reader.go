package stats

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ErrCursor says that a cursor is none that Requests gave.
var ErrCursor = errors.New("the cursor is not one that was given out here")

// ErrNoRequest says that no journal line has the trace.
var ErrNoRequest = errors.New("no request with this trace in the journal")

// followEvery is how often Follow looks for new lines.
const followEvery = 250 * time.Millisecond

// Reader reads the journal of a data directory, whoever writes it, also while it is written, compressed and pruned. Its
// memory does not grow with the journal. It is safe for concurrent use.
type Reader struct {
	dir  string
	log  *slog.Logger
	tell func(Damage) // nil: nobody asks
}

// Damage says how much of a day could not be read.
type Damage struct {
	Date  string
	Lines int // that are no records
	Parts int // compressed ones
}

// NewReader returns the reader of a data directory's journal.
func NewReader(dataDir string) *Reader {
	return &Reader{dir: filepath.Join(dataDir, journalsName), log: slog.New(slog.DiscardHandler)}
}

// Reader returns the reader of the journal.
func (s *Stats) Reader() *Reader { return &Reader{dir: s.journal.dir, log: s.log} }

// Telling returns a reader that tells what it comes upon that it cannot read, of a day as often as it reads it.
func (r *Reader) Telling(tell func(Damage)) *Reader { return &Reader{r.dir, r.log, tell} }

// place is where a line begins. As a cursor it stands for the lines before it; it stays right when the day is compressed.
type place struct {
	date   string
	offset int64
}

func (p place) String() string { return p.date + ":" + strconv.FormatInt(p.offset, 10) }

func parsePlace(text string) (place, error) {
	date, digits, _ := strings.Cut(text, ":")
	offset, err := strconv.ParseInt(digits, 10, 64)
	if p := (place{date, offset}); err == nil && isDate(date) && offset >= 0 && p.String() == text {
		return p, nil
	}
	return place{}, ErrCursor
}

// days returns the days that may have what is asked for. A file has no line of a later day than its own, but for zones;
// earlier ones it may have, of any time: clocks step back.
func (r *Reader) days(f Filter) ([]string, error) {
	days, err := journalDays(r.dir)
	if err != nil || f.From.IsZero() {
		return days, err
	}
	first := f.From.AddDate(0, 0, -2).Format(dateForm)
	return slices.DeleteFunc(days, func(date string) bool { return date < first }), nil
}

// Requests returns up to limit lines, newest first, and a cursor for those before them ("" = no more). Error: ErrCursor
// for one that is not ours.
func (r *Reader) Requests(ctx context.Context, f Filter, limit int, cursor string) (lines []json.RawMessage, next string, err error) {
	before := place{"9999-99-99", 0}
	if cursor != "" {
		if before, err = parsePlace(cursor); err != nil {
			return nil, "", err
		}
	}
	if limit <= 0 {
		return nil, "", nil
	}
	newest := &ring{room: limit + 1} // one more tells whether there are more
	if err := r.newest(ctx, f, before, newest); err != nil {
		return nil, "", err
	}
	for i, l := range newest.found {
		if i == limit {
			return lines, newest.found[i-1].String(), nil
		}
		lines = append(lines, l.line)
	}
	return lines, "", nil
}

// Request returns the newest line with the trace. Error: ErrNoRequest.
func (r *Reader) Request(ctx context.Context, trace string) (json.RawMessage, error) {
	if trace == "" {
		return nil, ErrNoRequest
	}
	newest := &ring{room: 1}
	if err := r.newest(ctx, Filter{Trace: trace}, place{"9999-99-99", 0}, newest); err != nil {
		return nil, err
	}
	if len(newest.found) == 0 {
		return nil, ErrNoRequest
	}
	return newest.found[0].line, nil
}

// newest fills the ring with the newest lines before a place.
func (r *Reader) newest(ctx context.Context, f Filter, before place, to *ring) error {
	days, err := r.days(f)
	if err != nil {
		return err
	}
	p := newPass(ctx, newQuery(f))
	for _, date := range slices.Backward(days) {
		if date > before.date {
			continue
		}
		end := int64(endless)
		if date == before.date {
			end = before.offset
		}
		err := r.newestOf(p, date, end, to)
		r.report(p, date)
		if err != nil && ctx.Err() == nil { // a page says no more than that it failed
			r.log.Error("the journal cannot be read", "file", date+journalSuffix, "error", err)
		}
		if err != nil || to.full() {
			return err
		}
	}
	return nil
}

func (r *Reader) newestOf(p *pass, date string, end int64, to *ring) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	t, err := openDay(r.dir, date, p.query)
	if errors.Is(err, fs.ErrNotExist) { // it has become too old
		return nil
	}
	if err != nil {
		return err
	}
	defer t.close()
	for s, err := range t.newestFirst(p.ctx, end) {
		if err != nil {
			return err
		}
		_, err := p.segment(t, s, 0, func(start int64, line []byte, _ *Record) error {
			if start < end {
				to.put(place{date, start}, line)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if to.turn(); to.full() {
			break
		}
	}
	return nil
}

// report says what could not be read.
func (r *Reader) report(p *pass, date string) {
	if r.tell != nil && p.bad+p.corrupt > 0 {
		r.tell(Damage{date, p.bad, p.corrupt})
	}
	if p.corrupt > 0 {
		r.log.Warn("parts of a compressed journal day cannot be read and were skipped", "file", date+packedSuffix, "parts", p.corrupt)
	}
	p.bad, p.corrupt = 0, 0
}

// found is a line and where it begins.
type found struct {
	place
	line []byte
}

// ring keeps the newest of the lines of one segment, which come oldest first, behind those of later segments.
type ring struct {
	room  int
	found []found // newest first
	turns []found // of the present segment; once there is no more room the oldest is overwritten
	at    int     // the oldest of turns
}

func (r *ring) full() bool { return len(r.found) >= r.room }

func (r *ring) put(p place, line []byte) {
	if len(r.found)+len(r.turns) < r.room {
		r.turns = append(r.turns, found{p, slices.Clone(line)})
		return
	}
	l := &r.turns[r.at]
	l.place, l.line = p, append(l.line[:0], line...)
	r.at = (r.at + 1) % len(r.turns)
}

// turn ends a segment.
func (r *ring) turn() {
	for i := len(r.turns); i > 0; i-- {
		r.found = append(r.found, r.turns[(r.at+i-1)%len(r.turns)])
	}
	r.turns, r.at = nil, 0
}

// Each calls each for the records that pass, oldest first, with the local day of their file. The record is only valid
// during the call. It ends with the first error of each, or of ctx.
func (r *Reader) Each(ctx context.Context, f Filter, each func(date string, r *Record) error) error {
	days, err := r.days(f)
	if err != nil {
		return err
	}
	return r.each(ctx, f, days, each)
}

// Days does the same for the records that count as those of a span: a file's, whatever their times, since clocks step back.
func (r *Reader) Days(ctx context.Context, span Range, each func(date string, r *Record) error) error {
	days, err := journalDays(r.dir)
	if err != nil {
		return err
	}
	return r.each(ctx, Filter{}, slices.DeleteFunc(days, func(date string) bool { return !span.Has(date) }), each)
}

func (r *Reader) each(ctx context.Context, f Filter, days []string, each func(date string, r *Record) error) error {
	p := newPass(ctx, newQuery(f))
	for _, date := range days {
		err := p.day(r.dir, date, 0, func(rec *Record) error { return each(date, rec) })
		r.report(p, date)
		if err != nil {
			return err
		}
	}
	return nil
}

// end returns the length of a day's whole lines.
func (r *Reader) end(p *pass, date string) (int64, error) {
	t, err := openDay(r.dir, date, p.query)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer t.close()
	if !t.packed {
		return t.lineStart(p.ctx, t.size)
	}
	return p.segment(t, segment{end: endless}, endless, nil)
}

// after calls each for the records from a place on and returns where the next will begin.
func (r *Reader) after(p *pass, from place, each func(*Record) error) (next int64, err error) {
	t, err := openDay(r.dir, from.date, p.query)
	if errors.Is(err, fs.ErrNotExist) {
		return from.offset, nil
	}
	if err != nil {
		return 0, err
	}
	defer t.close()
	end, next := int64(endless), from.offset
	if !t.packed {
		if end, err = t.lineStart(p.ctx, t.size); err != nil {
			return from.offset, err
		}
		if end <= from.offset { // shorter: somebody has emptied or replaced it
			return end, nil
		}
	}
	for s := range t.oldestFirst(from.offset) {
		s.end = min(s.end, end)
		if next, err = p.segment(t, s, from.offset, func(_ int64, _ []byte, rec *Record) error { return each(rec) }); err != nil {
			break
		}
	}
	return next, err
}
