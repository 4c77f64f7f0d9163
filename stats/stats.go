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

	mu         sync.Mutex // guards everything below
	journal    journal
	agg        *aggregate
	unsaved    int // records since usage.json was written
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
	s := &Stats{opt: opt, files: files, now: now, log: log, wake: make(chan struct{}, 1), agg: newAggregate()}
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
	names, err := s.journal.names()
	if err != nil {
		return nil, err
	}
	name := now().Format(dateForm) + journalSuffix
	if n := len(names); n > 0 {
		name = max(name, names[n-1])
	}
	if err := s.journal.open(name); err != nil {
		return nil, err
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
	names, err := s.journal.names()
	if err != nil {
		return err
	}
	for _, name := range names {
		var offset int64
		if through != nil && name <= through.File {
			if name < through.File {
				continue
			}
			offset = through.Offset
		}
		date := name[:len(name)-len(journalSuffix)]
		n := 0
		bad, err := s.journal.read(name, offset, func(r *Record) { s.agg.add(date, r); n++ })
		if err != nil {
			return err
		}
		s.unsaved += n
		if n > 0 {
			s.log.Info("journal folded in", "file", name, "lines", n)
		}
		if bad > 0 {
			s.log.Warn("journal lines that cannot be read were skipped", "file", name, "lines", bad)
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
	line := r.appendLine((*buf)[:0])
	s.mu.Lock()
	date := max(r.TS.Format(dateForm), s.agg.newest, strings.TrimSuffix(s.journal.name, journalSuffix))
	if err := s.journal.append(date, line); err != nil {
		s.faults++
		s.complain(err)
	}
	s.agg.add(date, r)
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

// Replay calls each for the journal's records from since on, oldest first. Lines that cannot be read are passed over.
func (s *Stats) Replay(since time.Time, each func(*Record)) error {
	names, err := s.journal.names()
	if err != nil {
		return err
	}
	first := since.AddDate(0, 0, -1).Format(dateForm) + journalSuffix // zones and steps of the clock
	for _, name := range names {
		if name < first {
			continue
		}
		if _, err := s.journal.read(name, 0, func(r *Record) {
			if !r.TS.Before(since) {
				each(r)
			}
		}); err != nil {
			return err
		}
	}
	return nil
}

// Keep changes for how many days the journal and the aggregate are kept.
func (s *Stats) Keep(journalDays, usageDays int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt.JournalDays, s.opt.UsageDays = journalDays, usageDays
}

// complain logs a disk fault, at most once a minute. The caller holds the lock.
func (s *Stats) complain(err error) {
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
	s.faults++
	s.complain(err)
}

// save writes usage.json if records came since. While journal lines wait in memory it is not written: its position
// in the journal would be a lie.
func (s *Stats) save() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	if len(s.journal.backlog) > 0 {
		backlog := s.journal.backlog
		if err := s.journal.write(backlog); err != nil {
			s.complain(err)
			s.mu.Unlock()
			return
		}
		s.journal.backlog = nil
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
	}
}

// prune drops days that are too old.
func (s *Stats) prune() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.agg.forget(LastDays(now, s.opt.UsageDays).From)
	if err := s.journal.prune(LastDays(now, s.opt.JournalDays).From); err != nil {
		s.complain(err)
	}
}

// Faults returns how often the disk refused, and how many journal lines were lost for it.
func (s *Stats) Faults() (faults, lost int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.faults, s.journal.lost
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

func (s *Stats) view() *aggregate {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agg.snapshot()
}
