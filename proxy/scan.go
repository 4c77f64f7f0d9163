package proxy

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const (
	maxModelName = 256 // characters; longer names are refused
	maxSession   = 256 // characters; longer ids are ignored
	maxID        = 256 // characters of ids of stored answers
)

// scan looks at the top level of the body once.
func (c *call) scan() error {
	c.stream = c.Route.stream
	inPath := c.Route.action != ""
	if inPath {
		c.model = c.ID
		c.array = c.stream && c.in.URL.Query().Get("alt") != "sse"
	}
	if kind, params, err := mime.ParseMediaType(c.in.Header.Get("Content-Type")); err == nil && kind == "multipart/form-data" && c.Route.speaks != "" {
		if err := c.scanForm(params["boundary"]); err != nil {
			return err
		}
	} else if err := c.scanObject(inPath); err != nil {
		return err
	}
	switch {
	case c.model == "":
		return badField("model", "the field is missing or empty")
	case utf8.RuneCountInString(c.model) > maxModelName:
		return badField("model", "the name is longer than 256 characters")
	}
	return nil
}

// top is what a scan has met once already.
type top struct {
	seen           [4]bool
	user, cacheKey string
}

// once refuses a field that is there again: two readers could take different ones.
func (t *top) once(i int, name string) error {
	if t.seen[i] {
		return badField(name, "the field is there more than once")
	}
	t.seen[i] = true
	return nil
}

func (c *call) scanObject(inPath bool) error {
	b, t := c.body.bytes, &top{}
	err := rawjson.Walk(b, func(key []byte, f rawjson.Field) error { return c.field(t, inPath, string(key), f, f.Value(b)) })
	if errors.Is(err, rawjson.ErrSyntax) {
		return badRequest("the request body is not a JSON object: %s", strings.TrimPrefix(err.Error(), "invalid JSON: "))
	}
	c.session = sessionID(c.in.Header, t.user, t.cacheKey)
	return err
}

// field takes note of one member of the body.
func (c *call) field(t *top, inPath bool, key string, f rawjson.Field, v []byte) error {
	var ok bool
	switch key {
	case "model":
		if inPath {
			return nil
		}
		if c.model, ok = rawjson.String(v); !ok {
			return badField("model", "must be a string")
		}
		c.modelAt = f
		return t.once(0, key)
	case "stream":
		if inPath {
			return nil
		}
		if c.stream = string(v) == "true"; !c.stream && string(v) != "false" && string(v) != "null" {
			return badField("stream", "must be true or false")
		}
		return t.once(1, key)
	case "max_tokens":
		if c.maxTokens, ok = rawjson.Int(v); !ok {
			c.maxTokens = -1
		}
		return t.once(2, key)
	case "metadata":
		t.user, _ = rawjson.String(rawjson.Get(v, "user_id"))
		return t.once(3, key)
	case "prompt_cache_key":
		t.cacheKey, _ = rawjson.String(v)
	default:
		return c.stored(key, v)
	}
	return nil
}

// stored takes note of what lives at a provider.
func (c *call) stored(key string, v []byte) error {
	if refers := c.dialect.Raw.Refers; refers != nil {
		refers(key, v, func(ref ir.Reference) { c.refers = append(c.refers, ref) })
	}
	if c.dialect.Name != responses || string(v) == "null" {
		return nil
	}
	switch key {
	case "previous_response_id":
		id, ok := rawjson.String(v)
		if !ok || id == "" || len(id) > maxID {
			return badField(key, "must be the id of an answer")
		}
		c.refers, c.stateful = append(c.refers, ir.Reference{At: key, ID: id}), key
	case "conversation", "prompt":
		c.stateful = key
	case "background":
		if string(v) == "true" {
			c.stateful, c.background = key, true
		}
	case "store":
		c.unstored = string(v) == "false"
	}
	return nil
}

// scanForm finds the field `model` of a multipart form.
func (c *call) scanForm(boundary string) error {
	b, mark := c.body.bytes, []byte("--"+boundary)
	if boundary == "" {
		return badRequest("the content-type names no boundary")
	}
	for at := bytes.Index(b, mark); at >= 0; {
		head := at + len(mark)
		end := bytes.Index(b[head:], []byte("\r\n\r\n"))
		next := bytes.Index(b[head:], append([]byte("\r\n"), mark...))
		if end < 0 || next < end {
			break // the last boundary, or what is no part
		}
		from, to := head+end+4, head+next
		if from <= to && partName(b[head:head+end]) == "model" {
			if c.model != "" {
				return badField("model", "the field is there more than once")
			}
			c.model, c.plainAt = string(b[from:to]), true
			c.modelAt = rawjson.Field{ValueStart: from, ValueEnd: to}
			if !utf8.ValidString(c.model) {
				return badField("model", "must be text")
			}
		}
		at = to + 2
	}
	c.session = sessionID(c.in.Header, "", "")
	return nil
}

