package daemon

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// shownBy is how a caller of these tests shows itself: one that may use all models, or few.
func shownBy(code string) string { return "x-proxy-key: " + requestKey + "-" + code }

// allAndFew are a caller without a list of models and one with it.
func allAndFew(models ...string) string {
	return fmt.Sprintf(`"auth":{"request_keys":[{"code":"all","api_key":%q},{"code":"few","api_key":%q,"models":["%s"]}]}`,
		requestKey+"-all", requestKey+"-few", strings.Join(models, `","`))
}

// aliases lead from names that are on no list to one that is, and the other way round.
const aliases = `"model_mapping":[{"pattern":"small","target":"gpt-5-mini"},{"pattern":"claude-haiku-old","target":"claude-opus-5-5"},{"pattern":"gpt-5","target":"gpt-5-mini"},{"pattern":"flash","target":"gemini-2.5-flash"}]`

// listCase is a request of a caller that may use gpt-5-mini, claude-haiku-* and gemini-2.5-flash.
type listCase struct {
	name, dialect, path, body string
	header                    []string // in place of the content type
	status                    int      // 200, or that of the refusal
	says                      string
}

const (
	listTurn  = `"messages":[{"role":"user","content":"zebra"}]`
	listTurns = `"contents":[{"role":"user","parts":[{"text":"zebra"}]}]`
	listForm  = "Content-Type: multipart/form-data; boundary=edge"
)

// listPart is a field of a form.
func listPart(disposition, value string) string {
	return "--edge\r\nContent-Disposition: form-data; " + disposition + "\r\n\r\n" + value + "\r\n"
}

