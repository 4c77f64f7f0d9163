package stats

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	journalSuffix = ".jsonl"
	packedSuffix  = ".jsonl.gz"
	indexSuffix   = ".index"
	maxLine       = 256 << 10 // a longer journal line is not ours
)

// journalDays returns the days that have a journal file, in order. A folder that is not there has none.
func journalDays(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var days []string
	for _, e := range entries {
		date, ok := strings.CutSuffix(strings.TrimSuffix(e.Name(), ".gz"), journalSuffix)
		if ok && isDate(date) {
			days = append(days, date)
		}
	}
	slices.Sort(days)
	return slices.Compact(days), nil
}

// dayText is the text of one day's journal, plain or compressed.
type dayText struct {
	date    string
	file    *os.File
	size    int64 // of the file
	packed  bool
	indexed bool    // blocks are known
	blocks  []block // those that may have what is asked for
}

// openDay opens a day's journal. Where both files are there the plain one counts: compressing was cut short. Error:
// fs.ErrNotExist.
func openDay(dir, date string, q *query) (*dayText, error) {
	t := &dayText{date: date}
	var err error
	for try := range 4 { // between two looks the day may be compressed, or made plain again
		t.packed = try%2 == 1
		name := date + journalSuffix
		if t.packed {
			name = date + packedSuffix
		}
		if t.file, err = os.Open(filepath.Join(dir, name)); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	info, err := t.file.Stat()
	if err != nil {
		t.file.Close()
		return nil, fmt.Errorf("journal: %w", err)
	}
	t.size = info.Size()
	if t.packed {
		t.blocks, t.indexed = readIndex(filepath.Join(dir, date+indexSuffix), t.file, t.size, q)
	}
	return t, nil
}

func (t *dayText) close() { _ = t.file.Close() }

// segment is a part of a text that begins with a line.
type segment struct{ start, end, packed int64 }

// oldestFirst returns the segments from an offset on.
func (t *dayText) oldestFirst(from int64) iter.Seq[segment] {
	return func(yield func(segment) bool) {
		switch {
		case !t.packed:
			yield(segment{start: min(from, t.size), end: t.size})
		case !t.indexed:
			yield(segment{end: endless})
		default:
			for _, b := range t.blocks {
				if b.end > from && !yield(segment{b.start, b.end, b.packed}) {
					return
				}
			}
		}
	}
}

// newestFirst returns the segments that have lines before an offset. A compressed day without an index is one segment.
func (t *dayText) newestFirst(ctx context.Context, to int64) iter.Seq2[segment, error] {
	return func(yield func(segment, error) bool) {
		switch {
		case !t.packed:
			end, err := t.lineStart(ctx, min(to, t.size)) // the last line is whole, or is being written
			for err == nil && end > 0 {
				var start int64
				if start, err = t.lineStart(ctx, max(0, end-blockText)); err != nil || !yield(segment{start: start, end: end}, nil) {
					break
				}
				end = start
			}
			if err != nil {
				yield(segment{}, err)
			}
		case !t.indexed:
			yield(segment{end: endless}, nil)
		default:
			for _, b := range slices.Backward(t.blocks) {
				if b.start < to && !yield(segment{b.start, b.end, b.packed}, nil) {
					return
				}
			}
		}
	}
}

// lineStart returns where the last line begins that begins at or before an offset of a plain text.
func (t *dayText) lineStart(ctx context.Context, at int64) (int64, error) {
	var buf [4 << 10]byte
	for at > 0 {
		if err := ctx.Err(); err != nil { // what is no line can be of any length
			return 0, err
		}
		b := buf[:min(at, int64(len(buf)))]
		at -= int64(len(b))
		n, err := t.file.ReadAt(b, at)
		if err != nil && err != io.EOF { // a line that could not be written whole is cut off again
			return 0, fmt.Errorf("journal: %w", err)
		}
		if i := bytes.LastIndexByte(b[:n], '\n'); i >= 0 {
			return at + int64(i) + 1, nil
		}
	}
	return 0, nil
}

// endless is the end of a text whose length is not known.
const endless = math.MaxInt64

// pass goes through journal texts line by line in constant memory, whatever their length.
type pass struct {
	*query
	ctx     context.Context
	lines   *bufio.Reader
	members *members
	scanner *scanner
	record  Record
	partial bool // a last line without its end counts
	bad     int  // lines that are no records
	corrupt int  // compressed parts that could not be read to their end
}

func newPass(ctx context.Context, q *query) *pass {
	return &pass{query: q, ctx: ctx, lines: bufio.NewReaderSize(nil, maxLine), members: newMembers(), scanner: newScanner()}
}

// segment calls each for the lines of the segment that pass and begin at from or later. Line and record are only valid
// during the call. next is where the segment ends.
func (p *pass) segment(t *dayText, s segment, from int64, each func(start int64, line []byte, r *Record) error) (next int64, err error) {
	if !t.packed {
		p.lines.Reset(contextReader{p.ctx, io.NewSectionReader(t.file, s.start, s.end-s.start)})
	} else {
		p.members.reset(t.file, t.size, s.packed, s.start)
		defer func() {
			if next == s.end {
				p.members.finish()
			}
			p.corrupt += p.members.corrupt
		}()
		p.lines.Reset(contextReader{p.ctx, io.LimitReader(p.members, s.end-s.start)})
	}
	next = s.start
	for n := 0; ; n++ {
		if n%64 == 0 && p.ctx.Err() != nil { // a short text is one read
			return next, p.ctx.Err()
		}
		line, err := p.lines.ReadSlice('\n')
		start := next
		next += int64(len(line))
		if errors.Is(err, bufio.ErrBufferFull) {
			p.bad++
			var long int64
			long, err = skipLine(p.lines)
			next += long
			line = nil
		}
		if err != nil && err != io.EOF {
			return next, fmt.Errorf("journal: %w", err)
		}
		if start >= from && (err == nil || p.partial) {
			if err := p.line(start, line, each); err != nil {
				return next, err
			}
		}
		if err != nil {
			return next, nil
		}
	}
}

// day calls each for the records of a day that pass and begin at from or later. A day that is gone has none.
func (p *pass) day(dir, date string, from int64, each func(*Record) error) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	t, err := openDay(dir, date, p.query)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer t.close()
	for s := range t.oldestFirst(from) {
		if _, err := p.segment(t, s, from, func(_ int64, _ []byte, r *Record) error { return each(r) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) line(start int64, line []byte, each func(int64, []byte, *Record) error) error {
	if line = bytes.TrimSpace(line); len(line) == 0 || !p.mayPass(line) {
		return nil
	}
	if p.scanner.scan(line, &p.record) != nil || p.record.Outcome == "" {
		p.bad++
		return nil
	}
	if !p.passes(&p.record) {
		return nil
	}
	return each(start, line, &p.record)
}

// skipLine reads past the next line end and returns how much it was.
func skipLine(in *bufio.Reader) (n int64, err error) {
	for {
		rest, err := in.ReadSlice('\n')
		n += int64(len(rest))
		if !errors.Is(err, bufio.ErrBufferFull) {
			return n, err
		}
	}
}
