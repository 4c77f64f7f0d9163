package proxy

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"coding-proxy/pool"
	"coding-proxy/proxy/rawjson"
)

// What a caller with a list of models may send. The list is about who answers, so every model of which the provider would hear
// must be on it, not only the one that the request is routed by, and the choice may not be left to the provider. Bodies go
// on as they came, so that what has another reading than ours is refused, too.

// admitted takes the caller's scope from the settings by which the request goes on: a reload may have come since the caller was
// identified, and keys of the same id may be another account's now.
func (c *call) admitted() error {
	callers, e := c.set.callers, &c.Entry
	if callers.Open() && !e.Caller.Limited && len(e.Caller.Models) == 0 {
		return nil
	}
	now, err := callers.ByCode(e.Caller.Code, e.Started)
	if err != nil {
		return err
	}
	e.Caller.Group, e.Caller.Keys, e.Caller.Limited, e.Caller.Models = now.Group, now.Keys, now.Limited, now.Models
	c.record.Group = now.Group
	return nil
}

// scope is the pool keys that the caller may use.
func (c *call) scope() pool.Scope {
	if c.Caller.Limited {
		return pool.Only(c.Caller.Keys...)
	}
	return pool.Everything()
}

// notAllowed refuses a model, and names the field where that is not the one that every request has.
func notAllowed(model, at string) *Error {
	e := ErrForbidden("this request key may not use the model " + printable(model))
	if at != "" {
		e.Message += " (" + printable(at) + ")"
		e.Param = at
	}
	return e
}

// unknowable refuses what lets a provider choose a model.
func unknowable(at string) *Error {
	e := ErrForbidden("this request key may use some models only, and " + printable(at) + " leaves the choice of one to the provider")
	e.Param = at
	return e
}

// allowed refuses a request of a caller with a list where it names a model that is not on it.
func (c *call) allowed(resolved string) error {
	if len(c.Caller.Models) == 0 || slices.Contains(c.Caller.Models, "*") {
		return nil
	}
	if c.model != "" && !c.mayUse(resolved) {
		return notAllowed(c.model, "")
	}
	if err := c.allowedAround(); err != nil || c.body == nil {
		return err
	}
	kind, params, err := mime.ParseMediaType(c.in.Header.Get("Content-Type"))
	switch lines := c.in.Header["Content-Type"]; {
	case len(lines) == 0, len(lines) == 1 && err == nil && isJSON(kind, params["charset"]):
		return c.allowedObject()
	case len(lines) == 1 && err == nil && kind == "multipart/form-data" && c.Route.speaks != "":
		return c.allowedForm(params["boundary"])
	}
	return ErrForbidden("this request key may use some models only, so its requests must be JSON and say so: content-type application/json")
}

func isJSON(kind, charset string) bool {
	return (kind == "application/json" || strings.HasSuffix(kind, "+json")) && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// mayUse reports whether the list has a model's name. A star stands for any text of a name, but some providers read more than
// one name in such a text, LiteLLM in "a,b" and OpenRouter in "a@preset/b".
func (c *call) mayUse(name string) bool {
	several := strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == ',' || r == 0x7f }) || strings.Contains(name, "@preset/")
	return c.Caller.MayUse(name) && (!several || slices.Contains(c.Caller.Models, name))
}

// names judges a model that the provider would take by the name as it stands: no mapping is in between.
func (c *call) names(name, at string) error {
	switch {
	case name == "":
		return unknowable(at)
	case c.mayUse(name) && c.mayUse(c.p.pool.Resolve(name)):
		return nil
	}
	return notAllowed(name, at)
}

