package stats

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxBacklog bounds the lines that wait in memory while the disk refuses them.
const maxBacklog = 4 << 20

// journal appends lines to one file a local day. The lock of Stats guards it.
type journal struct {
	dir     string
	file    *os.File
	name    string // of file, "" = none open yet
	offset  int64  // bytes of whole lines in file
	dirty   bool   // written since the last sync
	backlog []byte // lines that could not be written yet
	lost    int64  // lines that the backlog had no room for
}

// append writes the line to the file of that day, one write(2), or to the file of a later day if one was begun:
// clocks step back. A line that cannot be written waits in the backlog.
func (j *journal) append(date string, line []byte) error {
	if name := date + journalSuffix; name > j.name {
		if err := j.open(name); err != nil {
			j.keep(line)
			return err
		}
	}
	if len(j.backlog) > 0 {
		if err := j.write(j.backlog); err != nil {
			j.keep(line)
			return err
		}
		j.backlog = nil
	}
	if err := j.write(line); err != nil {
		j.keep(line)
		return err
	}
	return nil
}

func (j *journal) keep(line []byte) {
	if len(j.backlog)+len(line) > maxBacklog {
		j.lost++
		return
	}
	j.backlog = append(j.backlog, line...)
}

func (j *journal) write(lines []byte) error {
	if j.file == nil {
		return fs.ErrClosed
	}
	n, err := j.file.Write(lines)
	if err != nil {
		if n > 0 { // what was written of it is no line
			_ = j.file.Truncate(j.offset)
		}
		return fmt.Errorf("journal: %w", err)
	}
	j.offset += int64(n)
	j.dirty = true
	return nil
}

// open ends the present file and goes on with the named one. A last line that a crash cut short gets its line end,
// so that the next line stands alone. A compressed file becomes a plain one again.
func (j *journal) open(name string) error {
	if err := unpack(j.dir, strings.TrimSuffix(name, journalSuffix)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(j.dir, name), os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size > 0 {
		var last [1]byte
		if _, err = f.ReadAt(last[:], size-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte("\n"))
			size++
		}
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("journal: %w", err)
	}
	j.close()
	j.file, j.name, j.offset = f, name, size
	return nil
}

func (j *journal) close() {
	if j.file != nil {
		_ = j.file.Sync()
		_ = j.file.Close()
		j.file = nil
	}
}

// prune deletes the files of days before first.
func (j *journal) prune(first string) error {
	days, err := journalDays(j.dir)
	for _, date := range days {
		if date >= first || date+journalSuffix == j.name {
			continue
		}
		for _, suffix := range [...]string{indexSuffix, packedSuffix, journalSuffix} {
			if e := os.Remove(filepath.Join(j.dir, date+suffix)); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}
