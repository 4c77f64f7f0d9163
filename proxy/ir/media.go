package ir

import (
	"encoding/base64"
	"net/url"
	"strings"
)

// Media is where the bytes of an image, document, audio or video are: exactly one of Data, URL and FileID.
type Media struct {
	MIME   string // e.g. "image/png"; "" = not said
	Data   string // base64, standard alphabet
	URL    string
	FileID string // of the client's provider
	Name   string // file name
}

// MediaAt takes what a data URL holds (RFC 2397: "data:image/png;name=x;base64,AAAA"; what is not base64 becomes it), or
// an address. ok is false for a data URL without data.
func MediaAt(address string) (m Media, ok bool) {
	if len(address) < len("data:") || !strings.EqualFold(address[:len("data:")], "data:") {
		return Media{URL: address}, true
	}
	head, data, _ := strings.Cut(address[len("data:"):], ",")
	mime, params, _ := strings.Cut(head, ";")
	m.MIME = cleanMIME(mime)
	if strings.HasSuffix(strings.ToLower(";"+params), ";base64") {
		m.Data = StandardBase64(data)
	} else if plain, err := url.PathUnescape(data); err == nil {
		m.Data = base64.StdEncoding.EncodeToString([]byte(plain))
	}
	return m, m.Data != ""
}

// StandardBase64 is base64 in the standard alphabet, padded and in one line: clients may write the URL's, or wrap it.
func StandardBase64(data string) string {
	for _, c := range [...]byte{'-', '_', ' ', '\t', '\r', '\n'} {
		if strings.IndexByte(data, c) >= 0 {
			data = strings.NewReplacer("-", "+", "_", "/", " ", "", "\t", "", "\r", "", "\n", "").Replace(data)
			break
		}
	}
	if n := len(data) % 4; n > 1 && !strings.HasSuffix(data, "=") {
		data += "=="[:4-n]
	}
	return data
}

// cleanMIME is a media type without parameters, in small letters and by its usual name.
func cleanMIME(mime string) string {
	mime, _, _ = strings.Cut(mime, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	if mime == "image/jpg" || mime == "image/pjpeg" { // no such types; clients say them all the same
		return "image/jpeg"
	}
	return mime
}

// magics are how the data of some media begin, in base64.
var magics = [...]struct{ prefix, mime string }{
	{"iVBORw", "image/png"}, {"/9j/", "image/jpeg"}, {"R0lGOD", "image/gif"}, {"UklGR", "image/webp"}, {"JVBER", "application/pdf"},
}

// Type is the media type, "" where it is not known. One that is not said is read off the data.
func (m *Media) Type() string {
	mime := cleanMIME(m.MIME)
	switch mime {
	case "", "image/*", "application/octet-stream":
		for _, known := range magics {
			if strings.HasPrefix(m.Data, known.prefix) {
				return known.mime
			}
		}
	}
	return mime
}