// allowedAround judges what queries and headers say: LiteLLM takes ?model=, gateways have headers for what they fall back to.
func (c *call) allowedAround() error {
	for part := range strings.SplitSeq(c.in.URL.RawQuery, "&") {
		name, value, _ := strings.Cut(part, "=")
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		if namesModel(name) {
			if plain, err := url.QueryUnescape(value); err == nil {
				value = plain
			}
			if err := c.names(value, "?"+name); err != nil {
				return err
			}
		}
	}
	for name, values := range c.in.Header {
		for _, v := range values {
			if namesModel(name) {
				if err := c.names(v, "the header "+strings.ToLower(name)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// namesModel reports whether a field is one by which providers are told models: model, models, modelName, fallback_model,
// allowed_models, fallbacks, deployment_id, …
func namesModel(field string) bool {
	field = strings.ToLower(field)
	return strings.Contains(field, "model") || strings.Contains(field, "fallback") || strings.Contains(field, "deployment")
}

// allowedObject judges the body. It must be JSON through and through: what only some readers understand they understand differently.
func (c *call) allowedObject() error {
	b := c.body.bytes
	if err := rawjson.Valid(b); err != nil {
		return badRequest("the request body is not JSON: %s", strings.TrimPrefix(err.Error(), "invalid JSON: "))
	}
	return rawjson.Walk(b, func(key []byte, f rawjson.Field) error { return c.allowedMember(string(key), f.Value(b)) })
}

// allowedMember judges a member of the body.
func (c *call) allowedMember(key string, v []byte) error {
	inPath := c.Route.action != ""
	switch {
	case key == "model" && !inPath: // it has been judged, and is replaced by the upstream's
		return nil
	case inPath && (key == "model" || key == "requests" || key == "generateContentRequest" && c.Route.action == "countTokens"):
		return c.repeated(key, v)
	}
	switch strings.ToLower(key) {
	case "metadata", "labels": // kept by providers, never read
		return nil
	case "messages", "input", "contents", "content", "system", "instructions", "systeminstruction", "system_instruction":
		return c.allowedTurns(key, v)
	case "prompt":
		if c.dialect.Name == responses && string(v) != "null" { // a stored one brings tools and settings of its own
			return unknowable(key)
		}
		return nil
	case "preset", "route": // OpenRouter's
		if string(v) != "null" {
			return unknowable(key)
		}
		return nil
	case "engine": // an older word
		return c.allowedValue(key, "model", v)
	}
	return c.allowedValue(key, key, v)
}

// repeated judges where Gemini's calls repeat the model of the path. There the path's is put in its place.
func (c *call) repeated(at string, v []byte) error {
	if name, ok := rawjson.String(v); ok {
		if short := strings.TrimPrefix(name, "models/"); short == c.model {
			return nil
		}
		return c.names(strings.TrimPrefix(name, "models/"), at)
	}
	if len(v) > 0 && v[0] == '[' {
		return rawjson.Elements(v, func(i int, one []byte) error { return c.repeated(at+"["+strconv.Itoa(i)+"]", one) })
	}
	if len(v) == 0 || v[0] != '{' {
		return nil
	}
	return rawjson.Walk(v, func(key []byte, f rawjson.Field) error {
		if string(key) == "model" {
			return c.repeated(at+".model", f.Value(v))
		}
		switch strings.ToLower(string(key)) {
		case "contents", "content", "systeminstruction", "system_instruction":
			return c.allowedTurns(at+"."+string(key), f.Value(v))
		}
		return c.allowedValue(at+"."+string(key), string(key), f.Value(v))
	})
}

// allowedTurns judges the tools that turns bring with them. All else there is talk.
func (c *call) allowedTurns(at string, v []byte) error {
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	return rawjson.Elements(v, func(i int, turn []byte) error {
		if turn[0] != '{' {
			return nil
		}
		return rawjson.Walk(turn, func(key []byte, f rawjson.Field) error {
			if strings.EqualFold(string(key), "tools") {
				return c.allowedValue(at+"["+strconv.Itoa(i)+"]."+string(key), string(key), f.Value(turn))
			}
			return nil
		})
	})
}

// allowedValue judges a value and what is in it. A tool's schema may have a property called model: its value is a schema, no name.
func (c *call) allowedValue(at, key string, v []byte) error {
	switch {
	case len(v) == 0:
		return nil
	case v[0] == '"':
		if !namesModel(key) {
			return nil
		}
		name, ok := rawjson.String(v)
		if !ok {
			return badField(at, "must be text")
		}
		return c.names(name, at)
	case v[0] == '[':
		return rawjson.Elements(v, func(i int, one []byte) error {
			at := at + "[" + strconv.Itoa(i) + "]"
			if one[0] == '{' && (strings.EqualFold(key, "tools") || strings.EqualFold(key, "plugins")) {
				if err := c.allowedTool(at, one); err != nil {
					return err
				}
			}
			return c.allowedValue(at, key, one)
		})
	case v[0] != '{':
		return nil
	}
	return rawjson.Walk(v, func(k []byte, f rawjson.Field) error { return c.allowedIn(at, key, string(k), f.Value(v)) })
}

// allowedIn judges the member k of the object that key is.
func (c *call) allowedIn(at, key, k string, v []byte) error {
	switch strings.ToLower(k) {
	case "default", "example", "examples", "const", "enum", "required", "dependentrequired", "dependencies": // a schema's data
		return nil
	case "id", "name", "slug": // of an entry of a list of models
		if key = strings.ToLower(key); strings.HasSuffix(key, "models") || strings.Contains(key, "fallback") {
			return c.allowedValue(at+"."+k, "model", v)
		}
	}
	if strings.Contains(strings.ToLower(key), "fallback") && len(v) > 0 && v[0] == '[' { // {"one model": ["another"]}
		return c.allowedValue(at+"."+k, key, v)
	}
	return c.allowedValue(at+"."+k, k, v)
}

// allowedTool refuses a provider's own tool that asks a model which the request does not name.
func (c *call) allowedTool(at string, tool []byte) error {
	kind, _ := rawjson.String(rawjson.Get(tool, "type"))
	if kind == "" {
		kind, _ = rawjson.String(rawjson.Get(tool, "id")) // OpenRouter's plugins
	}
	for word, field := range map[string]string{"image_generation": "model", "advisor": "model", "subagent": "model", "fusion": "analysis_models"} {
		if strings.Contains(kind, word) && rawjson.Get(tool, field) == nil && rawjson.Get(rawjson.Get(tool, "parameters"), field) == nil {
			return unknowable(at)
		}
	}
	return nil
}

// allowedForm judges a form, as a reader of its own sees it: where that is not what was found before, providers may see a third thing.
func (c *call) allowedForm(boundary string) error {
	unclear := badRequest("the form can be read in more than one way")
	form, found := multipart.NewReader(bytes.NewReader(c.body.bytes), boundary), false
	for {
		part, err := form.NextRawPart()
		if errors.Is(err, io.EOF) && found {
			return nil
		}
		if err != nil {
			return unclear
		}
		name := part.FormName()
		if name == "" || len(part.Header["Content-Disposition"]) != 1 {
			return unclear
		}
		if name != "model" && !namesModel(name) {
			continue
		}
		value, err := io.ReadAll(io.LimitReader(part, maxForm))
		switch {
		case err != nil || name == "model" && (found || part.FileName() != "" || string(value) != c.model):
			return unclear
		case name == "model":
			found = true
			continue
		}
		if err := c.names(string(value), name); err != nil {
			return err
		}
	}
}

// maxForm is as much as is read of a form's field that names models.
const maxForm = 64 << 10

// nearAllowed leaves out of an error what the caller could not ask for.
func (c *call) nearAllowed(near []string) []string {
	return slices.DeleteFunc(slices.Clone(near), func(name string) bool { return !c.Caller.MayUse(c.p.pool.Resolve(name)) })
}
