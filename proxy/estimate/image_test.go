package estimate

import (
	"bytes"
	"encoding/base64"
	"errors"
	"image"
	"image/color/palette"
	"image/gif"
	"image/jpeg"
	"image/png"
	"math"
	"strings"
	"testing"
)

// A size with different bytes in every place, so that a swapped order shows.
const (
	testWidth  = 0x012d
	testHeight = 0x0207
)

func encoded(t testing.TB, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	picture := image.NewPaletted(image.Rect(0, 0, testWidth, testHeight), palette.Plan9)
	var err error
	switch format {
	case "png":
		err = png.Encode(&b, picture)
	case "jpeg":
		err = jpeg.Encode(&b, picture, nil)
	case "gif":
		err = gif.Encode(&b, picture, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withExif puts metadata segments of n bytes in all before the frame header, as cameras do.
func withExif(jpg []byte, n int) []byte {
	b := bytes.Clone(jpg[:2])
	for ; n > 0; n -= 60_000 {
		length := min(n, 60_000) + 2
		b = append(b, 0xff, 0xff, 0xe1, byte(length>>8), byte(length)) // one 0xff more is a legal filler
		b = append(b, bytes.Repeat([]byte{0xff}, length-2)...)
	}
	return append(b, jpg[2:]...)
}

// webp builds the header of a WebP file; the standard library has no encoder.
func webp(chunk, payload string) []byte {
	b := []byte("RIFF\x1a\x00\x00\x00WEBP" + chunk + "\x0e\x00\x00\x00" + payload)
	return append(b, make([]byte, 30)...)
}

func webpFiles() map[string][]byte {
	lossless := uint32(testWidth-1) | uint32(testHeight-1)<<14 | 1<<28
	return map[string][]byte{
		"lossy":    webp("VP8 ", "\x30\x01\x00\x9d\x01\x2a\x2d\x41\x07\xc2"), // with both scales set
		"lossless": webp("VP8L", string([]byte{0x2f, byte(lossless), byte(lossless >> 8), byte(lossless >> 16), byte(lossless >> 24)})),
		"extended": webp("VP8X", "\x10\x00\x00\x00\x2c\x01\x00\x06\x02\x00"),
	}
}

func TestImageSize(t *testing.T) {
	files := webpFiles()
	for _, format := range []string{"png", "jpeg", "gif"} {
		files[format] = encoded(t, format)
	}
	files["jpeg with tables first"] = []byte("\xff\xd8\xff\xc4\x00\x09\x00\x01\x02\x03\x04\x05\x06\xff\xc2\x00\x11\x08\x02\x07\x01\x2d")
	files["jpeg with metadata"] = withExif(files["jpeg"], 150_000)
	for name, file := range files {
		if w, h := imageSize(bytes.NewReader(file)); w != testWidth || h != testHeight {
			t.Errorf("%s: %d by %d, want %d by %d", name, w, h, testWidth, testHeight)
		}
		for cut := range min(len(file), 20) {
			if w, h := imageSize(bytes.NewReader(file[:cut])); w != 0 && (w != testWidth || h != testHeight) || (w == 0) != (h == 0) {
				t.Errorf("%s cut to %d bytes: %d by %d", name, cut, w, h)
			}
		}
	}
}

// failing fails the test if more is read than the header needs.
type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) {
	f.t.Error("read past the header")
	return 0, errors.New("no more")
}

type chain struct {
	*bytes.Reader
	next failing
}

func (c chain) Read(p []byte) (int, error) {
	if c.Len() > 0 {
		return c.Reader.Read(p)
	}
	return c.next.Read(p)
}

func TestImageSizeReadsOnlyTheHeader(t *testing.T) {
	for _, format := range []string{"png", "gif"} {
		file := encoded(t, format)[:30]
		if w, _ := imageSize(chain{bytes.NewReader(file), failing{t}}); w != testWidth {
			t.Errorf("%s: width %d", format, w)
		}
	}
	file := withExif(encoded(t, "jpeg"), 5000)
	frame := bytes.Index(file, []byte{0xff, 0xc0})
	if w, _ := imageSize(chain{bytes.NewReader(file[:frame+9]), failing{t}}); w != testWidth {
		t.Errorf("jpeg: width %d", w)
	}
}

func TestImageSizeUnreadable(t *testing.T) {
	huge := "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\xff\xff\xff\xff\xff\xff\xff\xff" + strings.Repeat("\x00", 10)
	for name, file := range map[string]string{
		"empty":                 "",
		"text":                  "not an image at all, but long enough for a header",
		"SVG":                   "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"3\" height=\"3\"/>",
		"PNG without IHDR":      "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIDAT\x00\x00\x01\x00\x00\x00\x01\x00",
		"PNG beyond any size":   huge,
		"PNG of no width":       "\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR\x00\x00\x00\x00\x00\x00\x00\x05",
		"GIF of no height":      "GIF89a\x05\x00\x00\x00",
		"WebP of unknown chunk": string(webp("ALPH", "")),
		"WebP without start":    string(webp("VP8 ", "\x30\x01\x00\x00\x00\x00\x2d\x01\x07\x02")),
		"JPEG scan before size": "\xff\xd8\xff\xda\x00\x02\xff\xc0\x00\x11\x08\x02\x07\x01\x2d",
		"JPEG short segment":    "\xff\xd8\xff\xe1\x00\x01\xff\xc0\x00\x11\x08\x02\x07\x01\x2d",
		"JPEG of filler":        "\xff\xd8" + strings.Repeat("\xff", 3000),
	} {
		if w, h := imageSize(strings.NewReader(file)); w != 0 || h != 0 {
			t.Errorf("%s: %d by %d, want none", name, w, h)
		}
	}
}

func TestImage(t *testing.T) {
	for _, test := range []struct{ width, height, want int }{
		{200, 200, 54},         // Anthropic's own examples: 200*200,
		{1000, 1000, 1334},     // 1000*1000
		{1092, 1092, 1590},     // and 1092*1092
		{1568, 1568, 1600},     // within the edge, over the tokens
		{3136, 100, 105},       // halved
		{100, 3136, 105},       // either way round
		{8000, 8000, 1600},     // the largest the API takes
		{1, 1, 1},              // never nothing
		{1, math.MaxInt, 1},    // one line of pixels
		{0, 0, 1600},           // unreadable
		{-1, 5, 1600},          //
		{5, math.MinInt, 1600}, //
		{math.MaxInt, math.MaxInt, 1600},
	} {
		if got := Image(test.width, test.height); got != test.want {
			t.Errorf("Image(%d, %d) = %d, want %d", test.width, test.height, got, test.want)
		}
	}
}

func base64Of(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
