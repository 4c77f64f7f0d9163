package stats

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// countdown is a context that ends when it was asked so many times.
type countdown struct {
	context.Context
	left atomic.Int64
}

func (c *countdown) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// What is no line can be of any length, and compressed it needs little room: reading it ends with its context, too.
func TestReadingOfOneLongLineEndsWithItsContext(t *testing.T) {
	const size = 64 << 20
	for _, suffix := range []string{journalSuffix, packedSuffix} {
		data := t.TempDir()
		path := filepath.Join(data, journalsName, "2026-03-01"+suffix)
		if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		var packed bytes.Buffer
		if suffix == packedSuffix {
			z := gzip.NewWriter(&packed)
			for range size >> 20 {
				z.Write(make([]byte, 1<<20))
			}
			z.Close()
		}
		if err := os.WriteFile(path, packed.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if suffix == journalSuffix { // a hole, and the end of its line
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
			f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteString("\n")
			f.Close()
		}
		r := NewReader(data)
		for what, read := range map[string]func(context.Context) error{
			"each":     func(ctx context.Context) error { return r.Each(ctx, Filter{}, nil) },
			"requests": func(ctx context.Context) error { _, _, err := r.Requests(ctx, Filter{}, 5, ""); return err },
		} {
			for _, asked := range []int64{0, 1, 2, 5, 50} {
				ctx := &countdown{Context: t.Context()}
				ctx.left.Store(asked)
				if err := read(ctx); !errors.Is(err, context.Canceled) {
					t.Errorf("%s of %s, after %d looks: %v", what, suffix, asked, err)
				}
			}
		}
	}
}
