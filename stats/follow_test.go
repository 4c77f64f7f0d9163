package stats

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// Follow tells of each line once, over midnight, while days are compressed.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 3)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan error)
		go func() {
			done <- follow(ctx, NewReader(l.data), Filter{Failed: true}, func(r *Record) error {
				got = append(got, string(bytes.TrimSpace(r.appendLine(nil))))
				return nil
			})
		}()
		settle := func() { time.Sleep(2 * followEvery); synctest.Wait() }
		settle()
		old := len(l.want(Filter{Failed: true}))
		for range 4 {
			l.append(20)
			if l.rnd.IntN(2) == 0 {
				settle()
			}
			l.append(20)
			l.day = l.day.AddDate(0, 0, 1)
			l.append(5)
			settle()
			l.age()
		}
		sameLines(t, "follow", got, l.want(Filter{Failed: true})[old:])
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// A half-written line is told of when it is whole; a day that begins is noticed where there was none.
func TestFollowFromNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, n := t.TempDir(), 0
		stop := errors.New("enough")
		done := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			done <- follow(ctx, NewReader(data), Filter{}, func(r *Record) error {
				if n++; n == 2 {
					return stop
				}
				return nil
			})
		}()
		time.Sleep(2 * followEvery)
		if err := os.Mkdir(filepath.Join(data, journalsName), 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(data, journalsName, "2026-03-01"+journalSuffix)
		line := record(time.Now(), "1").appendLine(nil)
		for _, text := range [][]byte{line, line[:40]} {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			f.Write(text)
			f.Close()
			time.Sleep(2 * followEvery)
			synctest.Wait()
			if n != 1 {
				t.Fatalf("%d lines, want 1", n)
			}
		}
		if err := os.WriteFile(path, append(slices.Clone(line), line...), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, stop) {
			t.Error(err)
		}
	})
}

// Lines of a file that was emptied or replaced by a shorter one are told of, and whole.
func TestFollowAfterTheFileWasEmptied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(t, 3)
		l.append(50)
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		done := make(chan error)
		go func() {
			done <- follow(ctx, NewReader(l.data), Filter{}, func(r *Record) error { got = append(got, r.Trace); return nil })
		}()
		settle := func() { time.Sleep(2 * followEvery); synctest.Wait() }
		settle()
		if err := os.Truncate(l.path(l.date(), journalSuffix), 0); err != nil {
			t.Fatal(err)
		}
		settle()
		first := len(l.entries)
		for range 9 { // beyond where the file had ended
			l.append(20)
			settle()
		}
		var want []string
		for _, e := range l.entries[first:] {
			want = append(want, e.Trace)
		}
		sameLines(t, "follow", got, want)
		cancel()
		<-done
	})
}

// follow is what `requests --follow` does: from the end on.
func follow(ctx context.Context, r *Reader, f Filter, each func(*Record) error) error {
	t, err := r.Tail(ctx)
	if err != nil {
		return err
	}
	return t.Follow(ctx, f, each)
}
