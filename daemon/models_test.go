package daemon

import (
	"fmt"
	"strings"
	"testing"
)

// A model's name goes through three steps, and the journal has them all: the client's, the resolved one, the upstream's.
func TestModelNames(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	i := start(t, `"model_mapping":[{"pattern":"best","target":"claude-opus-5-5"},{"pattern":"fast-*","target":"claude-haiku-4-5"},{"pattern":"lost","target":"nowhere"}]`,
		fmt.Sprintf(`"auth":{"request_keys":[{"code":"all","api_key":%q},{"code":"few","api_key":%q,"models":["claude-opus-*"]},{"code":"alias","api_key":%q,"models":["best"]}]}`,
			requestKey, requestKey+"-few", requestKey+"-alias"),
		`"tiers":[{"name":"one","model_mapping":[{"pattern":"claude-opus-.*","target":"house-opus","is_regex":true}]},{"name":"two"}]`,
		`"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[`+poolKey(k1, url, `"tier":"one"`)+`,`+
			poolKey(k2, url, `"tier":"two"`, `"models":{"claude-haiku-4-5":"house-haiku","claude-opus-5-5":"second-opus"}`)+`]}`)
	for _, c := range []struct{ requested, resolved, upstream, key string }{
		{"best", "claude-opus-5-5", "house-opus", k1},
		{"claude-opus-4-1", "claude-opus-4-1", "house-opus", k1},
		{"fast-please", "claude-haiku-4-5", "house-haiku", k2},
		{"claude-haiku-4-5", "claude-haiku-4-5", "house-haiku", k2},
	} {
		rec := i.record(i.good(question(c.requested), "x-api-key: "+requestKey).trace())
		if rec.Requested != c.requested || rec.Resolved != c.resolved || rec.UpstreamModel != c.upstream || rec.Key != c.key {
			t.Errorf("%s: journal %s → %s → %s by %s", c.requested, rec.Requested, rec.Resolved, rec.UpstreamModel, rec.Key)
		}
		got := p.Requests()
		if body := string(got[len(got)-1].Body); !strings.Contains(body, fmt.Sprintf(`"model":%q`, c.upstream)) || strings.Contains(body, c.requested) {
			t.Errorf("%s: the upstream got %s", c.requested, body)
		}
	}
	r := i.message(question("lost"), "x-api-key: "+requestKey)
	i.isRefusal(r, 404, "not_found_error")
	if !strings.Contains(r.body, `\"lost\"`) || !strings.Contains(r.body, "near names: best") || strings.Contains(r.body, "nowhere") {
		t.Errorf("404: %s", r.body)
	}
	// A caller's list is about the resolved name: no alias gets around it, and none is needed.
	if r := i.message(question("best"), "x-api-key: "+requestKey+"-few"); r.status != 200 {
		t.Errorf("an alias of what is allowed: %d", r.status)
	}
	i.isRefusal(i.message(question("fast-please"), "x-api-key: "+requestKey+"-few"), 403, "permission_error")
	i.isRefusal(i.message(question("best"), "x-api-key: "+requestKey+"-alias"), 403, "permission_error")
	// The list has what the caller can ask for.
	list := i.ask("GET", "/v1/models", "", "x-api-key: "+requestKey+"-few")
	if !strings.Contains(list.body, `"best"`) || !strings.Contains(list.body, `"claude-opus-5-5"`) || strings.Contains(list.body, "haiku") || strings.Contains(list.body, "lost") {
		t.Errorf("models: %s", list.body)
	}
}
