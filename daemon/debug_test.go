package daemon

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"coding-proxy/daemon/config"
)

const bareReply = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"raw words"}],` +
	`"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":2}}`

// rawProvider answers as bare as can be; the first key is overloaded.
func rawProvider(t *testing.T, overloaded string) string {
	return listen(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Set-Cookie", "who=walrus")
		if shown := r.Header.Get("X-Api-Key"); shown == credential(overloaded) {
			w.WriteHeader(529)
			_, _ = fmt.Fprintf(w, `{"type":"error","error":{"type":"overloaded_error","message":"%s is busy"}}`, shown)
			return
		}
		_, _ = io.WriteString(w, bareReply)
	}))
}

func debugging(cfg *config.Config) { cfg.DebugUsage = true }

// answerFiles returns the files of raw answers, oldest name first.
func (i *instance) answerFiles() []string {
	i.t.Helper()
	files, err := filepath.Glob(filepath.Join(i.dir, "debug", "*"))
	if err != nil {
		i.t.Fatal(err)
	}
	return files
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Each attempt has a file that its trace leads to; nobody else may read it.
func TestRawAnswersAreFiles(t *testing.T) {
	t.Parallel()
	at := &clock{time: time.Now()}
	url := rawProvider(t, k1)
	i := startAt(t, at, debugging, poolOf(poolKey(k1, url), poolKey(k2, url)), oneCaller())
	r := i.good(question(sonnet), "x-api-key: "+requestKey)
	files := i.answerFiles()
	if len(files) != 2 {
		t.Fatalf("%q", files)
	}
	for n, begins := range []string{"HTTP/1.1 529 ", "HTTP/1.1 200 OK\n"} {
		name := fmt.Sprintf("%s-%s-%d.txt", at.now().Format("20060102-150405.000"), r.trace(), n+1)
		if filepath.Base(files[n]) != name || !answerName.MatchString(name) {
			t.Errorf("%s, want %s", files[n], name)
		}
		text := read(t, files[n])
		if !strings.HasPrefix(text, begins) || strings.Contains(strings.ToLower(text), "cookie") {
			t.Errorf("%q", text)
		}
		for path, mode := range map[string]os.FileMode{files[n]: 0o600, filepath.Dir(files[n]): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode && runtime.GOOS != "windows" {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
	if first := read(t, files[0]); !strings.HasSuffix(first, `"message":"*** is busy"}}`) {
		t.Errorf("%q", first)
	}
	if second := read(t, files[1]); !strings.HasSuffix(second, "\n\n"+bareReply) {
		t.Errorf("%q", second)
	}
}

// Switched off it leaves nothing, not even a folder.
func TestRawAnswersAreOff(t *testing.T) {
	t.Parallel()
	i := start(t, poolOf(poolKey(k1, rawProvider(t, ""))), oneCaller())
	i.good(question(sonnet), "x-api-key: "+requestKey)
	if _, err := os.Stat(filepath.Join(i.dir, "debug")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

// Of 60 requests the newest 50 are kept; what is not ours stays.
func TestNewestRawAnswersAreKept(t *testing.T) {
	t.Parallel()
	at := &clock{time: time.Now()}
	i := startAt(t, at, debugging, poolOf(poolKey(k1, rawProvider(t, ""))), oneCaller())
	notes := filepath.Join(i.dir, "debug", "20200101-notes.txt")
	if err := os.MkdirAll(filepath.Dir(notes), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var want []string
	for range 60 {
		at.set(at.now().Add(time.Second))
		r := i.good(question(sonnet), "x-api-key: "+requestKey)
		want = append(want, r.trace())
		if n := len(i.answerFiles()); n > 51 {
			t.Fatalf("%d files", n)
		}
	}
	var got []string
	for _, f := range i.answerFiles() {
		if f != notes {
			got = append(got, strings.Split(filepath.Base(f), "-")[2])
		}
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
	if !slices.Equal(got, want[10:]) {
		t.Errorf("%d files: %q, want %q", len(got), got, want[10:])
	}
}

// A folder that cannot be written to fails no request and is told of once a minute.
func TestRawAnswersThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	at := &clock{time: time.Now()}
	i := startAt(t, at, debugging, poolOf(poolKey(k1, rawProvider(t, ""))), oneCaller())
	if err := os.WriteFile(filepath.Join(i.dir, "debug"), nil, 0o600); err != nil { // it is no folder
		t.Fatal(err)
	}
	for _, tc := range []struct {
		after time.Duration
		told  int
	}{{0, 1}, {time.Second, 1}, {59*time.Second - time.Nanosecond, 1}, {time.Nanosecond, 2}, {time.Second, 2}} {
		at.set(at.now().Add(tc.after))
		i.good(question(sonnet), "x-api-key: "+requestKey)
		if n := strings.Count(i.log.String(), "raw answers of upstreams cannot be written"); n != tc.told {
			t.Errorf("told %d times, want %d", n, tc.told)
		}
	}
}

// A file that is as long as it may be says so, and the client gets all.
func TestRawAnswerIsCut(t *testing.T) {
	t.Parallel()
	long := strings.Replace(bareReply, "raw words", strings.Repeat("raw words ", 1<<20), 1)
	url := listen(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, long)
	}))
	i := startAt(t, &clock{time: time.Now()}, debugging, poolOf(poolKey(k1, url)), oneCaller())
	if r := i.good(question(sonnet), "x-api-key: "+requestKey); r.body != long {
		t.Errorf("the client got %d bytes of %d", len(r.body), len(long))
	}
	files := i.answerFiles()
	if len(files) != 1 {
		t.Fatalf("%q", files)
	}
	const end = "\n(cut here: more than 8388608 bytes)\n"
	text, cut := strings.CutSuffix(read(t, files[0]), end)
	_, body, _ := strings.Cut(text, "\n\n")
	if !cut || len(text) != maxAnswer || !strings.HasPrefix(long, body) {
		t.Errorf("%d bytes, said: %v", len(text), cut)
	}
}
