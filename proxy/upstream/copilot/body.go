package copilot

import (
	"bytes"
	"io"
	"net/http"

	"coding-proxy/proxy/rawjson"
)

// bodyOf reads a copy of a request's body; nil: it has none, or none that can be had again.
func bodyOf(req *http.Request) ([]byte, error) {
	if req.Body == nil || req.Body == http.NoBody || req.GetBody == nil {
		return nil, nil
	}
	r, err := req.GetBody()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var b bytes.Buffer
	if req.ContentLength > 0 {
		b.Grow(int(req.ContentLength) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(r); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// setBody gives a request another body. The old one is closed: its buffer is counted.
func setBody(req *http.Request, body []byte) {
	_ = req.Body.Close() // nothing of it was read
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	req.Body, _ = req.GetBody() // it cannot fail
}

// rename returns the body with the model's name as the list of models has it now; nil where nothing changes.
func (p *Provider) rename(body []byte, dialect string) []byte {
	if dialect == "" {
		return nil
	}
	var at rawjson.Field
	err := rawjson.Walk(body, func(key []byte, f rawjson.Field) error {
		if string(key) == "model" {
			at = f
		}
		return nil
	})
	if err != nil || at.ValueEnd == 0 {
		return nil
	}
	model, ok := rawjson.String(at.Value(body))
	if !ok {
		return nil
	}
	name, entry := resolve(serving(p.catalog.known(), dialect), model)
	if entry == nil || name == model {
		return nil
	}
	return bytes.Join(rawjson.Splice(body, rawjson.Edit{Start: at.ValueStart, End: at.ValueEnd, Text: rawjson.AppendString(nil, name)}), nil)
}