// partName is the name of a form field, from its part's header lines.
func partName(head []byte) string {
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, _ := strings.Cut(string(line), ":")
		if !strings.EqualFold(name, "Content-Disposition") {
			continue
		}
		if _, params, err := mime.ParseMediaType(strings.TrimSpace(value)); err == nil {
			return params["name"]
		}
	}
	return ""
}

// sessionID is the first id that a client gives its conversation (facts/clients.md, section 0).
func sessionID(h http.Header, user, cacheKey string) string {
	for _, name := range [...]string{"X-Claude-Code-Session-Id", "", "X-Session-Id", "X-Session-Affinity", "Session-Id", "Session_id", "Mcp-Session-Id"} {
		id := ""
		if name == "" {
			id = userSession(user)
		} else if v := h[name]; len(v) > 0 {
			id = v[0]
		}
		if validSession(id) {
			return id
		}
	}
	if validSession(cacheKey) {
		return cacheKey
	}
	return ""
}

// userSession takes the session out of metadata.user_id: newer Claude Code sends a JSON text with session_id, older
// ones user_…_session_UUID; any other value counts whole.
func userSession(user string) string {
	if strings.HasPrefix(user, "{") {
		if id, ok := rawjson.String(rawjson.Get([]byte(user), "session_id")); ok && id != "" {
			return id
		}
	}
	if i := strings.LastIndex(user, "_session_"); i >= 0 && i+len("_session_") < len(user) {
		return user[i+len("_session_"):]
	}
	return user
}

func validSession(id string) bool {
	if id == "" || utf8.RuneCountInString(id) > maxSession {
		return false
	}
	for i := 0; i < len(id); i++ {
		if id[i] < 0x20 || id[i] == 0x7f {
			return false
		}
	}
	return true
}

// badField refuses the request for one of its fields.
func badField(field, problem string) *Error {
	return &Error{Status: http.StatusBadRequest, Type: ir.KindInvalid, Param: field, Message: field + ": " + problem}
}

// parts returns the body as it goes to a key on the raw lane: the client's bytes with the model's value replaced, and
// without the fields that the upstream refuses.
func (c *call) parts(body []byte, at rawjson.Field, upstreamModel string, drop map[string]bool) ([][]byte, error) {
	var edits []rawjson.Edit
	if upstreamModel != c.model {
		switch {
		case c.plainAt:
			edits = append(edits, rawjson.Edit{Start: at.ValueStart, End: at.ValueEnd, Text: []byte(upstreamModel)})
		case at.ValueEnd > 0:
			edits = append(edits, rawjson.Edit{Start: at.ValueStart, End: at.ValueEnd, Text: rawjson.AppendString(nil, upstreamModel)})
		default:
			edits = nestedModels(body, upstreamModel)
		}
	}
	if len(drop) > 0 && !c.plainAt {
		removed, err := rawjson.Remove(body, drop)
		if err != nil {
			return nil, err
		}
		edits = append(edits, removed...)
	}
	if len(edits) == 0 {
		return [][]byte{body}, nil
	}
	return rawjson.Splice(body, edits...), nil
}

// nestedModels are the edits of the bodies of Gemini's embedding calls, which repeat the model of the path.
func nestedModels(body []byte, model string) []rawjson.Edit {
	if !strings.HasPrefix(model, tuned) {
		model = "models/" + model
	}
	var edits []rawjson.Edit
	replace := func(base int, f rawjson.Field) {
		edits = append(edits, rawjson.Edit{Start: base + f.ValueStart, End: base + f.ValueEnd, Text: rawjson.AppendString(nil, model)})
	}
	_ = rawjson.Walk(body, func(key []byte, f rawjson.Field) error { // that it is an object has been seen
		if string(key) == "model" {
			replace(0, f)
		}
		if string(key) != "requests" {
			return nil
		}
		return rawjson.Elements(f.Value(body), func(_ int, one []byte) error {
			base := cap(body) - cap(one) // where it begins: both end with the same memory
			return rawjson.Walk(one, func(key []byte, f rawjson.Field) error {
				if string(key) == "model" {
					replace(base, f)
				}
				return nil
			})
		})
	})
	return edits
}
