package antigravity

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

// signedAs is a request as Sign leaves it.
func signedAs(a asked) *http.Request {
	req, err := http.NewRequestWithContext(context.WithValue(context.Background(), askedKey{}, a), http.MethodPost, "https://x.test/v1internal:generateContent", nil)
	if err != nil {
		panic(err)
	}
	return req
}

func around(t testing.TB, e envelope, body string) string {
	t.Helper()
	pieces, err := e.around([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.Join(pieces, nil))
}

func TestEnvelope(t *testing.T) {
	const (
		hi     = `"contents":[{"role":"user","parts":[{"text":"hi"}]}]`
		id     = `"sessionId":"-1099796703622425494"`
		tools  = `,"tools":[{"functionDeclarations":[{"name":"a","parameters":{"type":"OBJECT","properties":{"p":{"type":"STRING"}},"required":["p"]}}]}]`
		called = `"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},`
	)
	gemini, claude := "gemini-3.1-pro", "claude-sonnet-5-5"
	for _, tc := range []struct{ name, model, body, request string }{
		{"smallest", gemini, `{` + hi + `}`, `{` + id + `,` + hi + `}`},
		{"bytes stay", gemini, "\n{ " + hi + ` , "generationConfig" : {"temperature":1.0, "maxOutputTokens":5} }` + "\n",
			`{` + id + `, ` + hi + ` , "generationConfig" : {"temperature":1.0, "maxOutputTokens":5} }` + "\n"},
		{"safety settings go", gemini, `{"safetySettings":[{"a":"}"}],` + hi + `,"safety_settings":[]}`, `{` + id + `,` + hi + `}`},
		{"only what goes", gemini, `{"safetySettings":[],"model":"models/x"}`, `{"sessionId":"-7183457195969485844"}`},
		{"nothing", gemini, `{}`, `{"sessionId":"-7183457195969485844"}`},
		{"model and session go", gemini, `{"model":"models/x",` + hi + `,"sessionId":"mine"}`, `{` + id + `,` + hi + `}`},
		{"tools of Gemini's", gemini, `{` + hi + tools + `}`, `{` + id + `,` + hi + tools + `}`},
		{"tools of Claude's", claude, `{` + hi + tools + `}`, `{` + id + `,` + called + hi + tools + `}`},
		{"Claude without tools", claude, `{` + hi + `}`, `{` + id + `,` + hi + `}`},
		{"AUTO", claude, `{` + hi + tools + `,"toolConfig":{"functionCallingConfig":{"mode": "AUTO"}}}`, `{` + id + `,` + hi + tools + `,"toolConfig":{"functionCallingConfig":{"mode": "VALIDATED"}}}`},
		{"ANY is the client's", claude, `{` + hi + tools + `,"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["a"],"mode":"ANY"}}}`,
			`{` + id + `,` + hi + tools + `,"toolConfig":{"functionCallingConfig":{"allowedFunctionNames":["a"],"mode":"ANY"}}}`},
		{"NONE is, too", claude, `{"tool_config":{"function_calling_config":{"mode":"NONE"}},` + hi + tools + `}`, `{` + id + `,"tool_config":{"function_calling_config":{"mode":"NONE"}},` + hi + tools + `}`},
		{"no mode", claude, `{"toolConfig":{"functionCallingConfig":{"x":1}},` + hi + tools + `}`, `{` + id + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED","x":1}},` + hi + tools + `}`},
		{"no calling", claude, `{"toolConfig":{},` + hi + tools + `}`, `{` + id + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},` + hi + tools + `}`},
		{"null", claude, `{"toolConfig":null,` + hi + tools + `}`, `{` + id + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},` + hi + tools + `}`},
		{"null calling", claude, `{"safetySettings":[],"toolConfig":{"functionCallingConfig":null},"safetySettings":[],` + hi + tools + `}`,
			`{` + id + `,"toolConfig":{"functionCallingConfig":{"mode":"VALIDATED"}},` + hi + tools + `}`},
	} {
		got := around(t, envelope{project: `p"1`, model: tc.model, action: "generateContent", id: "7"}, tc.body)
		want := `{"project":"p\"1","requestId":"agent-7","model":"` + tc.model + `","userAgent":"antigravity","requestType":"agent","request":` + tc.request
		if want = want + "}"; got != want {
			t.Errorf("%s:\n%s, want\n%s", tc.name, got, want)
		}
	}
	if got, want := around(t, envelope{model: gemini, action: countTokens}, `{`+hi+`,"safetySettings":[]}`), `{"request":{"model":"models/gemini-3.1-pro",`+hi+`}}`; got != want {
		t.Errorf("countTokens: %s, want %s", got, want)
	}
	for _, bad := range []string{``, `[]`, `{`, `{"a":1} x`, `"x"`} {
		if _, err := (envelope{}).around([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func TestSessionID(t *testing.T) {
	id := func(contents string) string {
		var e struct {
			Request struct{ SessionID string }
		}
		if err := json.Unmarshal([]byte(around(t, envelope{action: "generateContent"}, `{"contents":`+contents+`}`)), &e); err != nil {
			t.Fatal(err)
		}
		return e.Request.SessionID
	}
	first := id(`[{"role":"user","parts":[{"text":"hello"}]}]`)
	if first[0] != '-' || len(first) < 2 || len(first) > 20 {
		t.Errorf("the id is %q", first)
	}
	for name, contents := range map[string]string{
		"a later turn":        `[{"role":"user","parts":[{"text":"hello"}]},{"role":"model","parts":[{"text":"x"}]},{"role":"user","parts":[{"text":"more"}]}]`,
		"a reminder in front": `[{"role":"user","parts":[{"text":"<system-reminder>today</system-reminder>"},{"text":" hello\n"}]}]`,
		"no role":             `[{"parts":[{"text":"hello"}]}]`,
		"a picture in front":  `[{"role":"model"},{"role":"user","parts":[{"inlineData":{}},{"text":"hello"}]}]`,
		"parts in a later":    `[{"role":"user"},{"role":"user","parts":[{"text":""}]},{"role":"user","parts":[{"text":"hello"}]}]`,
	} {
		if got := id(contents); got != first {
			t.Errorf("%s: another id, %s", name, got)
		}
	}
	if id(`[{"role":"user","parts":[{"text":"hello?"}]}]`) == first {
		t.Error("another conversation has the same id")
	}
	if id(`[{"role":"user","parts":[{"inlineData":{"data":"a"}}]}]`) == id(`[{"role":"user","parts":[{"inlineData":{"data":"b"}}]}]`) {
		t.Error("two conversations without text have the same id")
	}
}

// TestLargeBodies are sent in pieces; they are the same as small ones.
func TestLargeBodies(t *testing.T) {
	body := `{"contents":[{"parts":[{"text":"` + strings.Repeat("x", smallBody) + `"}]}],"safetySettings":[],"a":1}`
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1beta/models/m:generateContent", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if f := New(Options{}).wrap(req, envelope{project: "p", model: "m", action: "generateContent", id: "1"}); f != nil {
		t.Fatal(f)
	}
	var sent [2][]byte
	for i := range sent {
		if sent[i], err = io.ReadAll(req.Body); err != nil || int64(len(sent[i])) != req.ContentLength {
			t.Fatalf("%d bytes, %v, want %d", len(sent[i]), err, req.ContentLength)
		}
		req.Body, _ = req.GetBody()
	}
	if !bytes.Equal(sent[0], sent[1]) || !json.Valid(sent[0]) || bytes.Contains(sent[0], []byte("safetySettings")) {
		t.Error("the pieces are not the request")
	}
}

// FuzzEnvelope: around a JSON object there is a JSON object, whose request says what the body said.
func FuzzEnvelope(f *testing.F) {
	for _, body := range []string{`{}`, `{"contents":[{"parts":[{"text":"a"}]}],"tools":[],"toolConfig":{}}`, ` {"safetySettings":1,"tools":1,"toolConfig":{"functionCallingConfig":{"mode":"AUTO"}},"model":2}`,
		`{"model":1,"model":2,"a":{"b":[1e9,"\u00e4"]},"safety_settings":{}}`, `{"toolConfig":[],"tools":null}`, `{"tools":[{"functionDeclarations":[{"name":"a","parametersJsonSchema":{"type":["object","null"],"properties":{"b":{"anyOf":[{"type":"null"},{"enum":[1]}]}}}}]}]}`} {
		f.Add(body, "claude-x", "p")
		f.Add(body, "gemini-x", `"`)
	}
	f.Fuzz(func(t *testing.T, body, model, project string) {
		pieces, err := envelope{project: project, model: model, action: "generateContent", id: "1"}.around([]byte(body))
		var was map[string]json.RawMessage
		if json.Unmarshal([]byte(body), &was) != nil || was == nil {
			return // what lies deeper than the top level is for the service to judge
		}
		if err != nil {
			t.Fatalf("%q is refused: %v", body, err)
		}
		var got struct{ Request map[string]json.RawMessage }
		if whole := bytes.Join(pieces, nil); json.Unmarshal(whole, &got) != nil {
			t.Fatalf("%q becomes %q", body, whole)
		}
		for _, name := range []string{"safetySettings", "safety_settings", "model", "sessionId", "toolConfig", "tool_config", "tools"} {
			if name == "tools" && !strings.HasPrefix(model, "claude-") {
				continue
			}
			delete(was, name)
			if name != "safetySettings" && name != "safety_settings" && name != "model" {
				delete(got.Request, name)
			}
		}
		for name := range was { // repeated members: encoding/json takes the last, as the service does
			if strings.Contains(name, "\ufffd") {
				return
			}
		}
		if !reflect.DeepEqual(got.Request, was) {
			t.Fatalf("%q becomes %v", body, got.Request)
		}
	})
}
