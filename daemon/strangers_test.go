package daemon

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Who is refused before anybody knows him is in the log, with his address and without what he has shown; a flood is a line a second.
func TestLogTellsOfStrangers(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	clock := nextNoon()
	i := startInAt(t, filepath.Join(t.TempDir(), "data"), clock, nil, poolOf(poolKey(k1, url)),
		fmt.Sprintf(`"auth":{"admin_key":"admin-secret","deny_addresses":["192.0.2.66"],"request_keys":[{"code":"laptop","api_key":%q}]}`, requestKey))
	count := 0
	told := func(name, says string) {
		t.Helper()
		lines := strings.Split(i.log.String(), "\n")
		n, last := 0, ""
		for _, l := range lines {
			if strings.Contains(l, "msg=refused") {
				n, last = n+1, l
			}
		}
		if count++; n != count || !strings.Contains(last, says) || strings.Contains(last, "shown") {
			t.Errorf("%s: %d lines, the last: %s", name, n, last)
		}
		clock.set(clock.now().Add(time.Second))
	}
	w := i.come("203.0.113.7:1", "", "key-that-is-shown")
	told("a wrong request key", "address=203.0.113.7")
	if w.Code != 401 || !strings.Contains(i.log.String(), w.Header().Get("X-Proxy-Trace")) {
		t.Errorf("status %d, or its trace is not there", w.Code)
	}
	i.come("192.0.2.66:1", "", requestKey)
	told("a denied address", strangeAddress)
	r := httptest.NewRequest("POST", "/admin/reset", nil)
	r.RemoteAddr = "203.0.113.8:1"
	r.Header.Set("Authorization", "Bearer shown-too")
	i.server.ServeHTTP(httptest.NewRecorder(), r)
	told("a wrong admin key", "203.0.113.8")
	for range 100 {
		i.come("203.0.113.7:1", "", "key-that-is-shown")
	}
	told("a flood", "untold_before=0")
	i.come("203.0.113.7:1", "", "key-that-is-shown")
	told("after it", "untold_before=99")
	if i.message(question(sonnet), "X-Api-Key: "+requestKey); count != strings.Count(i.log.String(), "msg=refused") {
		t.Error("a known caller is told of")
	}
}
