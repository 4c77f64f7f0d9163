package stats

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

const (
	archiveEvery = 10 * time.Minute
	tempSuffix   = ".tmp"
)

// archive compresses the days that are over until ctx ends.
func (s *Stats) archive(ctx context.Context) {
	tick := time.NewTicker(archiveEvery)
	defer tick.Stop()
	for {
		if err := s.pack(ctx); err != nil && ctx.Err() == nil {
			s.mu.Lock()
			s.faults++
			s.mu.Unlock()
			s.log.Error("journal days cannot be compressed; they stay as they are", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pack compresses the days before yesterday and before the one that is written to.
func (s *Stats) pack(ctx context.Context) error {
	s.mu.Lock()
	dir, present := s.journal.dir, strings.TrimSuffix(s.journal.name, journalSuffix)
	s.mu.Unlock()
	before := min(present, LastDays(s.now(), 2).From)
	err := removeTemporary(dir)
	days, listErr := journalDays(dir)
	err = errors.Join(err, listErr)
	for _, date := range days {
		if date >= before {
			break
		}
		if _, e := os.Lstat(filepath.Join(dir, date+journalSuffix)); e != nil {
			continue // compressed
		}
		p := packer{ctx: ctx, dir: dir, date: date}
		e := p.pack()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if e != nil {
			if !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
			continue
		}
		s.log.Info("journal day compressed", "file", date+packedSuffix, "bytes", p.text, "compressed", p.out.n)
	}
	return err
}

// removeTemporary removes what a crash while compressing left.
func removeTemporary(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		name, temporary := strings.CutSuffix(e.Name(), tempSuffix)
		date, _, _ := strings.Cut(name, ".")
		if temporary && isDate(date) {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// packer compresses one day. At each moment the plain file or the compressed one is whole, and where both are there the
// plain one counts.
type packer struct {
	ctx  context.Context
	dir  string
	date string
	step func(what string) // called before each change of the folder; nil but for tests

	in    *os.File
	out   countWriter
	gz    *gzip.Writer
	index *indexWriter
	text  int64 // length so far
	inner bool  // within a line that is too long to be ours
	sum   hash.Hash32
}

// countWriter counts what it writes.
type countWriter struct {
	to io.Writer
	n  int64
}

func (w *countWriter) Write(p []byte) (int, error) {
	n, err := w.to.Write(p)
	w.n += int64(n)
	return n, err
}

func (p *packer) path(suffix string) string { return filepath.Join(p.dir, p.date+suffix) }

func (p *packer) pack() (err error) {
	if p.in, err = os.Open(p.path(journalSuffix)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer p.in.Close()
	p.before("create")
	packed, err := create(p.path(packedSuffix))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer packed.discard()
	index, err := create(p.path(indexSuffix))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer index.discard()
	if err = p.write(packed, index); err == nil {
		err = p.verify(packed.File)
	}
	for _, f := range []*newFile{index, packed} { // the index without its file is none
		if err == nil {
			p.before("keep " + f.path)
			err = f.keep()
		}
	}
	if err == nil {
		syncFolder(p.dir) // the new file is there for certain before the old one goes
		p.before("remove")
		_ = p.in.Close() // Windows removes no open file
		err = os.Remove(p.path(journalSuffix))
	}
	if err == nil || p.ctx.Err() != nil || errors.Is(err, fs.ErrNotExist) { // it has become too old meanwhile
		return err
	}
	return fmt.Errorf("journal: compress %s: %w", p.date, err)
}

func (p *packer) before(what string) {
	if p.step != nil {
		p.step(what)
	}
}

// write fills the compressed file and its index, block by block.
func (p *packer) write(packed, index *newFile) error {
	buffered, indexed := bufio.NewWriterSize(packed, 64<<10), bufio.NewWriter(index)
	p.out, p.sum = countWriter{to: buffered}, crc32.NewIEEE()
	p.gz, p.index = gzip.NewWriter(nil), newIndexWriter(indexed)
	in := bufio.NewReaderSize(p.in, maxLine)
	scanner := newScanner()
	for more := true; more; {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		p.before("block")
		var err error
		if more, err = p.block(in, scanner); err != nil {
			return err
		}
	}
	if err := buffered.Flush(); err != nil {
		return err
	}
	var tail [8]byte
	if _, err := packed.ReadAt(tail[:], p.out.n-int64(len(tail))); err != nil {
		return err
	}
	if err := p.index.finish(p.out.n, tail, p.text); err != nil {
		return err
	}
	return indexed.Flush()
}

// block compresses the next block. An empty file has one, which is empty.
func (p *packer) block(in *bufio.Reader, scanner *scanner) (more bool, err error) {
	begin := p.text
	if !p.inner { // what the index names begins with a line
		p.index.begin(begin, p.out.n)
	}
	p.gz.Reset(&p.out)
	p.gz.Extra = memberExtra(begin)
	text := io.MultiWriter(p.gz, p.sum)
	ended := true
	var r Record
	for more = true; more; {
		line, err := in.ReadSlice('\n')
		part := errors.Is(err, bufio.ErrBufferFull)
		if err != nil && err != io.EOF && !part {
			return false, err
		}
		if _, err := text.Write(line); err != nil {
			return false, err
		}
		p.text += int64(len(line))
		if !p.inner && !part && scanner.scan(bytes.TrimSpace(line), &r) == nil && r.Outcome != "" {
			p.index.add(&r)
		}
		p.inner, more = part, err == nil || part
		ended = len(line) == 0 && ended || len(line) > 0 && line[len(line)-1] == '\n'
		if p.text-begin >= blockText {
			break
		}
	}
	if more { // a block follows only if text does
		_, err := in.Peek(1)
		more = err == nil
	}
	if !ended && !more { // a crash cut the last line
		p.text++
		if _, err := text.Write([]byte{'\n'}); err != nil {
			return false, err
		}
	}
	if !p.inner || !more {
		p.index.end()
	}
	return more, p.gz.Close()
}

// verify reads back what was written: the plain file is the only other copy.
func (p *packer) verify(f *os.File) error {
	m, sum := newMembers(), crc32.NewIEEE()
	m.reset(f, p.out.n, 0, 0)
	n, err := io.Copy(sum, contextReader{p.ctx, m})
	if err == nil && (n != p.text || m.corrupt > 0 || sum.Sum32() != p.sum.Sum32()) {
		err = errors.New("what was written cannot be read back")
	}
	return err
}

type contextReader struct {
	ctx context.Context
	in  io.Reader
}

func (r contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(p)
}

// unpack makes a compressed day a plain file again, so that it can be appended to. Text that is lost becomes blanks.
func unpack(dir, date string) error {
	plain, packed := filepath.Join(dir, date+journalSuffix), filepath.Join(dir, date+packedSuffix)
	if _, err := os.Lstat(plain); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	in, err := os.Open(packed)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := create(plain)
	if err != nil {
		return err
	}
	defer out.discard()
	m := newMembers()
	m.reset(in, info.Size(), 0, 0)
	if _, err = io.Copy(out, m); err == nil {
		err = out.keep()
	}
	if err != nil {
		return err
	}
	syncFolder(dir)
	in.Close()
	for _, old := range []string{packed, filepath.Join(dir, date+indexSuffix)} {
		_ = os.Remove(old) // where both are there the plain one counts
	}
	return nil
}

// newFile is a file that is being written beside its place.
type newFile struct {
	*os.File
	path string
	kept bool
}

func create(path string) (*newFile, error) {
	f, err := os.OpenFile(path+tempSuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	return &newFile{File: f, path: path}, err
}

// keep puts the file in its place, whole.
func (f *newFile) keep() error {
	err := f.Sync()
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	err = os.Rename(f.Name(), f.path)
	f.kept = err == nil
	return err
}

// discard removes the file if it was not kept.
func (f *newFile) discard() {
	if !f.kept {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}
}

// syncFolder makes renames survive a power cut. Windows has no such call.
func syncFolder(dir string) {
	if runtime.GOOS == "windows" {
		return
	}
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