func bodyWays() []listCase {
	chatWith := func(name, more string, status int, says string) listCase {
		return listCase{name: name, dialect: chat, path: "/v1/chat/completions", body: `{"model":"gpt-5-mini",` + listTurn + `,` + more + `}`, status: status, says: says}
	}
	claudeWith := func(name, more string, status int, says string) listCase {
		return listCase{name: name, dialect: claude, path: "/v1/messages", body: `{"model":"claude-haiku-4-5","max_tokens":9,` + listTurn + `,` + more + `}`, status: status, says: says}
	}
	answers := func(name, more string, status int, says string) listCase {
		return listCase{name: name, dialect: responses, path: "/v1/responses", body: `{"model":"gpt-5-mini","input":"zebra",` + more + `}`, status: status, says: says}
	}
	flash := func(name, action, body string, status int, says string) listCase {
		return listCase{name: name, dialect: gemini, path: "/v1beta/models/gemini-2.5-flash:" + action, body: body, status: status, says: says}
	}
	return []listCase{
		// OpenRouter: fallbacks, presets, tools and plugins that ask other models. LiteLLM and others: fallbacks, deployments.
		chatWith("models", `"models":["gpt-5-mini","gpt-5.5"]`, 403, "gpt-5.5 (models[1])"),
		chatWith("models allowed", `"models":["gpt-5-mini","claude-haiku-4-5"]`, 200, ""),
		chatWith("escaped", `"m\u006fdels":["gpt-5.5"]`, 403, "gpt-5.5"),
		chatWith("in capitals", `"Model":"gpt-5.5"`, 403, "gpt-5.5"),
		chatWith("mapped to what is allowed", `"models":["gpt-5"]`, 403, "gpt-5 "),
		chatWith("mapped from what is allowed", `"models":["claude-haiku-old"]`, 403, "claude-haiku-old"),
		chatWith("route", `"route":"fallback"`, 403, "leaves the choice"),
		chatWith("preset", `"preset":"dear"`, 403, "leaves the choice"),
		chatWith("advisor", `"tools":[{"type":"openrouter:advisor","parameters":{"model":"gpt-5.5"}}]`, 403, "tools[0].parameters.model"),
		chatWith("advisor of its own", `"tools":[{"type":"openrouter:advisor"}]`, 403, "leaves the choice"),
		chatWith("fusion", `"plugins":[{"id":"fusion","model":"gpt-5-mini"}]`, 403, "leaves the choice"),
		chatWith("fusion of others", `"plugins":[{"id":"fusion","analysis_models":["gpt-5.5"]}]`, 403, "analysis_models[0]"),
		chatWith("fallbacks", `"fallbacks":[{"gpt-5-mini":["gpt-5.5"]}]`, 403, "gpt-5.5"),
		chatWith("fallback", `"fallbacks":[{"model":"gpt-5.5","max_tokens":9}]`, 403, "gpt-5.5"),
		chatWith("deployment", `"deployment_id":"gpt-5.5"`, 403, "deployment_id"),
		chatWith("user's list", `"user_config":{"model_list":[{"model_name":"m","litellm_params":{"model":"gpt-5.5"}}]}`, 403, "user_config"),
		chatWith("gateway's", `"providerOptions":{"gateway":{"models":["gpt-5.5"]}}`, 403, "gateway.models[0]"),
		chatWith("advisor at the top", `"advisor":{"model":"gpt-5.5","mode":"auto"}`, 403, "advisor.model"),
		chatWith("no JSON inside", `"x":[/*,*/1]`, 400, "JSON"),
		// What only looks like a model's name.
		chatWith("a schema", `"tools":[{"type":"function","function":{"name":"task","parameters":{"type":"object","properties":{"model":{"type":"string","enum":["gpt-5.5"],"default":"gpt-5.5"}},"required":["model"]}}}]`, 200, ""),
		chatWith("a function's name", `"tools":[{"type":"function","function":{"name":"image_generation"}}]`, 200, ""),
		chatWith("metadata", `"metadata":{"model":"gpt-5.5"},"user":"model"`, 200, ""),
		chatWith("providers", `"provider":{"order":["a"],"allow_fallbacks":true}`, 200, ""),

		claudeWith("advisor", `"tools":[{"type":"advisor_20260301","name":"advisor","model":"claude-opus-5-5"}]`, 403, "tools[0].model"),
		claudeWith("advisor allowed", `"tools":[{"type":"advisor_20260301","name":"advisor","model":"claude-haiku-5-5"}]`, 200, ""),
		claudeWith("fallback", `"fallbacks":[{"model":"claude-opus-5-5"}]`, 403, "claude-opus-5-5"),
		claudeWith("a call", `"tools":[{"name":"task","input_schema":{"type":"object","properties":{"model":{"type":"string","examples":["opus"]}}}}]`, 200, ""),
		{name: "talk", dialect: claude, path: "/v1/messages", status: 200,
			body: `{"model":"claude-haiku-4-5","max_tokens":9,"system":[{"type":"text","text":"\"model\":\"x\""}],"messages":[{"role":"user","content":"q"},{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"task","input":{"model":"opus","models":["opus"]}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"x"}]}]}`},
		{name: "counting", dialect: claude, path: "/v1/messages/count_tokens", body: `{"model":"claude-haiku-4-5",` + listTurn + `,"fallbacks":[{"model":"claude-opus-5-5"}]}`, status: 403, says: "claude-opus-5-5"},

		answers("a picture's", `"tools":[{"type":"image_generation","model":"gpt-image-1"}]`, 403, "gpt-image-1 (tools[0].model)"),
		answers("any picture's", `"tools":[{"type":"image_generation"}]`, 403, "leaves the choice"),
		answers("a stored prompt's", `"prompt":{"id":"pmpt_1"}`, 403, "prompt leaves the choice"),
		{name: "tools of a turn", dialect: responses, path: "/v1/responses", status: 403, says: "input[0].tools[0].model",
			body: `{"model":"gpt-5-mini","input":[{"type":"tool_search_output","tools":[{"type":"image_generation","model":"gpt-image-1"}]},{"role":"user","content":"q"}]}`},
		{name: "compacting", dialect: responses, path: "/v1/responses/compact", body: `{"model":"gpt-5-mini","input":"zebra","models":["gpt-5.5"]}`, status: 403, says: "gpt-5.5"},

		flash("router", "generateContent", `{`+listTurns+`,"generationConfig":{"routingConfig":{"manualMode":{"modelName":"gemini-2.5-pro"}}}}`, 403, "gemini-2.5-pro"),
		flash("router, other spelling", "generateContent", `{`+listTurns+`,"generation_config":{"routing_config":{"manual_mode":{"model_name":"gemini-2.5-pro"}}}}`, 403, "gemini-2.5-pro"),
		flash("in the body", "generateContent", `{`+listTurns+`,"model":"models/gemini-2.5-pro"}`, 403, "gemini-2.5-pro"),
		flash("repeated", "generateContent", `{`+listTurns+`,"model":"models/gemini-2.5-flash"}`, 200, ""),
		flash("embedded", "embedContent", `{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"zebra"}]}}`, 403, "gemini-2.5-pro"),
		flash("embedded many", "batchEmbedContents", `{"requests":[{"model":"models/gemini-2.5-flash","content":{"parts":[{"text":"a"}]}},{"model":"models/gemini-2.5-pro","content":{"parts":[{"text":"b"}]}}]}`, 403, "requests[1].model"),
		flash("embedded", "batchEmbedContents", `{"requests":[{"model":"models/gemini-2.5-flash","content":{"parts":[{"text":"a"}]}}]}`, 200, ""),
		flash("counted", "countTokens", `{"generateContentRequest":{"model":"models/gemini-2.5-pro",`+listTurns+`}}`, 403, "gemini-2.5-pro"),
		flash("counted, other spelling", "countTokens", `{"generate_content_request":{"model":"models/gemini-2.5-pro",`+listTurns+`},`+listTurns+`}`, 403, "gemini-2.5-pro"),
		flash("counted", "countTokens", `{"generateContentRequest":{"model":"models/gemini-2.5-flash",`+listTurns+`}}`, 200, ""),
		{name: "an alias, repeated", dialect: gemini, path: "/v1beta/models/flash:embedContent", body: `{"model":"models/flash","content":{"parts":[{"text":"zebra"}]}}`, status: 200},
		{name: "tuned", dialect: gemini, path: "/v1beta/tunedModels/gemini-2.5-flash:generateContent", body: `{` + listTurns + `}`, status: 403, says: "tunedModels/gemini-2.5-flash"},
		{name: "several in one name", dialect: claude, path: "/v1/messages", body: `{"model":"claude-haiku-4-5,claude-opus-5-5","max_tokens":9,` + listTurn + `}`, status: 403, says: "claude-haiku-4-5,claude-opus-5-5"},
		{name: "a preset in the name", dialect: claude, path: "/v1/messages", body: `{"model":"claude-haiku-4-5@preset/dear","max_tokens":9,` + listTurn + `}`, status: 403, says: "@preset/dear"},
	}
}

