package antigravity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"coding-proxy/proxy/ir"
	"coding-proxy/proxy/rawjson"
)

const countTokens = "countTokens"

// askedKey finds in a request's context what Again and Open must know of it.
type askedKey struct{}

type asked struct {
	model string
	array bool // the answer is a JSON array of chunks
}

// askedOf is what a signed request asks for.
func askedOf(req *http.Request) asked {
	if req == nil {
		return asked{}
	}
	a, _ := req.Context().Value(askedKey{}).(asked)
	return a
}

// target reads the dialect's path: /v1beta/models/NAME:action.
func target(req *http.Request) (model, action string, f *ir.Fault) {
	path := req.URL.EscapedPath()
	at := strings.LastIndexByte(path, ':')
	_, name, found := strings.Cut(path[:max(at, 0)], "/models/")
	if at >= 0 {
		action = path[at+1:]
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	switch {
	case found && name != "" && (action == "generateContent" || action == "streamGenerateContent" || action == countTokens):
		return name, action, nil
	case action == "" || strings.Contains(action, "/"):
		action = "this"
	}
	return "", "", &ir.Fault{Status: http.StatusNotFound, Kind: ir.KindNotFound, Type: ir.KindNotFound,
		Message: "the Code Assist service has no call for " + action}
}

// envelope is what goes around a request.
type envelope struct {
	project, model, action, id string
}

// wrap puts the envelope around a request's body. Of the body itself it changes as little as the service wants: its own
// session goes in, the model and the safety settings go out, and for Claude's models the tools are written anew. All other
// bytes stay, maxOutputTokens too: some clients leave that out for Gemini's models, but the service takes it, and without
// it an answer could be longer than was asked for.
func (p *Provider) wrap(req *http.Request, e envelope) *ir.Fault {
	body, err := readBody(req)
	if err != nil {
		return &ir.Fault{Status: http.StatusBadRequest, Kind: ir.KindInvalid, Type: ir.KindInvalid, Message: "the request body could not be read"}
	}
	pieces, err := e.around(body)
	if err != nil {
		return &ir.Fault{Status: http.StatusBadRequest, Kind: ir.KindInvalid, Type: ir.KindInvalid, Message: "the request body is not a JSON object"}
	}
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(reader(pieces)), nil }
	req.Body, _ = req.GetBody()
	req.ContentLength = 0
	for _, piece := range pieces {
		req.ContentLength += int64(len(piece))
	}
	array := e.action == "streamGenerateContent" && req.URL.Query().Get("alt") != "sse"
	*req = *req.WithContext(context.WithValue(req.Context(), askedKey{}, asked{e.model, array}))
	return nil
}

// readBody takes a request's body over: nobody else sends it.
func readBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, io.ErrUnexpectedEOF
	}
	defer req.Body.Close()
	if req.ContentLength <= 0 {
		return io.ReadAll(req.Body)
	}
	body := make([]byte, req.ContentLength)
	_, err := io.ReadFull(req.Body, body)
	return body, err
}

// reader reads pieces one after the other. A small request is one piece: the Transport sends a reader that it knows
// together with the header, in one write.
func reader(pieces [][]byte) io.Reader {
	if len(pieces) == 1 {
		return bytes.NewReader(pieces[0])
	}
	readers := make([]io.Reader, len(pieces))
	for i, piece := range pieces {
		readers[i] = bytes.NewReader(piece)
	}
	return io.MultiReader(readers...)
}

// smallBody is up to which size copying a body costs less than sending it apart from its header.
const smallBody = 32 << 10

// around returns the body in its envelope, as pieces that share the body's memory where that is large.
func (e envelope) around(body []byte) ([][]byte, error) {
	m, err := membersOf(body)
	if err != nil {
		return nil, err
	}
	edits, err := rawjson.Remove(body, map[string]bool{"safetySettings": true, "safety_settings": true, "model": true, "sessionId": true})
	if err != nil {
		return nil, err
	}
	w := rawjson.Writer{}
	w.Open('{')
	if e.action != countTokens {
		w.Field("project", e.project)
		w.Field("requestId", "agent-"+e.id)
		w.Field("model", e.model)
		w.Field("userAgent", "antigravity") // the service's word for who speaks this protocol
		w.Field("requestType", "agent")
	}
	w.Key("request")
	w.Open('{')
	if e.action == countTokens {
		w.Field("model", "models/"+e.model)
	} else {
		w.Field("sessionId", sessionID(body, m.contents))
	}
	if m.tools != nil && strings.HasPrefix(e.model, "claude-") {
		tools, strict := claudeTools(m.tools.Value(body))
		edits = append(edits, rawjson.Edit{Start: m.tools.ValueStart, End: m.tools.ValueEnd, Text: tools})
		if strict && e.action != countTokens {
			if edit := validated(body, m.toolConfig); edit != nil {
				edits = append(edits, *edit)
			} else if m.toolConfig == nil {
				w.Key("toolConfig")
				w.Raw([]byte(`{"functionCallingConfig":{"mode":"VALIDATED"}}`))
			}
		}
	}
	if m.stays {
		w.Buf = append(w.Buf, ',')
	}
	open := bytes.IndexByte(body, '{')
	edits = append(edits, rawjson.Edit{End: open + 1, Text: w.Buf}) // blanks before the object go, too
	pieces := append(rawjson.Splice(body, edits...), []byte("}"))
	if len(body) <= smallBody {
		pieces = [][]byte{bytes.Join(pieces, nil)}
	}
	return pieces, nil
}

