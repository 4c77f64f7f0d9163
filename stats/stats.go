package stats

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	syncEvery    = time.Second
	saveEvery    = 30 * time.Second
	saveRecords  = 20              // records after which usage.json is written early…
	saveAtLeast  = 5 * time.Second // …but not more often than this
	complainAt   = time.Minute     // a disk fault is logged at most once in this time
	journalsName = "journal"
)

// Files writes whole files so that a crash leaves the old or the new one, never a half (daemon/store).
type Files interface {
	Write(path string, data []byte) error
	SetAside(path string) (newPath string, err error)
}

// Stats is the journal and the aggregate over it. It is safe for concurrent use.
type Stats struct {
	opt   Options
	files Files
	now   func() time.Time
	log   *slog.Logger
	wake  chan struct{} // tells Run that saveRecords are due
	lines sync.Pool     // of *[]byte: journal lines being made

	prices atomic.Pointer[Prices]

	mu         sync.Mutex // guards everything below
	journal    journal
	agg        *aggregate
	counters   counters
	unsaved    int    // records since usage.json was written
	saved      string // the file that usage.json has read through; those before it are no longer needed for it
	faults     int64
	complained time.Time

	saving sync.Mutex // one writer of usage.json at a time
}

// Open reads usage.json and folds in the journal lines after it. A usage file that cannot be read is set aside and
// rebuilt from the journal days that are there; one of a newer program is an error, as is a directory that cannot
// be written.
func Open(opt Options, files Files, now func() time.Time, log *slog.Logger) (*Stats, error) {
	if opt.UsageFile == "" {
		opt.UsageFile = filepath.Join(opt.Dir, "usage.json")
	}
	s := &Stats{opt: opt, files: files, now: now, log: log, wake: make(chan struct{}, 1), agg: newAggregate(), counters: newCounters(now())}
	s.Price(opt.Pricing)
	s.journal.dir = filepath.Join(opt.Dir, journalsName)
	if err := os.MkdirAll(s.journal.dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	through, err := s.load()
	if err != nil {
		return nil, err
	}
	if err := s.fold(through); err != nil {
		return nil, err
	}
	days, err := journalDays(s.journal.dir)
	if err != nil {
		return nil, err
	}
	date := now().Format(dateForm)
	if n := len(days); n > 0 {
		date = max(date, days[n-1])
	}
	if err := s.journal.open(date + journalSuffix); err != nil {
		return nil, err
	}
	if through != nil && through.after(position{s.journal.name, s.journal.offset}) {
		s.unsaved++ // what comes now would be taken for counted after the next crash
	}
	if s.saved = s.journal.name; s.unsaved > 0 {
		s.saved = ""
		s.save()
	}
	s.prune()
	return s, nil
}

// load reads usage.json into the aggregate.
func (s *Stats) load() (*position, error) {
	data, err := os.ReadFile(s.opt.UsageFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("usage file: %w", err)
	}
	agg, through, err := decodeUsage(data)
	var newer *newerError
	switch {
	case errors.As(err, &newer):
		return nil, err
	case err != nil:
		aside, asideErr := s.files.SetAside(s.opt.UsageFile)
		if asideErr != nil {
			return nil, fmt.Errorf("usage file: cannot be read and cannot be set aside: %w", asideErr)
		}
		s.log.Error("usage file cannot be read; it is set aside and rebuilt from the journal", "aside", aside, "error", err)
		return nil, nil
	}
	s.agg = agg
	if through == nil {
		s.log.Info("usage file of an older program taken over", "file", s.opt.UsageFile)
	}
	return through, nil
}

// fold adds the journal lines after through, all of them when it is nil.
func (s *Stats) fold(through *position) error {
	days, err := journalDays(s.journal.dir)
	if err != nil {
		return err
	}
	p := newPass(context.Background(), newQuery(Filter{}))
	p.partial = true
	for _, date := range days {
		var offset int64
		if name := date + journalSuffix; through != nil && name <= through.File {
			if name < through.File {
				continue
			}
			offset = through.Offset
		}
		n := 0
		p.bad, p.corrupt = 0, 0
		err := p.day(s.journal.dir, date, offset, func(r *Record) error { s.agg.add(date, r); n++; return nil })
		if err != nil {
			return err
		}
		s.unsaved += n
		if n > 0 {
			s.log.Info("journal folded in", "file", date+journalSuffix, "lines", n)
		}
		if p.bad > 0 || p.corrupt > 0 {
			s.log.Warn("journal lines that cannot be read were skipped", "file", date+journalSuffix, "lines", p.bad, "compressed_parts", p.corrupt)
		}
	}
	return nil
}

// Add writes the record's journal line, then counts it. When it returns, the line is the kernel's: a killed process
// does not lose it. A disk that refuses never fails a request; the line waits in memory.
func (s *Stats) Add(r *Record) {
	buf, _ := s.lines.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	s.prices.Load().charge(r)
	line := r.appendLine((*buf)[:0])
	if len(line) > maxLine {
		line = r.short().appendLine(line[:0])
	}
	s.mu.Lock()
	date := max(r.TS.Format(dateForm), s.agg.newest, strings.TrimSuffix(s.journal.newest(), journalSuffix))
	if err := s.journal.append(date, line); err != nil {
		s.complain(err)
	}
	s.agg.add(date, r)
	s.counters.add(r)
	s.unsaved++
	due := s.unsaved == saveRecords
	s.mu.Unlock()
	if due {
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	*buf = line
	s.lines.Put(buf)
}

// Replay calls each for the journal's records from since on, oldest first. Lines that cannot be read are passed over. The
// record is only valid during the call.
func (s *Stats) Replay(since time.Time, each func(*Record)) error {
	return s.Reader().Each(context.Background(), Filter{From: since}, func(_ string, r *Record) error { each(r); return nil })
}

// Keep changes for how many days the journal and the aggregate are kept.
func (s *Stats) Keep(journalDays, usageDays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.JournalDays, s.opt.UsageDays = journalDays, usageDays
}

// Price changes what is set before the price table, for the records to come.
func (s *Stats) Price(rules []PriceRule) { s.prices.Store(NewPrices(rules)) }

// complain counts a disk fault and logs it, at most once a minute. The caller holds the lock.
func (s *Stats) complain(err error) {
	s.faults++
	if now := s.now(); now.Sub(s.complained) >= complainAt {
		s.complained = now
		s.log.Error("statistics cannot be written; requests go on, lines wait in memory", "error", err, "faults", s.faults, "lost", s.journal.lost)
	}
}

// Run keeps the files up to date until ctx ends, then writes all that is left.
func (s *Stats) Run(ctx context.Context) {
	syncs, saves := time.NewTicker(syncEvery), time.NewTicker(saveEvery)
	defer syncs.Stop()
	defer saves.Stop()
	var archive sync.WaitGroup
	archive.Go(func() { s.archive(ctx) })
	defer archive.Wait()
	var last time.Time
	due := false
	for {
		select {
		case <-ctx.Done():
			s.sync()
			s.save()
			s.mu.Lock()
			s.journal.close()
			s.mu.Unlock()
			return
		case <-s.wake:
			due = true
		case <-saves.C:
			due = true
			s.prune()
		case <-syncs.C:
			s.sync()
		}
		if due && time.Since(last) >= saveAtLeast {
			due, last = false, time.Now()
			s.save()
		}
	}
}

// sync makes the journal's lines survive a power cut.
func (s *Stats) sync() {
	s.mu.Lock()
	f, dirty := s.journal.file, s.journal.dirty
	s.journal.dirty = false
	s.mu.Unlock()
	if !dirty || f == nil {
		return
	}
	if err := f.Sync(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: a new day has begun, and open has synced it
		s.fault(err)
	}
}

func (s *Stats) fault(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.complain(err)
}

// save writes usage.json if records came since. While journal lines wait in memory it is not written: its position
// in the journal would be a lie.
func (s *Stats) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	if len(s.journal.backlog) > 0 {
		if err := s.journal.flush(); err != nil {
			s.complain(err)
			s.mu.Unlock()
			return
		}
	}
	if s.unsaved == 0 {
		s.mu.Unlock()
		return
	}
	snap, through, n := s.agg.snapshot(), position{s.journal.name, s.journal.offset}, s.unsaved
	s.unsaved = 0
	s.mu.Unlock()
	data, err := snap.encode(through)
	if err == nil {
		err = s.files.Write(s.opt.UsageFile, data)
	}
	if err != nil {
		s.mu.Lock()
		s.unsaved += n
		s.mu.Unlock()
		s.fault(err)
		return
	}
	s.mu.Lock()
	s.saved = through.File
	s.mu.Unlock()
}

// prune drops days that are too old. A journal day stays until usage.json has it: it is the only copy.
func (s *Stats) prune() {
	s.mu.Lock()
	now := s.now()
	s.agg.forget(min(LastDays(now, s.opt.UsageDays).From, WindowsAt(now).Month.From)) // limits of the month are counted by its days
	first := min(LastDays(now, s.opt.JournalDays).From, strings.TrimSuffix(s.saved, journalSuffix))
	s.mu.Unlock()
	if err := removeDays(s.journal.dir, first); err != nil { // no request waits for it
		s.fault(err)
	}
}

// Totals returns the figures of a span by model and day.
func (s *Stats) Totals(r Range) Totals { return s.view().totals(r) }

// KeyWindows returns the figures of each key over the five windows around now.
func (s *Stats) KeyWindows(now time.Time) map[string]*Windows[Figures] {
	w := s.view().windows(now, byKey)
	delete(w, noKey)
	return w
}

// CallerWindows returns the figures of each caller over the five windows around now.
func (s *Stats) CallerWindows(now time.Time) map[string]*Windows[Figures] {
	return s.view().windows(now, byCaller)
}

// KeyFigures returns a key's figures of a span.
func (s *Stats) KeyFigures(key string, r Range) Figures {
	var sum Figures
	s.mu.Lock()
	defer s.mu.Unlock()
	for date, d := range s.agg.days {
		if !r.Has(date) {
			continue
		}
		for k, f := range d.keys {
			if k.key == key {
				sum.Add(f)
			}
		}
	}
	return sum
}

// CallerFigures returns what a caller has used of the day and the month of now. Where the clock has stepped back, or the zone has
// changed, it is what was used of the day that had begun: at is a time in it, else now.
func (s *Stats) CallerFigures(code string, now time.Time) (today, month Figures, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at = now
	date := max(now.Format(dateForm), s.agg.newest)
	if noon, err := time.ParseInLocation(dateForm+" 15", date+" 12", now.Location()); err == nil && date > now.Format(dateForm) {
		at = noon
	}
	for day, d := range s.agg.days {
		if strings.HasPrefix(day, date[:len("2006-01-")]) && day <= date {
			month.Add(d.callers[code])
		}
	}
	if d := s.agg.days[date]; d != nil {
		today = d.callers[code]
	}
	return today, month, at
}

func (s *Stats) view() *aggregate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agg.snapshot()
}