func aroundWays() []listCase {
	small := `{"model":"gpt-5-mini",` + listTurn + `}`
	form := listPart(`name="file"; filename="a.wav"`, "RIFF") + listPart(`name="model"`, "gpt-5-mini")
	const end = "--edge--\r\n"
	spoken := func(name, body string, status int, says string) listCase {
		return listCase{name: name, dialect: chat, path: "/v1/audio/transcriptions", body: body, header: []string{listForm}, status: status, says: says}
	}
	return []listCase{
		{name: "query", dialect: chat, path: "/v1/chat/completions?m%6fdel=gpt-5.5", body: small, status: 403, says: "?model"},
		{name: "query allowed", dialect: chat, path: "/v1/chat/completions?model=gpt-5-mini&x=1", body: small, status: 200},
		{name: "header", dialect: chat, path: "/v1/chat/completions", body: small, header: []string{jsonType, "helicone-fallbacks: gpt-5.5"}, status: 403, says: "helicone-fallbacks"},
		{name: "no type", dialect: chat, path: "/v1/chat/completions", body: small, header: []string{""}, status: 200},
		{name: "type with a charset", dialect: chat, path: "/v1/chat/completions", body: small, header: []string{"Content-Type: application/json; charset=UTF-8"}, status: 200},
		{name: "said to be a form", dialect: chat, path: "/v1/chat/completions", body: `{"model":"gpt-5-mini",` + listTurn + `,"user":"&model=gpt-5.5&"}`, header: []string{"Content-Type: application/x-www-form-urlencoded"}, status: 403, says: "must be JSON"},
		{name: "two types", dialect: chat, path: "/v1/embeddings", body: `{"model":"gpt-5-mini","input":"zebra"}`, header: []string{jsonType, listForm}, status: 403, says: "must be JSON"},
		{name: "another charset", dialect: chat, path: "/v1/embeddings", body: `{"model":"gpt-5-mini","input":"zebra"}`, header: []string{"Content-Type: application/json; charset=utf-7"}, status: 403, says: "must be JSON"},
		spoken("form", form+end, 200, ""),
		spoken("form, another field", form+listPart(`name="fallbacks"`, "gpt-5.5")+end, 403, "fallbacks"),
		spoken("form, in capitals", form+listPart(`name="MODEL"`, "gpt-5.5")+end, 403, "gpt-5.5"),
		spoken("form, a part that is read in two ways", "--edge\nContent-Disposition: form-data; name=\"model\"\n\ngpt-5.5\n"+form+end, 400, "more than one way"),
		spoken("form, a file called model", listPart(`name="model"; filename="m"`, "gpt-5-mini")+end, 400, "more than one way"),
		spoken("form, without an end", form, 400, "model"),
		spoken("form, two dispositions", listPart("name=\"model\"\r\nContent-Disposition: form-data; name=\"x\"", "gpt-5-mini")+end, 400, "more than one way"),
	}
}

