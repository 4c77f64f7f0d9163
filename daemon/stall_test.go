package daemon

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"coding-proxy/web"
)

// deadlined is a connection that knows its read deadline.
type deadlined struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (d *deadlined) SetReadDeadline(t time.Time) error {
	d.until = t
	return nil
}

// unread is a body that knows whether it was read to its end.
type unread struct {
	io.Reader
	ended bool
}

func (u *unread) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	u.ended = u.ended || err == io.EOF
	return n, err
}

// A body that stops arriving holds no connection for ever, whoever sends it: where a handler leaves one unread, net/http reads on
// before it answers, so that a deadline must be left behind. Every route there is.
func TestNobodyWaitsForABodyForEver(t *testing.T) {
	t.Parallel()
	routes, dialectOf := accessRoutes()
	routes = append(routes, "POST /nothing", "OPTIONS /v1/messages", "PUT /stats", "GET /admin/reset", "POST "+web.SignInPath+"?x=1")
	for _, site := range accessSites(t) {
		site.admit(func(s *liveState) { s.origins = []string{page} })
		site.state = *site.server.live.Load()
		for _, route := range routes {
			for _, from := range []string{"127.0.0.1:1", "192.0.2.7:1"} {
				for _, kind := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded"} {
					method, path, _ := strings.Cut(route, " ")
					body := &unread{Reader: strings.NewReader("x")}
					to := visitTo{route, "", dialectOf[route], site.stored}
					r := httptest.NewRequest(method, strings.NewReplacer("{id}", to.id(), "{trace}", "0123456789abcdef").Replace(path), body)
					r.RemoteAddr, r.Host = from, "127.0.0.1:3456"
					r.Header.Set("Content-Type", kind)
					if method == http.MethodOptions {
						r.Header.Set("Origin", page)
						r.Header.Set("Access-Control-Request-Method", "POST")
					}
					state := site.state
					site.server.live.Store(&state)
					ctx, leave := site.leaving()
					leave() // streams of events end at once
					w := &deadlined{ResponseRecorder: httptest.NewRecorder()}
					site.server.ServeHTTP(w, r.WithContext(ctx))
					if !body.ended && w.until.IsZero() {
						t.Errorf("%s, %s from %s, %s: status %d, and no deadline", site.name, route, from, kind, w.Code)
					}
				}
			}
		}
	}
}
