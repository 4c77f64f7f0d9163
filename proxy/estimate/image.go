package estimate

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"strings"
)

// Anthropic's vision page: an image costs width*height/750 tokens; one of more than 1568 pixels on the long edge or
// about 1600 tokens is scaled down first.
const (
	pixelsPerToken = 750
	maxEdge        = 1568
	maxImage       = 1600
)

// Image estimates the tokens of an image of width by height pixels: 1 to 1600. The size of an image that could not be
// read is 0 by 0, and it counts as the largest.
func Image(width, height int) int {
	if width <= 0 || height <= 0 {
		return maxImage
	}
	// Floating point, as a header may declare what no integer product holds.
	w, h := float64(width), float64(height)
	if long := max(w, h); long > maxEdge {
		w, h = w*maxEdge/long, h*maxEdge/long
	}
	return min(maxImage, int(math.Ceil(w*h/pixelsPerToken)))
}

func (c *counter) image(raw json.RawMessage, at string) error {
	var b struct {
		Source source `json:"source"`
	}
	if err := decode(raw, &b, at, "an object"); err != nil {
		return err
	}
	// No data, as with a URL or a file id, reads as an image of unknown size.
	c.tokens += Image(imageSize(base64.NewDecoder(base64.StdEncoding, strings.NewReader(b.Source.Data))))
	return nil
}