// A caller's list of models holds whatever names the model: every model that a provider would hear of is on it. Each request
// that is refused would have gone there: for a caller without a list it does.
func TestListsHoldWhateverNamesTheModel(t *testing.T) {
	t.Parallel()
	for _, dialect := range allDialects() {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			b := newBackend(t, func(w http.ResponseWriter, r *http.Request, n int) {
				answer := plainAnswer(dialect)
				if strings.Contains(strings.ToLower(r.URL.Path), "count") {
					answer = `{"input_tokens":5,"totalTokens":5}`
				}
				says(200, answer)(w, r, n)
			})
			i := start(t, allAndFew("gpt-5-mini", "claude-haiku-*", "gemini-2.5-flash"), aliases, upstreamCounts, poolOf(polyglotKey(k1, b.URL, []string{dialect})))
			for _, c := range append(bodyWays(), aroundWays()...) {
				if c.dialect == dialect {
					t.Run(c.name, func(t *testing.T) { c.run(i.in(t), b) })
				}
			}
		})
	}
}

func (c *listCase) run(i *instance, b *backend) {
	t := i.t
	header := c.header
	if header == nil {
		header = []string{jsonType}
	}
	before := len(b.requests())
	if r := i.ask("POST", c.path, c.body, append([]string{shownBy("all")}, header...)...); len(b.requests()) != before+1 && c.status != 400 {
		t.Fatalf("without a list nothing goes to the provider, either: %d, %s", r.status, r.body)
	}
	before = len(b.requests())
	r := i.ask("POST", c.path, c.body, append([]string{shownBy("few")}, header...)...)
	sent := len(b.requests()) - before
	if c.status == 200 {
		if r.status != 200 || sent != 1 {
			t.Fatalf("status %d, %d sent: %s", r.status, sent, r.body)
		}
		return
	}
	f := i.refuses(c.dialect, r, c.status, map[int]string{403: "permission_error", 400: "invalid_request_error"}[c.status])
	if sent != 0 || !strings.Contains(f.message, c.says) {
		t.Errorf("%d sent; %s", sent, f.message)
	}
	if rec := i.record(r.trace()); rec.Caller != "few" || rec.Status != c.status || len(rec.Attempts) != 0 {
		t.Errorf("journal: %+v", rec)
	}
}

// What real clients send is not taken for the name of another model.
func TestListsLetRealClientsThrough(t *testing.T) {
	t.Parallel()
	for _, dialect := range allDialects() {
		files, err := filepath.Glob(filepath.Join("..", "testdata", dialect, "bodies", "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%v, %d bodies of %s", err, len(files), dialect)
		}
		p := demo.New(demo.Options{Name: dialect, Dialects: []string{dialect}})
		url := listen(t, p)
		var bodies, models []string
		for _, name := range files {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, string(b))
			if m := parse(t, string(b)).get("model").str(); m != "" && !slices.Contains(models, m) {
				models = append(models, m)
			}
		}
		if dialect == gemini {
			models = []string{modelOf(gemini)}
		}
		i := start(t, allAndFew(models...), poolOf(protocolKey(k1, dialect, url)))
		for n, body := range bodies {
			r := i.send(dialect, pathOf(dialect, modelOf(dialect), false), body, shownBy("few"))
			if r.status == 403 || strings.Contains(r.body, "is not JSON") {
				t.Errorf("%s: %d, %s", files[n], r.status, r.body)
			}
		}
	}
}

// An error tells a caller with a list of no model that it may not use.
func TestNearNamesAreOnTheList(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, allAndFew("claude-haiku-*", "near-1"), `"model_mapping":[{"pattern":"near-1","target":"claude-haiku-9"},{"pattern":"near-2","target":"claude-opus-9"}]`,
		poolOf(poolKey(k1, url, `"models":{"claude-haiku-9":"a","claude-opus-9":"b","claude-haiku-8":"c"}`)))
	r := i.message(question("claude-haiku-7"), shownBy("few"))
	f := i.refuses(claude, r, 404, "not_found_error")
	if !strings.Contains(f.message, "claude-haiku-8") || !strings.Contains(f.message, "near-1") || strings.Contains(f.message, "opus") || strings.Contains(f.message, "near-2") {
		t.Error(f.message)
	}
	if r := i.message(question("claude-haiku-7"), shownBy("all")); !strings.Contains(r.body, "claude-opus-9") {
		t.Error(r.body)
	}
}

