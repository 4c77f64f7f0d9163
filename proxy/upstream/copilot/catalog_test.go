package copilot

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"coding-proxy/auth/oauth"
	"coding-proxy/proxy/demo"
)

// fakeList yields what it is told, and counts.
type fakeList struct {
	mu     sync.Mutex
	calls  int
	models []Model
	err    error
	hang   time.Duration
}

func (f *fakeList) fetch(ctx context.Context) ([]Model, error) {
	f.mu.Lock()
	f.calls++
	models, err, hang := f.models, f.err, f.hang
	f.mu.Unlock()
	select {
	case <-time.After(hang):
		return models, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func names(list []Model) string {
	var ids []string
	for _, m := range list {
		ids = append(ids, m.ID)
	}
	return strings.Join(ids, " ")
}

func TestCatalog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeList{models: listOf("a"), hang: time.Second}
		c := &catalog{fetch: f.fetch, now: time.Now}
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				if got := names(c.get(t.Context())); got != "a" {
					t.Errorf("the first list is %q", got)
				}
			})
		}
		wg.Wait()
		time.Sleep(catalogLife - 2*time.Second)
		c.get(t.Context())
		synctest.Wait()
		if f.calls != 1 {
			t.Errorf("%d requests for a list that is not old", f.calls)
		}
		f.models = listOf("b")
		time.Sleep(2 * time.Second)
		if got := names(c.get(t.Context())); got != "a" {
			t.Errorf("while the next list comes there is %q", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := names(c.get(t.Context())); got != "b" || f.calls != 2 {
			t.Errorf("then %q, %d requests", got, f.calls)
		}
		// The old one serves while there is no other.
		f.err = errors.New("away")
		time.Sleep(2 * catalogLife)
		for range 5 {
			c.get(t.Context())
			time.Sleep(2 * time.Second)
		}
		if got := names(c.get(t.Context())); got != "b" || f.calls != 3 {
			t.Errorf("after a failure %q, %d requests", got, f.calls)
		}
		time.Sleep(catalogPause)
		c.get(t.Context())
		synctest.Wait()
		if f.calls != 4 {
			t.Errorf("%d requests after a while", f.calls)
		}
		if err := c.refresh(t.Context()); err == nil {
			t.Error("no error")
		}
	})
}

func TestCatalogWaitsForNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeList{hang: time.Hour}
		c := &catalog{fetch: f.fetch, now: time.Now}
		began := time.Now()
		if got := c.get(t.Context()); got != nil || time.Since(began) != catalogPatience {
			t.Errorf("%v after %v", got, time.Since(began))
		}
		if got := c.get(t.Context()); got != nil || time.Since(began) != catalogPatience {
			t.Errorf("the next waits until %v", time.Since(began))
		}
		time.Sleep(catalogPause)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if got := c.get(ctx); got != nil || time.Since(began) != time.Second {
			t.Errorf("who left waited %v", time.Since(began))
		}
		if err := c.refresh(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("refresh: %v", err)
		}
		time.Sleep(catalogPatience)
	})
}

// Without a list the request goes its family's way.
func TestChooseWithoutList(t *testing.T) {
	for name, test := range map[string]struct {
		status int // of /models
		sent   int // how often it is asked for
	}{"away": {500, 1}, "refused for good": {401, 2}, "not there": {404, 1}, "moved": {302, 1}, "misdirected for good": {421, 2}} {
		a := newAccount(t, demo.CopilotOptions{}, nil)
		a.demo.Refuse(slices.Repeat([]int{test.status}, 9)...)
		if protocol, model, f := a.Choose(t.Context(), openAIChat, "claude-sonnet-4-5-20250929"); f != nil || protocol != anthropic || model != "claude-sonnet-4.5" {
			t.Errorf("%s: %s %s %+v", name, protocol, model, f)
		}
		n := 0
		for _, r := range a.demo.Arrived() {
			if strings.HasSuffix(r.Path, "/models") {
				n++
			}
		}
		if n != test.sent {
			t.Errorf("%s: it was asked for %d times", name, n)
		}
		if _, f := a.Models(t.Context()); f == nil || f.Status != 502 || f.Message == "" {
			t.Errorf("%s: %+v", name, f)
		}
	}
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.demo.FlagsOnly(true)
	if protocol, _, f := a.Choose(t.Context(), openAIChat, "gpt-5"); f != nil || protocol != openAIResponses {
		t.Errorf("%s %+v", protocol, f)
	}
	if _, f := a.Models(t.Context()); f == nil || f.Status != 401 || f.Type != oauth.ReasonPermission {
		t.Errorf("%+v", f)
	}
}

// The list is had although the token is over and the connection was for another host.
func TestListRecovers(t *testing.T) {
	a := newAccount(t, demo.CopilotOptions{}, nil)
	a.demo.Refuse(421, 401)
	list, f := a.Models(t.Context())
	if f != nil || names(list) != "claude-sonnet-4.5 gpt-5.1-codex gpt-4.1" || a.demo.Exchanges() != 2 {
		t.Errorf("%v %+v, %d exchanges", list, f, a.demo.Exchanges())
	}
	if a.hosts.isFresh() {
		t.Error("requests still need connections of their own")
	}
	if protocol, model, _ := a.Choose(t.Context(), anthropic, "gpt-5-codex"); protocol != openAIResponses || model != "gpt-5.1-codex" {
		t.Errorf("%s %s", protocol, model)
	}
	d := a.Diagnose()
	if len(d.Models) != 3 || d.ModelsAge == nil || *d.ModelsAge != 0 || d.Requested != "gpt-5-codex" || d.Resolved != "gpt-5.1-codex" || d.Protocol != openAIResponses {
		t.Errorf("%+v", d)
	}
}

func TestReadModels(t *testing.T) {
	list, err := readModels([]byte(`{"object":"list","data":[7,null,{},{"id":""},{"id":7},{"id":"a\nb"},
		{"id":"m","name":"M","vendor":"V","preview":true,"policy":{"state":"disabled"},"supported_endpoints":["/responses",7,"ws:/responses"],
		 "capabilities":{"family":"f","type":"chat","limits":{"max_context_window_tokens":5,"max_output_tokens":2.5}}}, {"id":"n","policy":{"state":"enabled"},"supported_endpoints":"x"}]}`))
	if err != nil || len(list) != 2 {
		t.Fatalf("%v %v", list, err)
	}
	m := list[0]
	if m.ID != "m" || m.Name != "M" || m.Vendor != "V" || m.Family != "f" || m.Type != "chat" || !m.Preview || !m.Disabled || m.Context != 5 || m.Output != 0 || !slices.Equal(m.Endpoints, []string{"/responses", "ws:/responses"}) {
		t.Errorf("%+v", m)
	}
	if n := list[1]; n.ID != "n" || n.Disabled || n.Endpoints != nil {
		t.Errorf("%+v", n)
	}
	for _, body := range []string{``, `[]`, `{}`, `{"data":{}}`, `{"data":[}`, `<html>`} {
		if list, err := readModels([]byte(body)); err == nil {
			t.Errorf("%q: %v", body, list)
		} else if e := new(listError); !errors.As(err, &e) || e.status != http.StatusOK {
			t.Errorf("%q: %v", body, err)
		}
	}
	if list, err := readModels([]byte(`{"data":[` + strings.Repeat(`{"id":"a"},`, 3000) + `{"id":"b"}]}`)); err != nil || len(list) != maxModels {
		t.Errorf("%d models, %v", len(list), err)
	}
}
