package daemon

import (
	"net/http"
	"strings"
	"testing"
)

// An answer in the background tells nobody whom we could count for what it uses: its request ends before it begins. A caller
// whose tokens or costs are limited gets none, with the field however it is written; others do.
func TestLimitedCallersAskForNothingInTheBackground(t *testing.T) {
	t.Parallel()
	for limit, status := range map[string]int{
		`"daily_limit_tokens":1000`: 403, `"monthly_limit_tokens":1000`: 403, `"daily_limit_usd":1`: 403, `"requests_per_minute":1000`: 200, `"max_in_flight":9`: 200,
	} {
		b := newBackend(t, func(w http.ResponseWriter, _ *http.Request, _ int) {
			say(w, 200, `{"id":"resp_1","object":"response","status":"queued","background":true,"model":"gpt-5","output":[],"usage":null}`)
		})
		i := start(t, poolOf(`{"id":"`+k1+`","protocol":"openai-responses","base_url":"`+b.URL+`","api_key":"`+credential(k1)+`"}`), oneCaller(limit))
		for _, field := range []string{`"background":true`, `"b\u0061ckground": true`, `"background":true,"stream":true`, `"background":true,"background":false`} {
			if status == 200 && strings.Contains(field, "stream") {
				continue // the backend has no stream
			}
			before := len(b.requests())
			r := i.ask("POST", "/v1/responses", `{"model":"gpt-5","input":"zebra",`+field+`}`, "Authorization: Bearer "+requestKey)
			if r.status != status || status == 403 && !strings.Contains(r.body, `"param":"background"`) || (len(b.requests()) > before) != (status == 200) {
				t.Errorf("%s, %s: %d %s, %d requests", limit, field, r.status, r.body, len(b.requests())-before)
			}
			if rec := i.record(r.trace()); status == 403 && (rec.Caller != "laptop" || rec.Status != 403 || rec.Requested != "gpt-5") {
				t.Errorf("the journal has %+v", rec)
			}
		}
		if r := i.ask("POST", "/v1/responses", `{"model":"gpt-5","input":"zebra","background":false}`, "Authorization: Bearer "+requestKey); r.status != 200 {
			t.Errorf("%s: not in the background: %d %s", limit, r.status, r.body)
		}
	}
}
