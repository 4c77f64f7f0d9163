package daemon

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// What a request costs is in its journal line and on the pages, by the price of the model that the provider bills; a model
// without a price is marked; a reload changes the price for the requests that come after it.
func TestCosts(t *testing.T) {
	t.Parallel()
	p, url := provider(t)
	p.Always(demo.Step{Text: answerText, Usage: demo.Usage{Input: 10, Output: 5, CacheCreation: 200, CacheRead: 1000}})
	members := []string{`"pool":{"strategy":"fill-first","max_wait_seconds":0,"keys":[` +
		poolKey(k1, url, `"models":{"claude-haiku-4-5":"glm-5.1","claude-opus-5-5":"house-opus","*":"*"}`) + `]}`}
	i := start(t, members...)
	costs := func(what, model, upstream string, want float64, unpriced bool) {
		t.Helper()
		for _, more := range [][]string{nil, {streamed}} {
			r := i.record(i.good(question(model, more...)).trace())
			if r.UpstreamModel != upstream || r.CostUSD != want || r.Unpriced != unpriced {
				t.Errorf("%s: %s costs %v, unpriced %v, want %v, %v", what, r.UpstreamModel, r.CostUSD, r.Unpriced, want, unpriced)
			}
		}
	}
	costs("a list price", "claude-sonnet-4-5-20250929", "claude-sonnet-4-5-20250929", 0.001155, false) // 10 × 3 + 5 × 15 + 200 × 3.75 + 1000 × 0.30
	costs("the model that the provider bills", "claude-haiku-4-5", "glm-5.1", 0.000576, false)         // 10 × 1.4 + 5 × 4.4 + 200 × 1.4 + 1000 × 0.26
	costs("an unknown one", "claude-opus-5-5", "house-opus", 0, true)

	i.rewrite(append(members, `"pricing":[{"pattern":"house-*","input":1,"output":2},{"pattern":"glm-5.1","input":0,"output":0}]`)...)
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	costs("with a price of its own", "claude-opus-5-5", "house-opus", 0.00122, false) // 10 + 5 × 2 + 200 + 1000
	costs("before the table", "claude-haiku-4-5", "glm-5.1", 0, false)
	costs("the others", sonnet, sonnet, 0.00067, false) // 10 × 2 + 5 × 10 + 200 × 2.5 + 1000 × 0.1

	// A probe that is answered here costs nothing and lacks no price.
	if r := i.record(i.good(`{"model":"unheard-of","max_tokens":1,"messages":[{"role":"user","content":"quota"}]}`).trace()); r.CostUSD != 0 || r.Unpriced || r.Key != "" {
		t.Errorf("a local answer: %+v", r)
	}
	r := i.ask("GET", "/api/stats", "")
	for _, want := range []string{`"unpriced":2,"cost_usd":0.007242`, // 2 × (1155 + 576 + 0 + 1220 + 0 + 670)
		`{"model":"claude-opus-5-5","requests":4,`, `{"model":"claude-sonnet-5-5","requests":2,`} {
		if !strings.Contains(r.body, want) {
			t.Errorf("no %s in %s", want, r.body)
		}
	}
	if page := i.ask("GET", "/stats", "", "Accept: text/html").body; !strings.Contains(page, "Cost (USD)") || !strings.Contains(page, "without a price") {
		t.Error("the page shows no cost, or not what it lacks")
	}
}

// Lists show the names of each key's provider where the price table has them, and none of another vendor's.
func TestModelsOfProviders(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	key := func(id, provider, protocol string) string {
		return fmt.Sprintf(`{"id":%q,"provider":%q,"protocol":%q,"base_url":%q,"api_key":"credential-of-x"}`, id, provider, protocol, url)
	}
	var keys, callers, groups []string
	for id, c := range map[string][2]string{
		"claude": {"anthropic", "anthropic"}, "kimi": {"kimi", "anthropic"}, "glm": {"zhipu", "anthropic"}, "doubao": {"doubao", "anthropic"},
		"local": {"ollama", "openai-chat"}, "gpt": {"openai", "openai-chat"}, "gemini": {"gemini", "gemini"}, "own": {"my gateway", "anthropic"},
	} {
		keys = append(keys, key(id, c[0], c[1]))
		groups = append(groups, fmt.Sprintf(`{"name":%q,"keys":[%q]}`, id, id))
		callers = append(callers, fmt.Sprintf(`{"code":%q,"api_key":%q,"group":%q}`, id, requestKey+"-"+id, id))
	}
	i := start(t, `"auth":{"request_keys":[`+strings.Join(callers, ",")+`],"groups":[`+strings.Join(groups, ",")+`]}`, `"pool":{"strategy":"fill-first","keys":[`+strings.Join(keys, ",")+`]}`)
	for id, c := range map[string]struct{ has, lacks string }{
		"claude": {"claude-opus-5-5 claude-haiku-4-5", "gpt glm kimi claude-3-opus"}, "kimi": {"kimi-k3", "claude glm"}, "glm": {"glm-5.1 claude-opus-5-5", "kimi gpt"},
		"doubao": {"", "claude doubao"}, "local": {"", "gpt claude"}, "gpt": {"gpt-6.2-sol gpt-5-mini", "claude gpt-4o"}, "gemini": {"gemini-3.8-flash", "claude gpt"},
		"own": {"claude-opus-5-5", "gpt glm"},
	} {
		list := i.ask("GET", "/v1/models", "", "x-api-key: "+requestKey+"-"+id)
		if list.status != http.StatusOK {
			t.Errorf("%s: %d", id, list.status)
		}
		for name := range strings.FieldsSeq(c.has) {
			if !strings.Contains(list.body, `"id":"`+name+`"`) {
				t.Errorf("%s: no %s in %s", id, name, list.body)
			}
		}
		for name := range strings.FieldsSeq(c.lacks) {
			if strings.Contains(list.body, `"id":"`+name) {
				t.Errorf("%s: %s in %s", id, name, list.body)
			}
		}
	}
}
