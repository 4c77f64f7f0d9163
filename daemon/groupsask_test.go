package daemon

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"mime/multipart"
	"slices"
	"strings"
	"testing"
)

// grpAsk is a request of a caller.
type grpAsk struct {
	caller, marker string
	route          string // "METHOD pattern" of proxy.Routes
	model          string // as the client names it, "" for none
	id             string // of a stored answer
	method, path   string
	body           string
	header         []string
	nested         string // a further model that it names
	held           bool   // it was under way when a reload began
}

func (a *grpAsk) String() string {
	return fmt.Sprintf("%s by %s: %s %s %s %v", a.marker, a.caller, a.method, a.path, a.body, a.header)
}

// grpMakers say how each client route is asked. A route without one fails the test.
func grpMakers() map[string]func(*grpWorld, *grpAsk) {
	makers := map[string]func(*grpWorld, *grpAsk){}
	post := func(route string, body func(w *grpWorld, a *grpAsk) string) {
		makers["POST "+route] = func(w *grpWorld, a *grpAsk) {
			a.method, a.path, a.body = "POST", strings.Replace(route, "{id}", a.model, 1), body(w, a)
			a.header = append(a.header, "Content-Type: application/json")
		}
	}
	inBody := func(text string) func(*grpWorld, *grpAsk) string { // the model, then the marker
		return func(w *grpWorld, a *grpAsk) string {
			a.model = unescaped(a.model)
			return strings.TrimSuffix(fmt.Sprintf(text, a.model, a.marker), "}") + w.nest(a) + "}"
		}
	}
	inPath := func(text string) func(*grpWorld, *grpAsk) string {
		return func(w *grpWorld, a *grpAsk) string {
			name := unescaped(a.model)
			if a.nested != "" {
				name = a.nested
			}
			text := strings.ReplaceAll(text, "MARKER", a.marker)
			return strings.ReplaceAll(text, "MODEL", "models/"+name)
		}
	}
	stream := func(text string) func(*grpWorld, *grpAsk) string {
		return func(w *grpWorld, a *grpAsk) string {
			more := ""
			if w.rand.IntN(2) == 0 {
				more = "," + streamed
			}
			return inBody(strings.TrimSuffix(text, "}")+more+"}")(w, a)
		}
	}
	post("/v1/messages", func(w *grpWorld, a *grpAsk) string {
		tokens := []int{1, 64, 64, 64}[w.rand.IntN(4)]
		return stream(fmt.Sprintf(`{"model":%%q,"max_tokens":%d,"messages":[{"role":"user","content":"zebra %%s"}]}`, tokens))(w, a)
	})
	post("/v1/messages/count_tokens", inBody(`{"model":%q,"messages":[{"role":"user","content":"zebra %s"}]}`))
	post("/v1/chat/completions", stream(`{"model":%q,"messages":[{"role":"user","content":"zebra %s"}]}`))
	post("/v1/responses", func(w *grpWorld, a *grpAsk) string {
		if a.id != "" {
			return stream(fmt.Sprintf(`{"previous_response_id":%q,"model":%%q,"input":"zebra %%s"}`, a.id))(w, a)
		}
		return stream(`{"model":%q,"input":"zebra %s"}`)(w, a)
	})
	post("/v1/responses/compact", inBody(`{"model":%q,"input":"zebra %s"}`))
	post("/v1/responses/input_tokens", inBody(`{"model":%q,"input":"zebra %s"}`))
	post("/v1/embeddings", inBody(`{"model":%q,"input":"zebra %s"}`))
	post("/v1/completions", inBody(`{"model":%q,"prompt":"zebra %s"}`))
	post("/v1/moderations", inBody(`{"model":%q,"input":"zebra %s"}`))
	for _, version := range []string{"/v1beta", "/v1"} {
		turn := `"contents":[{"role":"user","parts":[{"text":"zebra MARKER"}]}]`
		post(version+"/models/{id}:generateContent", inPath(`{`+turn+`}`))
		post(version+"/models/{id}:streamGenerateContent", inPath(`{`+turn+`}`))
		post(version+"/models/{id}:embedContent", inPath(`{"model":"MODEL","content":{"parts":[{"text":"zebra MARKER"}]}}`))
		post(version+"/models/{id}:batchEmbedContents", inPath(`{"requests":[{"model":"MODEL","content":{"parts":[{"text":"zebra MARKER"}]}}]}`))
		post(version+"/models/{id}:countTokens", func(w *grpWorld, a *grpAsk) string {
			if w.rand.IntN(2) == 0 {
				a.nested = ""
				return inPath(`{`+turn+`}`)(w, a)
			}
			return inPath(`{"generateContentRequest":{"model":"MODEL",`+turn+`}}`)(w, a)
		})
	}
	makers["POST /v1/images/{id}"] = func(w *grpWorld, a *grpAsk) {
		a.method, a.path = "POST", "/v1/images/generations"
		a.body = inBody(`{"model":%q,"prompt":"zebra %s"}`)(w, a)
		a.header = append(a.header, "Content-Type: application/json")
	}
	makers["POST /v1/audio/{id}"] = func(w *grpWorld, a *grpAsk) {
		a.method, a.path, a.nested = "POST", "/v1/audio/transcriptions", ""
		a.model = unescaped(a.model)
		var kind string
		a.body, kind = w.form(a)
		a.header = append(a.header, "Content-Type: "+kind)
	}
	makers["GET /v1/responses/{id}"] = func(w *grpWorld, a *grpAsk) {
		a.method, a.model, a.nested = "GET", "", ""
		if a.id == "" {
			a.id = "resp_unknown"
		}
		a.path = "/v1/responses/" + a.id
	}
	for _, path := range []string{"/v1/models", "/v1beta/models"} {
		makers["GET "+path] = func(w *grpWorld, a *grpAsk) { a.method, a.path, a.model, a.nested = "GET", path, "", "" }
		makers["GET "+path+"/{id}"] = func(w *grpWorld, a *grpAsk) { a.method, a.path, a.nested = "GET", path+"/"+a.model, "" }
	}
	for _, method := range []string{"POST", "GET", "DELETE"} {
		makers[method+" /mcp/{id}"] = func(w *grpWorld, a *grpAsk) {
			a.method, a.path, a.model, a.nested = method, "/mcp/tools", "", ""
			if method == "POST" {
				a.body = rpcCall
			}
			a.header = append(a.header, "Content-Type: application/json", acceptBoth)
		}
	}
	return makers
}