// members are the places in a body that matter here.
type members struct {
	contents, tools, toolConfig *rawjson.Field

	stays bool // some member is left behind the ones that go
}

func membersOf(body []byte) (m members, err error) {
	err = rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		switch string(key) {
		case "safetySettings", "safety_settings", "model", "sessionId":
			return nil
		case "contents":
			m.contents = &f
		case "toolConfig", "tool_config":
			m.toolConfig = &f
		case "tools":
			m.tools = &f
		}
		m.stays = true
		return nil
	})
	return m, err
}

// validated sets the function calling mode VALIDATED, by which the service keeps Claude's models to the schemas, where the
// client has not asked for another one than the default: that a tool must (ANY) or may not (NONE) be called is its to say.
// nil: there is nothing to change, or no member to change it in.
func validated(body []byte, at *rawjson.Field) *rawjson.Edit {
	if at == nil {
		return nil
	}
	config, ok := inside(body, *at, "functionCallingConfig", "function_calling_config")
	if !ok {
		return insert(body, *at, `"functionCallingConfig":{"mode":"VALIDATED"}`)
	}
	word, ok := inside(body, config, "mode")
	if !ok {
		return insert(body, config, `"mode":"VALIDATED"`)
	}
	if text, _ := rawjson.String(word.Value(body)); text == "ANY" || text == "NONE" {
		return nil
	}
	return &rawjson.Edit{Start: word.ValueStart, End: word.ValueEnd, Text: []byte(`"VALIDATED"`)}
}

// inside finds a member, by one of its names, of the object that a field holds.
func inside(body []byte, at rawjson.Field, names ...string) (found rawjson.Field, ok bool) {
	_ = rawjson.Walk(at.Value(body), func(key []byte, f rawjson.Field) error {
		for _, name := range names {
			if string(key) == name {
				found, ok = f, true
			}
		}
		return nil
	})
	found.KeyStart += at.ValueStart
	found.ValueStart += at.ValueStart
	found.ValueEnd += at.ValueStart
	return found, ok
}

// insert puts a member at the front of the object that a field holds; another value than an object becomes one.
func insert(body []byte, at rawjson.Field, member string) *rawjson.Edit {
	empty := true
	if rawjson.Walk(at.Value(body), func([]byte, rawjson.Field) error { empty = false; return nil }) != nil {
		return &rawjson.Edit{Start: at.ValueStart, End: at.ValueEnd, Text: []byte("{" + member + "}")}
	}
	if !empty {
		member += ","
	}
	return &rawjson.Edit{Start: at.ValueStart, End: at.ValueStart + 1, Text: []byte("{" + member)}
}

// sessionID names the conversation: the same first words of the user give the same id, a negative number of 63 bits.
func sessionID(body []byte, contents *rawjson.Field) string {
	var first []byte
	if contents != nil {
		first = firstWords(contents.Value(body))
	}
	sum := sha256.Sum256(first)
	return "-" + strconv.FormatUint(binary.BigEndian.Uint64(sum[:8])&(1<<63-1), 10)
}

var errFound = errors.New("found")

// firstWords is the first text of the user's that says something: reminders, which clients put in front, change from
// request to request. Where there is none, it is the first content whole.
func firstWords(contents []byte) (words []byte) {
	var whole []byte
	_ = rawjson.Elements(contents, func(_ int, content []byte) error {
		if whole == nil {
			whole = content
		}
		if role, _ := rawjson.String(rawjson.Get(content, "role")); role != "" && role != "user" {
			return nil
		}
		_ = rawjson.Elements(rawjson.Get(content, "parts"), func(_ int, part []byte) error {
			text, _ := rawjson.String(rawjson.Get(part, "text"))
			if text = strings.TrimSpace(text); text == "" || strings.HasPrefix(text, "<system-reminder>") {
				return nil
			}
			words = []byte(text)
			return errFound
		})
		if words != nil {
			return errFound
		}
		return nil
	})
	if words == nil {
		return whole
	}
	return words
}
