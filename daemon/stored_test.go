package daemon

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"coding-proxy/proxy/demo"
)

// twoCallers have the keys of requestKey with -1 and -2.
func twoCallers(more ...string) string {
	return fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q},{"code":"two","api_key":%q}]%s}`, requestKey+"-1", requestKey+"-2", rest(more))
}

func shows(n int) string { return fmt.Sprintf("x-proxy-key: %s-%d", requestKey, n) }

// turns are the keys of a pool that takes them in turn.
func turns(keys ...string) string {
	return `"pool":{"strategy":"round-robin","max_wait_seconds":0,"keys":[` + strings.Join(keys, ",") + `]}`
}

// answerID asks for an answer as a caller, and returns its id and the key that has it.
func (i *instance) answerID(caller int, stream bool, more ...string) (id, key string) {
	i.t.Helper()
	r := i.sayWith(responses, []string{shows(caller)}, "gpt-5.5", stream, more...)
	if r.status != 200 {
		i.t.Fatalf("status %d: %s", r.status, r.body)
	}
	return understand(i.t, responses, r.body, stream).id, i.servedBy(r)
}

// goOn continues an answer.
func (i *instance) goOn(caller int, id string, more ...string) *reply {
	i.t.Helper()
	return i.sayWith(responses, []string{shows(caller)}, "gpt-5.5", false, append(more, fmt.Sprintf(`"previous_response_id":%q`, id))...)
}

// An answer that is stored at a provider is there for its caller alone, and only in the account that made it.
func TestStoredAnswersStayWithTheirCaller(t *testing.T) {
	t.Parallel()
	one, oneURL := strict(t, "one", responses)
	two, twoURL := strict(t, "two", responses)
	i := start(t, twoCallers(), turns(protocolKey(k1, responses, oneURL), protocolKey(k2, responses, twoURL)))
	for _, stream := range []bool{false, true} {
		for range 2 {
			id, key := i.answerID(1, stream)
			before := len(one.Requests()) + len(two.Requests())
			for range 3 {
				r := i.ask("GET", "/v1/responses/"+id+"?include[]=reasoning.encrypted_content", "", shows(1))
				if r.status != 200 || parse(t, r.body).get("id").str() != id || i.servedBy(r) != key {
					t.Errorf("GET of %s by %s: status %d by %s: %s", id, key, r.status, i.servedBy(r), r.body)
				}
			}
			if n := len(one.Requests()) + len(two.Requests()) - before; n != 3 {
				t.Errorf("%d upstream calls", n)
			}
			all := append(one.Requests(), two.Requests()...)
			if !slices.ContainsFunc(all, func(q demo.Request) bool {
				return q.Method == "GET" && strings.HasSuffix(q.Path, "/responses/"+id) && q.Query == "include[]=reasoning.encrypted_content"
			}) {
				t.Errorf("no such upstream call for %s", id)
			}
			before = len(one.Requests()) + len(two.Requests())
			i.refuses(responses, i.ask("GET", "/v1/responses/"+id, "", shows(2)), 404, "not_found_error")
			f := i.refuses(responses, i.goOn(2, id), 404, "not_found_error")
			if f.param != "previous_response_id" {
				t.Errorf("param %q", f.param)
			}
			if n := len(one.Requests()) + len(two.Requests()) - before; n != 0 {
				t.Errorf("%d upstream calls for another caller", n)
			}
		}
	}
	for _, id := range []string{"resp_unknown", "..", "%2e%2e", "a%2fb", "a%3fb"} {
		r := i.ask("GET", "/v1/responses/"+id, "", shows(1))
		if want := map[bool]int{true: 404, false: 400}[id == "resp_unknown"]; r.status != want {
			t.Errorf("%s: status %d, want %d", id, r.status, want)
		}
	}
	id, _ := i.answerID(1, false, `"store":false`)
	i.refuses(responses, i.ask("GET", "/v1/responses/"+id, "", shows(1)), 404, "not_found_error")
}

// KEY-022: a conversation that lives in one account stays there.
func TestKEY022ResponseIDBoundToKey(t *testing.T) {
	t.Parallel()
	// the first answer of a daemon of two keys, by k1
	begin := func(t *testing.T, dir string, more string, steps ...demo.Step) (*instance, *demo.Provider, *demo.Provider, string, []string) {
		t.Helper()
		one, oneURL := strict(t, "one", responses)
		two, twoURL := strict(t, "two", responses)
		one.Push(append([]demo.Step{{Text: answerText}}, steps...)...)
		members := []string{twoCallers(), turns(protocolKey(k1, responses, oneURL, more), protocolKey(k2, responses, twoURL, more))}
		i := startIn(t, dir, members...)
		id, key := i.answerID(1, true)
		if key != k1 {
			t.Fatalf("the first turn went to %s", key)
		}
		return i, one, two, id, members
	}
	dir := func(t *testing.T) string {
		t.Helper()
		return filepath.Join(t.TempDir(), "data")
	}
	const plain = `"max_concurrent":1`
	t.Run("stays", func(t *testing.T) {
		t.Parallel()
		i, _, two, id, _ := begin(t, dir(t), plain)
		for range 4 {
			r := i.goOn(1, id)
			if r.status != 200 || i.servedBy(r) != k1 {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
			id = understand(t, responses, r.body, false).id
		}
		if n := len(two.Requests()); n != 0 {
			t.Errorf("%d requests went to the other key", n)
		}
	})
	t.Run("busy", func(t *testing.T) {
		t.Parallel()
		hold := demo.HoldAt(0)
		i, _, two, id, _ := begin(t, dir(t), plain, demo.Step{Hold: hold})
		first := make(chan *reply, 1)
		go func() { first <- i.goOn(1, id) }()
		<-hold.Reached()
		r := i.goOn(1, id)
		i.refuses(responses, r, 429, "rate_limit_error")
		if r.header.Get("Retry-After") == "" {
			t.Error("no retry-after")
		}
		hold.Release()
		if r := <-first; r.status != 200 {
			t.Errorf("status %d", r.status)
		}
		if n := len(two.Requests()); n != 0 {
			t.Errorf("%d requests went to the other key", n)
		}
	})
	t.Run("cooling", func(t *testing.T) {
		t.Parallel()
		i, one, two, id, _ := begin(t, dir(t), plain, demo.Step{Status: 429, Header: http.Header{"Retry-After": {"90"}}})
		for range 2 {
			if r := i.goOn(1, id); r.status != 429 || r.header.Get("Retry-After") == "" {
				t.Errorf("status %d: %s", r.status, r.body)
			}
		}
		if n, m := len(one.Requests()), len(two.Requests()); n != 2 || m != 0 {
			t.Errorf("%d requests to its key, %d to the other", n, m)
		}
	})
	t.Run("gone", func(t *testing.T) {
		t.Parallel()
		i, _, two, id, members := begin(t, dir(t), plain)
		_, keys, _ := strings.Cut(members[1], `},{`)
		i.rewrite(members[0], turns(`{`+strings.TrimSuffix(keys, "]}")))
		if _, err := i.Reload(); err != nil {
			t.Fatal(err)
		}
		f := i.refuses(responses, i.goOn(1, id), 400, "invalid_request_error")
		if f.param != "previous_response_id" || !strings.Contains(f.message, "whole conversation") {
			t.Errorf("param %q: %s", f.param, f.message)
		}
		i.refuses(responses, i.ask("GET", "/v1/responses/"+id, "", shows(1)), 400, "invalid_request_error")
		if n := len(two.Requests()); n != 0 {
			t.Errorf("%d requests went to the other key", n)
		}
	})
	t.Run("after a restart", func(t *testing.T) {
		t.Parallel()
		dir := dir(t)
		i, _, two, id, members := begin(t, dir, plain)
		i.stop()
		i = startIn(t, dir, members...)
		for range 3 {
			if r := i.goOn(1, id); r.status != 200 || i.servedBy(r) != k1 {
				t.Errorf("status %d by %s: %s", r.status, i.servedBy(r), r.body)
			}
		}
		i.refuses(responses, i.goOn(2, id), 404, "not_found_error")
		if n := len(two.Requests()); n != 0 {
			t.Errorf("%d requests went to the other key", n)
		}
	})
	t.Run("out of the caller's scope", func(t *testing.T) {
		t.Parallel()
		i, one, two, id, members := begin(t, dir(t), plain)
		narrow := strings.Replace(twoCallers(fmt.Sprintf(`"groups":[{"name":"g","keys":[%q]}]`, k2)), `"code":"one"`, `"code":"one","group":"g"`, 1)
		i.rewrite(narrow, members[1])
		if _, err := i.Reload(); err != nil {
			t.Fatal(err)
		}
		i.refuses(responses, i.goOn(1, id), 404, "not_found_error")
		i.refuses(responses, i.ask("GET", "/v1/responses/"+id, "", shows(1)), 404, "not_found_error")
		if n, m := len(one.Requests()), len(two.Requests()); n != 1 || m != 0 {
			t.Errorf("%d and %d requests", n, m)
		}
	})
	t.Run("its key does not serve the model", func(t *testing.T) {
		t.Parallel()
		one, oneURL := strict(t, "one", responses)
		_, twoURL := strict(t, "two", responses)
		i := start(t, twoCallers(), turns(protocolKey(k1, responses, oneURL, `"models":{"gpt-5.5":"gpt-5.5"}`), protocolKey(k2, responses, twoURL)))
		id, _ := i.answerID(1, false)
		r := i.sayWith(responses, []string{shows(1)}, "gpt-5", false, fmt.Sprintf(`"previous_response_id":%q`, id))
		f := i.refuses(responses, r, 400, "invalid_request_error")
		if f.param != "previous_response_id" || len(one.Requests()) != 1 {
			t.Errorf("%s", r.body)
		}
	})
}

// An id that nobody has seen goes to the only key that it can belong to, and nowhere where there are several (routing.md, 2).
func TestUnseenIDs(t *testing.T) {
	t.Parallel()
	b := newBackend(t, says(200, respPlain))
	_, url := strict(t, "far", claude)
	i := start(t, twoCallers(), poolOf(protocolKey(k1, claude, url), protocolKey(k2, responses, b.URL)))
	if r := i.goOn(1, "resp_of_before"); r.status != 200 || i.servedBy(r) != k2 {
		t.Errorf("status %d: %s", r.status, r.body)
	}
	if r := i.ask("GET", "/v1/responses/resp_of_before", "", shows(1)); r.status != 200 || r.body != respPlain {
		t.Errorf("GET: status %d: %s", r.status, r.body)
	}
	i = start(t, twoCallers(), poolOf(protocolKey(k1, responses, b.URL), protocolKey(k2, responses, b.URL)))
	i.refuses(responses, i.goOn(1, "resp_of_before"), 404, "not_found_error")
	i.refuses(responses, i.ask("GET", "/v1/responses/resp_of_before", "", shows(1)), 404, "not_found_error")
}

// An answer that was converted lives nowhere: going on from it is refused, and nothing is asked.
func TestConvertedAnswersAreNotStored(t *testing.T) {
	t.Parallel()
	p, url := strict(t, "far", chat)
	i := start(t, twoCallers(), poolOf(protocolKey(k1, chat, url)))
	for _, stream := range []bool{false, true} {
		id, _ := i.answerID(1, stream)
		before := len(p.Requests())
		if r := i.goOn(1, id); r.status != 404 && r.status != 400 || i.refusalIn(responses, r).param != "previous_response_id" {
			t.Errorf("status %d: %s", r.status, r.body)
		}
		if r := i.ask("GET", "/v1/responses/"+id, "", shows(1)); r.status != 404 {
			t.Errorf("GET: status %d: %s", r.status, r.body)
		}
		if n := len(p.Requests()) - before; n != 0 {
			t.Errorf("%d upstream calls", n)
		}
	}
}

// USE-020: Gemini's countTokens is answered here, in both of its forms.
func TestUSE020CountTokensOfGemini(t *testing.T) {
	t.Parallel()
	p, url := strict(t, "far", gemini)
	i := start(t, poolOf(protocolKey(k1, gemini, url)))
	count := func(body string) int64 {
		t.Helper()
		r := i.send(gemini, "/v1beta/models/gemini-2.5-flash:countTokens", body)
		if r.status != 200 || r.header.Get("Content-Type") != "application/json" {
			t.Fatalf("status %d: %s", r.status, r.body)
		}
		if rec := i.record(r.trace()); rec.Outcome != "local" || rec.Dialect != gemini {
			t.Errorf("journal: %+v", rec)
		}
		return parse(t, r.body).get("totalTokens").int()
	}
	words := strings.Repeat("many words ", 100)
	small := count(bodyOf(gemini, "", false))
	wrapped := count(`{"generateContentRequest":` + bodyOf(gemini, "", false, `"model":"models/m"`) + `}`)
	system := count(`{"generateContentRequest":` + bodyOf(gemini, "", false, `"systemInstruction":{"parts":[{"text":"`+words+`"}]}`) + `}`)
	tools := count(`{"generateContentRequest":` + bodyOf(gemini, "", false, `"tools":[{"functionDeclarations":[{"name":"f","description":"`+words+`"}]}]`) + `}`)
	if small < 1 || wrapped < 1 || system < small+100 || tools < small+100 {
		t.Errorf("counts %d, wrapped %d, with a system text %d, with a tool %d", small, wrapped, system, tools)
	}
	if n := len(p.Requests()); n != 0 {
		t.Errorf("%d requests went upstream", n)
	}
	if r := i.ask("GET", "/api/stats", ""); !strings.Contains(r.body, `"models":[]`) {
		t.Errorf("an estimate was booked as usage: %s", r.body)
	}
	i.refuses(gemini, i.send(gemini, "/v1beta/models/m:countTokens", "hello"), 400, "invalid_request_error")
}

// Model lists have three shapes, by path and header, and hold what the caller's scope reaches.
func TestModelLists(t *testing.T) {
	t.Parallel()
	_, url := strict(t, "far")
	i := start(t, fmt.Sprintf(`"auth":{"request_keys":[{"code":"one","api_key":%q,"group":"g"},{"code":"two","api_key":%q,"models":["b-*"]}],"groups":[{"name":"g","keys":[%q]}]}`,
		requestKey+"-1", requestKey+"-2", k1),
		poolOf(protocolKey(k1, chat, url, `"models":{"a-1":"x","tunedModels/t":"y"}`), protocolKey(k2, gemini, url, `"models":{"b-1":"y","c-1":"z"}`)))
	for _, c := range []struct{ name, path, header, shape string }{
		{"OpenAI", "/v1/models", "", chat},
		{"OpenAI below its prefix", "/openai/v1/models", "User-Agent: OpenAI/Python 2.1", chat},
		{"Anthropic", "/v1/models", version, claude},
		{"Anthropic below its prefix", "/anthropic/v1/models", version, claude},
		{"Gemini", "/v1beta/models", "", gemini},
		{"Gemini below its prefix", "/gemini/v1beta/models", "", gemini},
		{"Gemini by a header", "/v1/models", "X-Goog-Api-Key: x", gemini},
		{"Gemini by another header", "/v1/models", "X-Goog-Api-Client: x", gemini},
	} {
		t.Run(c.name, func(t *testing.T) {
			i := i.in(t)
			for caller, want := range map[int][]string{1: {"a-1", "tunedModels/t"}, 2: {"b-1"}} {
				r := i.ask("GET", c.path, "", c.header, shows(caller))
				list := parse(t, r.body)
				var names []string
				for _, m := range append(list.get("data").list(), list.get("models").list()...) {
					switch id := m.get("id").str(); c.shape {
					case gemini:
						name := m.get("name").str()
						if !strings.HasPrefix(name, "tunedModels/") && !strings.HasPrefix(name, "models/") || len(m.get("supportedGenerationMethods").list()) == 0 || m.has("id") {
							t.Errorf("%s", m.text())
						}
						names = append(names, strings.TrimPrefix(name, "models/"))
					case claude:
						if m.get("type").str() != "model" || m.get("display_name").str() == "" || m.get("created_at").str() == "" {
							t.Errorf("%s", m.text())
						}
						names = append(names, id)
					default:
						if m.get("object").str() != "model" || !m.has("created") || m.get("owned_by").str() == "" {
							t.Errorf("%s", m.text())
						}
						names = append(names, id)
					}
				}
				slices.Sort(names)
				if r.status != 200 || !slices.Equal(names, want) {
					t.Errorf("caller %d, status %d: %q, want %q", caller, r.status, names, want)
				}
				if whole := (c.shape == claude) == list.has("has_more") && (c.shape == chat) == (list.get("object").str() == "list"); !whole {
					t.Errorf("%s", r.body)
				}
				if one := i.ask("GET", c.path+"/"+want[0], "", c.header, shows(caller)); one.status != 200 || !strings.Contains(one.body, want[0]) || parse(t, one.body).has("data") {
					t.Errorf("one: status %d: %s", one.status, one.body)
				}
				i.refuses(c.shape, i.ask("GET", c.path+"/c-1", "", c.header, shows(caller)), 404, "not_found_error")
			}
			i.refuses(c.shape, i.ask("GET", c.path, "", c.header), 401, "authentication_error")
		})
	}
}