// nest is what names a further model in a body of the route's dialect.
func (w *grpWorld) nest(a *grpAsk) string {
	if a.nested == "" {
		return ""
	}
	forms := []string{`,"models":[%q]`, `,"Model":%q`, `,"tools":[{"type":"image_generation","model":%q}]`}
	return fmt.Sprintf(forms[w.rand.IntN(len(forms))], a.nested)
}

// form is a multipart body with a model and a file.
func (w *grpWorld) form(a *grpAsk) (body, kind string) {
	var b bytes.Buffer
	f := multipart.NewWriter(&b)
	_ = f.SetBoundary("edge")
	_ = f.WriteField("model", a.model)
	part, _ := f.CreateFormFile("file", "a.wav")
	_, _ = part.Write([]byte("RIFF zebra " + a.marker))
	f.Close()
	return b.String(), f.FormDataContentType()
}

// ask draws a request.
func (w *grpWorld) ask(caller string, routes []string) *grpAsk {
	r := w.rand
	w.serial++
	a := &grpAsk{caller: caller, marker: fmt.Sprintf("marker-%s-%d/1", caller, w.serial), route: routes[r.IntN(len(routes))]}
	a.model = w.names[r.IntN(len(w.names))]
	if served := w.reachable(caller); len(served) > 0 && r.IntN(2) == 0 {
		a.model = served[r.IntN(len(served))]
	}
	if r.IntN(6) == 0 {
		a.nested = unescaped(w.names[r.IntN(len(w.names))])
	}
	w.mu.Lock()
	ids := slices.Clone(w.ids)
	w.mu.Unlock()
	if r.IntN(2) == 0 { // of one's own
		ids = slices.DeleteFunc(ids, func(id grpStored) bool { return id.caller != caller })
	}
	if len(ids) > 0 && r.IntN(3) > 0 {
		a.id = ids[r.IntN(len(ids))].id
	}
	w.makers[a.route](w, a)
	if !strings.HasPrefix(a.path, "/mcp") {
		a.path = []string{"", "", "/anthropic", "/openai", "/gemini"}[r.IntN(5)] + a.path
	}
	if strings.Contains(a.path, "/v1beta/models/tunedModels") {
		a.path = strings.Replace(a.path, "models/tunedModels", "tunedModels", 1)
	}
	a.show(r)
	if r.IntN(2) == 0 { // the same for all callers
		a.header = append(a.header, fmt.Sprint("X-Session-Id: session-", r.IntN(3)))
	}
	a.header = append(a.header, "User-Agent: "+a.marker)
	if r.IntN(2) == 0 || strings.Contains(a.path, "/messages") {
		a.header = append(a.header, version)
	}
	return a
}

// reachable are the names that the caller can ask for.
func (w *grpWorld) reachable(caller string) (names []string) {
	w.mu.Lock()
	c := w.past[w.in]
	w.mu.Unlock()
	for _, name := range w.names {
		if c.reaches(caller, unescaped(name)) && unescaped(name) == name {
			names = append(names, name)
		}
	}
	return names
}

// show puts the caller's request key where clients have it.
func (a *grpAsk) show(r *rand.Rand) {
	key := requestKey + "-" + a.caller
	switch r.IntN(5) {
	case 0:
		a.header = append(a.header, "x-api-key: "+key)
	case 1:
		a.header = append(a.header, "authorization: Bearer "+key)
	case 2:
		a.header = append(a.header, "x-goog-api-key: "+key)
	case 3:
		a.path += "?key=" + key
	default:
		a.header = append(a.header, "x-proxy-key: "+key, "x-api-key: own-of-the-client")
	}
}

// grpRoutes are the client routes that have a caller.
func grpRoutes(t *testing.T, makers map[string]func(*grpWorld, *grpAsk)) (routes []string) {
	t.Helper()
	for _, route := range grpKeyed() {
		if makers[route] == nil {
			t.Fatalf("nobody asks %s", route)
		}
		routes = append(routes, route)
	}
	return routes
}
