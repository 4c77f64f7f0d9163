package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"coding-proxy/stats"
)

// journal notes what is asked of it.
type journal struct {
	lines  []json.RawMessage
	next   string
	err    error
	filter stats.Filter
	limit  int
	cursor string
	trace  string
	asked  int
	ctx    context.Context
}

func (j *journal) Requests(ctx context.Context, f stats.Filter, limit int, cursor string) ([]json.RawMessage, string, error) {
	j.filter, j.limit, j.cursor, j.ctx = f, limit, cursor, ctx
	j.asked++
	return j.lines, j.next, j.err
}

func (j *journal) Request(ctx context.Context, trace string) (json.RawMessage, error) {
	j.trace, j.ctx = trace, ctx
	j.asked++
	if len(j.lines) == 0 {
		return nil, j.err
	}
	return j.lines[0], j.err
}

func (j *journal) get(t *testing.T, url string) *httptest.ResponseRecorder {
	t.Helper()
	f := small()
	f.journal = j
	return f.ask(t, "GET", url)
}

// Lines pass byte for byte, whatever the encoder would make of them.
func TestRequestLines(t *testing.T) {
	lines := []json.RawMessage{json.RawMessage(`{"trace": "a",  "x":"<é\u001b[2J>","n":1.0e2}`), json.RawMessage(`{"trace":"b"}`)}
	w := (&journal{lines: lines, next: "2026-03-04:7"}).get(t, "/api/requests")
	if want := `{"requests":[` + string(lines[0]) + `,` + string(lines[1]) + `],"next":"2026-03-04:7"}`; w.Code != 200 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %v\n%s\nwant\n%s", w.Code, w.Header(), w.Body, want)
	}
	if w := (&journal{}).get(t, "/api/requests"); w.Body.String() != `{"requests":[],"next":null}` {
		t.Errorf("%s", w.Body)
	}
	j := &journal{lines: lines}
	if w := j.get(t, "/api/requests/0123456789abcdef"); w.Code != 200 || w.Body.String() != string(lines[0]) || j.trace != "0123456789abcdef" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// An answer to HEAD has the length of that to GET.
	f := small()
	f.journal = j
	if w := f.ask(t, "HEAD", "/api/requests"); w.Header().Get("Content-Length") == "" || w.Code != 200 {
		t.Errorf("%v", w.Header())
	}
}

// What is asked for reaches the journal.
func TestRequestParameters(t *testing.T) {
	day := func(d, h int) time.Time { return time.Date(2026, 3, d, h, 0, 0, 0, time.UTC) }
	for query, want := range map[string]journal{
		"":                              {limit: 50},
		"limit=1":                       {limit: 1},
		"limit=500&cursor=2026-03-04:7": {limit: 50, cursor: "2026-03-04:7"}, // the first piece
		"caller=c&model=m&key=k&tier=t&outcome=broken&trace=0123456789abcdef": {limit: 50,
			filter: stats.Filter{Caller: "c", Model: "m", Key: "k", Tier: "t", Outcome: "broken", Trace: "0123456789abcdef"}},
		"failed=true":                   {limit: 50, filter: stats.Filter{Failed: true}},
		"failed=false":                  {limit: 50},
		"from=2026-03-04&to=2026-03-04": {limit: 50, filter: stats.Filter{From: day(4, 0), To: day(5, 0)}},
		"from=2026-03-04T05:00:00Z":     {limit: 50, filter: stats.Filter{From: day(4, 5)}},
	} {
		var j journal
		w := j.get(t, "/api/requests?"+query)
		if w.Code != 200 || j.filter != want.filter || j.limit != want.limit || j.cursor != want.cursor {
			t.Errorf("%s: %d, %+v, limit %d, cursor %q", query, w.Code, j.filter, j.limit, j.cursor)
		}
	}
	for query, says := range map[string]string{
		"limit=0": "1 to 500", "limit=501": "1 to 500", "limit=x": "1 to 500", "limit=": "limit", "limit=1&limit=2": "more than once", "caller=": "caller is empty",
		"outcome=good": "ok, error, cancelled, broken, exhausted, local", "trace=zz": "16 hexadecimal digits", "failed=1": "true or false", "from=now": "from must be",
		"to=2026-02-30": "to must be", "from=2026-03-05&to=2026-03-04": "before", "callers=c": `unknown parameter \"callers\"`, "cursor=": "cursor",
	} {
		var j journal
		if w := j.get(t, "/api/requests?"+query); w.Code != 400 || !strings.Contains(w.Body.String(), says) || j.asked != 0 {
			t.Errorf("%s: %d %s, the journal was asked %d times", query, w.Code, w.Body, j.asked)
		}
	}
	for _, c := range []struct {
		err    error
		url    string
		status int
		says   string
	}{
		{stats.ErrCursor, "/api/requests?cursor=x", 400, "cursor"},
		{errors.New("disk on fire"), "/api/requests", 500, "internal error"},
		{stats.ErrNoRequest, "/api/requests/0123456789abcdef", 404, "no request with this trace"},
		{errors.New("disk on fire"), "/api/requests/0123456789abcdef", 500, "internal error"},
	} {
		j := journal{err: c.err}
		if w := j.get(t, c.url); w.Code != c.status || !strings.Contains(w.Body.String(), c.says) || strings.Contains(w.Body.String(), "fire") || j.asked != 1 {
			t.Errorf("%s, %v: %d %s", c.url, c.err, w.Code, w.Body)
		}
	}
}

