package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/stats"
)

// Journal is what is shown of the journal (stats.Reader).
type Journal interface {
	Requests(ctx context.Context, f stats.Filter, limit int, cursor string) (lines []json.RawMessage, next string, err error)
	Request(ctx context.Context, trace string) (json.RawMessage, error)
}

const (
	requestsPath  = "/api/requests"
	traceSegment  = "{trace}" // of a route's path
	fewRequests   = 50        // without a limit
	mostRequests  = 500
	lineSeparator = ","
	// Lines with names that somebody made long must not fill the memory: an answer ends early after so many bytes, and
	// they are read in pieces.
	mostLineBytes = 8 << 20
	requestsPiece = 50
)

func requestsParams() []string {
	return []string{"trace", "caller", "model", "key", "tier", "outcome", "failed", "from", "to", "limit", "cursor"}
}

// apiRequests answers with lines of the journal as they are there, the newest first.
func (x *Web) apiRequests(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	f, err := x.filterOf(q)
	if err != nil {
		return err
	}
	limit := fewRequests
	if q.Has("limit") {
		if limit, err = strconv.Atoi(q.Get("limit")); err != nil || limit < 1 || limit > mostRequests {
			return invalid("limit must be a number from 1 to %d", mostRequests)
		}
	}
	lines, next, err := x.requests(r.Context(), f, limit, q.Get("cursor"))
	if errors.Is(err, stats.ErrCursor) {
		return invalid("cursor must be the next of an earlier answer")
	}
	if err != nil {
		return err
	}
	end, err := json.Marshal(optional(next))
	if err != nil {
		return err
	}
	writeLines(w, `{"requests":[`, lines, `],"next":`+string(end)+`}`)
	return nil
}

// requests returns up to limit lines, and the cursor for those before them.
func (x *Web) requests(ctx context.Context, f stats.Filter, limit int, cursor string) (lines []json.RawMessage, next string, err error) {
	for size := 0; ; {
		most := min(requestsPiece, limit-len(lines))
		var piece []json.RawMessage
		if piece, cursor, err = x.journal.Requests(ctx, f, most, cursor); err != nil {
			return nil, "", err
		}
		for _, l := range piece {
			size += len(l)
		}
		if lines = append(lines, piece...); cursor == "" || len(piece) < most || len(lines) == limit || size >= mostLineBytes {
			return lines, cursor, nil
		}
	}
}

// apiRequest answers with the line of one request.
func (x *Web) apiRequest(w http.ResponseWriter, r *http.Request) error {
	none := &Error{http.StatusNotFound, "not_found_error", "the journal has no request with this trace"}
	trace := strings.TrimPrefix(r.URL.Path, requestsPath+"/")
	if !stats.IsTrace(trace) {
		return none
	}
	line, err := x.journal.Request(r.Context(), trace)
	if errors.Is(err, stats.ErrNoRequest) {
		return none
	}
	if err != nil {
		return err
	}
	writeLines(w, "", []json.RawMessage{line}, "")
	return nil
}

// writeLines writes lines as they are: encoding them once more could change them.
func writeLines(w http.ResponseWriter, before string, lines []json.RawMessage, after string) {
	size := len(before) + len(after) + max(0, len(lines)-1)*len(lineSeparator)
	for _, l := range lines {
		size += len(l)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(size))
	w.WriteHeader(http.StatusOK)
	_, err := w.Write([]byte(before))
	for i, l := range lines {
		if err == nil && i > 0 {
			_, err = w.Write([]byte(lineSeparator))
		}
		if err == nil {
			_, err = w.Write(l)
		}
	}
	if err == nil { // a client that is gone needs no error
		_, _ = w.Write([]byte(after))
	}
}

// filterOf reads what is asked for.
func (x *Web) filterOf(q url.Values) (f stats.Filter, err error) {
	f = stats.Filter{Trace: q.Get("trace"), Caller: q.Get("caller"), Model: q.Get("model"), Key: q.Get("key"), Tier: q.Get("tier"), Outcome: q.Get("outcome")}
	for name := range q {
		if q.Get(name) == "" {
			return f, invalid("%s is empty; leave it out to ask for all", name)
		}
	}
	if f.Outcome != "" && !slices.Contains(stats.Outcomes(), f.Outcome) {
		return f, invalid("outcome must be one of %s", strings.Join(stats.Outcomes(), ", "))
	}
	if f.Trace != "" && !stats.IsTrace(f.Trace) {
		return f, invalid("trace must be 16 hexadecimal digits")
	}
	switch q.Get("failed") {
	case "", "false":
	case "true":
		f.Failed = true
	default:
		return f, invalid("failed must be true or false")
	}
	if f.From, f.To, err = stats.Between(q.Get("from"), q.Get("to"), x.now().Location()); err != nil {
		return f, invalid("%v", err)
	}
	return f, nil
}

func invalid(format string, args ...any) error {
	return &Error{http.StatusBadRequest, "invalid_request_error", fmt.Sprintf(format, args...)}
}
