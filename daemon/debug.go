package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	answersName   = "debug" // in the data directory
	keptAnswers   = 50
	maxAnswer     = 8 << 20 // bytes of one answer's file
	answerTime    = "20060102-150405.000"
	answersSilent = time.Minute // a disk fault is logged at most once in this time
)

// answers is the folder of raw answers (proxy.Answers): one file an attempt, the newest keptAnswers.
type answers struct {
	dir string
	now func() time.Time
	log *slog.Logger

	mu         sync.Mutex
	complained time.Time
}

func newAnswers(dataDir string, log *slog.Logger, now func() time.Time) *answers {
	return &answers{dir: filepath.Join(dataDir, answersName), log: log, now: now}
}

// Begin makes the file of an answer, and room for it.
func (a *answers) Begin(trace string, attempt int) io.WriteCloser {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := os.MkdirAll(a.dir, 0o700)
	if err == nil {
		err = a.makeRoom()
	}
	name := a.now().Format(answerTime) + "-" + trace + "-" + strconv.Itoa(attempt) + ".txt"
	f, openErr := os.OpenFile(filepath.Join(a.dir, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err := errors.Join(err, openErr); err != nil {
		a.complain(err)
	}
	if openErr != nil {
		return nil
	}
	return &answerFile{answers: a, f: f, left: maxAnswer}
}

// makeRoom deletes the files of the oldest answers: those that were written longest ago, since clocks step back.
func (a *answers) makeRoom() error {
	entries, err := os.ReadDir(a.dir)
	if err != nil {
		return err
	}
	var files []fs.FileInfo
	for _, e := range entries {
		if info, err := e.Info(); err == nil && answerName.MatchString(e.Name()) {
			files = append(files, info)
		}
	}
	slices.SortFunc(files, func(a, b fs.FileInfo) int {
		return cmp.Or(a.ModTime().Compare(b.ModTime()), strings.Compare(a.Name(), b.Name()))
	})
	for len(files) >= keptAnswers {
		err = errors.Join(err, os.Remove(filepath.Join(a.dir, files[0].Name())))
		files = files[1:]
	}
	return err
}

// answerName is what our files are called. Others in the folder are left alone.
var answerName = regexp.MustCompile(`^\d{8}-\d{6}\.\d{3}-[0-9a-f]{16}-\d+\.txt$`)

// complain logs a fault of the disk. The lock is held.
func (a *answers) complain(err error) {
	if now := a.now(); a.complained.IsZero() || now.Sub(a.complained) >= answersSilent {
		a.complained = now
		a.log.Error("raw answers of upstreams cannot be written; requests go on", "error", err)
	}
}

// answerFile is one answer's file. After an error nothing more is written to it.
type answerFile struct {
	answers *answers
	f       *os.File
	left    int // bytes that it may still get
}

var errCut = errors.New("the file is as long as it may be")

// Write writes as much as there is room for. What is cut off is said at the end of the file.
func (w *answerFile) Write(p []byte) (int, error) {
	cut := len(p) > w.left
	p = p[:min(len(p), w.left)]
	n, err := w.f.Write(p)
	w.left -= n
	if err == nil && cut {
		_, err = fmt.Fprintf(w.f, "\n(cut here: more than %d bytes)\n", maxAnswer)
		err = cmp.Or(err, errCut)
	}
	w.check(err)
	return n, err
}

func (w *answerFile) Close() error {
	err := w.f.Close()
	w.check(err)
	return err
}

func (w *answerFile) check(err error) {
	if err == nil || errors.Is(err, errCut) {
		return
	}
	w.answers.mu.Lock()
	defer w.answers.mu.Unlock()
	w.answers.complain(err)
}