// pieces is a journal of lines that are so long.
type pieces struct{ size int }

func (p *pieces) Requests(_ context.Context, _ stats.Filter, limit int, cursor string) (lines []json.RawMessage, next string, err error) {
	from, _ := strconv.Atoi(cursor) // "": the newest
	for n := range limit {
		lines = append(lines, json.RawMessage(fmt.Sprintf("%q", fmt.Sprint(from+n)+strings.Repeat(" ", p.size))))
	}
	return lines, fmt.Sprint(from + limit), nil
}

func (p *pieces) Request(context.Context, string) (json.RawMessage, error) {
	return nil, stats.ErrNoRequest
}

// An answer has as many lines as are asked for, unless they are very long: then the cursor goes on where it ends.
func TestRequestPieces(t *testing.T) {
	for _, c := range []struct{ size, limit, lines int }{{1, 500, 500}, {1, 70, 70}, {1, 1, 1}, {50 << 10, 500, 200}} {
		f := small()
		f.journal = &pieces{c.size}
		w := f.ask(t, "GET", fmt.Sprint("/api/requests?limit=", c.limit))
		var page struct {
			Requests []string
			Next     string
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Requests) != c.lines || page.Next != fmt.Sprint(c.lines) {
			t.Errorf("%+v: %v, %d lines, next %s", c, err, len(page.Requests), page.Next)
		}
		for n, l := range page.Requests {
			if strings.TrimSpace(l) != fmt.Sprint(n) {
				t.Errorf("%+v: line %d is %.10s", c, n, l)
			}
		}
	}
}

// What is no trace is not looked for, and a longer path is no route.
func TestRequestTraces(t *testing.T) {
	for _, trace := range []string{"x", "0123456789ABCDEF", "0123456789abcdef0", "..", "%2e%2e", "{trace}"} {
		var j journal
		if w := j.get(t, "/api/requests/"+trace); w.Code != 404 || j.asked != 0 {
			t.Errorf("%s: %d, asked %d times", trace, w.Code, j.asked)
		}
	}
	for _, path := range []string{"/api/requests/", "/api/requests/a/b", "/api/requestsx", "/api/requests//"} {
		if r := Find(Routes(), path); r != nil {
			t.Errorf("%s is %s", path, r.Path)
		}
	}
	if r := Find(Routes(), "/api/requests"); r == nil || r.Path != "/api/requests" {
		t.Errorf("%+v", r)
	}
}

// The journal is read for as long as the client is there.
func TestRequestContext(t *testing.T) {
	for _, path := range []string{"/api/requests", "/api/requests/0123456789abcdef"} {
		f, j := small(), &journal{err: context.Canceled}
		f.journal = j
		type key struct{}
		r := httptest.NewRequestWithContext(context.WithValue(t.Context(), key{}, 1), http.MethodGet, path, nil)
		New(Sources{Pool: f, Stats: f, Journal: j}, nil, Options{}, noon).Serve(httptest.NewRecorder(), r, Find(Routes(), path))
		if j.ctx == nil || j.ctx.Value(key{}) != 1 {
			t.Errorf("%s: the journal has another context", path)
		}
	}
}
