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
	name    string  // of file, "" = none open yet
	offset  int64   // bytes of whole lines in file
	dirty   bool    // written since the last sync
	backlog []byte  // lines that could not be written yet…
	begins  []begin // …and where those of later files than name begin
	lost    int64   // lines that the backlog had no room for
}

// begin is where in the backlog the lines of a file begin.
type begin struct {
	name string
	at   int
}

// append writes the line to the file of that day, one write(2), or to the file of a later day if one was begun:
// clocks step back. A line that cannot be written waits in the backlog.
func (j *journal) append(date string, line []byte) error {
	name := max(j.newest(), date+journalSuffix)
	err := j.flush()
	if err == nil && name > j.name {
		err = j.open(name)
	}
	if err == nil {
		err = j.write(line)
	}
	if err != nil && j.keep(name, line) {
		err = j.flush()
	}
	return err
}

// newest is the file of the newest line, which may wait.
func (j *journal) newest() string {
	if n := len(j.begins); n > 0 {
		return j.begins[n-1].name
	}
	return j.name
}

// flush writes the lines that wait, each to its file: they are counted as that day's, and readers look for none of them in
// an earlier one. A file that refuses what that of a later day takes is left.
func (j *journal) flush() error {
	for len(j.backlog) > 0 {
		end := len(j.backlog)
		if len(j.begins) > 0 {
			end = j.begins[0].at
		}
		if end > 0 {
			err := j.write(j.backlog[:end])
			if err != nil && len(j.begins) > 0 {
				err = j.leave(j.begins[0].name, j.backlog[:end])
			}
			if err != nil {
				return err
			}
			j.backlog = j.backlog[end:]
			for i := range j.begins {
				j.begins[i].at -= end
			}
		}
		if len(j.begins) > 0 {
			if name := j.begins[0].name; name > j.name {
				if err := j.open(name); err != nil {
					return err
				}
			}
			j.begins = j.begins[1:]
		}
	}
	j.backlog = nil
	return nil
}

// leave goes on with the file of a later day if that one takes the lines.
func (j *journal) leave(name string, lines []byte) error {
	later := journal{dir: j.dir}
	err := later.open(name)
	if err == nil {
		err = later.write(lines)
	}
	if err != nil {
		if later.file != nil {
			_ = later.file.Close()
		}
		return err
	}
	j.close()
	j.file, j.name, j.offset, j.dirty = later.file, later.name, later.offset, true
	return nil
}

// keep reports whether lines of a later day begin to wait with this one.
func (j *journal) keep(name string, line []byte) (later bool) {
	if len(j.backlog)+len(line) > maxBacklog {
		j.lost++
		return false
	}
	if later = name > j.newest(); later {
		j.begins = append(j.begins, begin{name, len(j.backlog)})
	}
	j.backlog = append(j.backlog, line...)
	return later
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

// removeDays deletes the files of the days before first, which nothing is appended to.
func removeDays(dir, first string) error {
	days, err := journalDays(dir)
	for _, date := range days {
		if date >= first {
			break
		}
		for _, suffix := range [...]string{indexSuffix, packedSuffix, journalSuffix} {
			if e := os.Remove(filepath.Join(dir, date+suffix)); !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
		}
	}
	return err
}