// A request that was let in before a reload and goes on after it goes on by the new configuration alone: an old group must not
// lead to the account that has its key's id now.
func TestReloadWhileACallerIsLetIn(t *testing.T) {
	t.Parallel()
	mine, mineURL := provider(t)
	others, othersURL := provider(t)
	auth := func(key string) string {
		return fmt.Sprintf(`"auth":{"request_keys":[{"code":"all","api_key":%q,"group":"g"}],"groups":[{"name":"g","keys":[%q]}]}`, requestKey+"-all", key)
	}
	i := start(t, auth(k1), poolOf(poolKey(k1, mineURL)))
	i.good(question(sonnet), shownBy("all"))
	before := i.server.live.Load().callers
	i.rewrite(auth(k2), poolOf(poolKey(k1, othersURL), poolKey(k2, mineURL)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.admit(func(s *liveState) { s.callers = before })
	i.good(question(sonnet), shownBy("all"))
	if n, wrong := len(mine.Requests()), len(others.Requests()); n != 2 || wrong != 0 {
		t.Errorf("%d requests at the group's account, %d at another's", n, wrong)
	}
	i.rewrite(allAndFew("x"), poolOf(poolKey(k1, othersURL)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.rewrite(fmt.Sprintf(`"auth":{"request_keys":[{"code":"new","api_key":%q}]}`, requestKey+"-new"), poolOf(poolKey(k1, othersURL)))
	if _, err := i.Reload(); err != nil {
		t.Fatal(err)
	}
	i.admit(func(s *liveState) { s.callers = before })
	i.isRefusal(i.message(question(sonnet), shownBy("all")), 401, "authentication_error")
	if n := len(others.Requests()); n != 0 {
		t.Errorf("%d requests of a caller that is gone", n)
	}
}

// The journal has the model that was asked for, also where the body is refused before anything is wanted of a key.
func TestJournalHasTheModelOfARefusedBody(t *testing.T) {
	t.Parallel()
	_, url := provider(t)
	i := start(t, allAndFew("x"), poolOf(poolKey(k1, url)))
	for path, body := range map[string]string{
		"/v1beta/models/gemini-2.5-pro:streamGenerateContent": "no JSON",
		"/v1/messages": `{"model":"gemini-2.5-pro","stream":true,"max_tokens":1,"max_tokens":2}`,
	} {
		r := i.ask("POST", path, body, shownBy("all"), version)
		if rec := i.record(r.trace()); r.status != 400 || rec.Requested != "gemini-2.5-pro" || !rec.Stream || rec.ErrorType != "invalid_request_error" {
			t.Errorf("%s: %d, %+v", path, r.status, rec)
		}
	}
}

// The journal says of each tier that was passed over why it had no key for the request: out of the caller's group, the model,
// the dialect, or an account elsewhere.
func TestJournalSaysWhyATierWasPassedOver(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "one", claude, responses)
	i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"all","api_key":%q},{"code":"few","api_key":%q,"group":"g"}],"groups":[{"name":"g","tiers":["third"]}]}`, requestKey+"-all", requestKey+"-few"),
		`"tiers":[{"name":"first"},{"name":"second"},{"name":"third"}]`,
		poolOf(polyglotKey(k1, url, []string{claude}, `"tier":"first"`), polyglotKey(k2, url, []string{claude}, `"tier":"second"`, `"models":{"other":"other"}`),
			polyglotKey(k3, url, []string{claude, responses}, `"tier":"third"`)))
	gates := func(r *reply) (text string) {
		t.Helper()
		if r.status != 200 {
			t.Errorf("status %d: %s", r.status, r.body)
		}
		for _, s := range i.record(r.trace()).Skipped {
			text += s.Tier + " " + s.Gate + ","
		}
		return text
	}
	if got := gates(i.good(question(sonnet), shownBy("few"))); got != "first scope,second model," {
		t.Errorf("in a group: %s", got)
	}
	if got := gates(i.good(question(sonnet), shownBy("all"))); got != "" {
		t.Errorf("in none: %s", got)
	}
	r := i.send(responses, "/v1/responses/input_tokens", bodyOf(responses, "gpt-5.5", false), shownBy("all"))
	if got := gates(r); got != "first dialect,second dialect," {
		t.Errorf("passed through: %s", got)
	}
	id := understand(t, responses, i.send(responses, "/v1/responses", bodyOf(responses, "gpt-5.5", false, `"store":true`), shownBy("few")).body, false).id
	if got := gates(i.ask("GET", "/v1/responses/"+id, "", shownBy("few"))); got != "first pinned,second pinned," {
		t.Errorf("pinned: %s", got)
	}
}
