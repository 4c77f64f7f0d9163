package estimate

import (
	"bytes"
	"encoding/binary"
	"io"
)

// imageSize reads the size in pixels from the header of a PNG, JPEG, GIF or WebP file, and no further than needed; the
// pixels are never decoded. It is 0 by 0 for anything else.
// The parsers are our own because image.DecodeConfig knows only the formats that some package's init has registered,
// and the standard library has none for WebP.
func imageSize(r io.Reader) (width, height int) {
	head := make([]byte, 30) // the longest fixed header, WebP's
	n, _ := io.ReadFull(r, head)
	head = head[:n]
	switch {
	case has(head, 0, "\x89PNG\r\n\x1a\n") && has(head, 12, "IHDR") && n >= 24:
		return size(binary.BigEndian.Uint32(head[16:]), binary.BigEndian.Uint32(head[20:]))
	case (has(head, 0, "GIF87a") || has(head, 0, "GIF89a")) && n >= 10:
		return size(littleEndian(head[6:8]), littleEndian(head[8:10]))
	case has(head, 0, "RIFF") && has(head, 8, "WEBP") && n == 30:
		return webpSize(head)
	case has(head, 0, "\xff\xd8"):
		return jpegSize(io.MultiReader(bytes.NewReader(head[2:]), r))
	default:
		return 0, 0
	}
}

// webpSize reads the first chunk of a WebP file: lossy, lossless or extended (RFC 9649, section 2).
func webpSize(head []byte) (width, height int) {
	switch {
	case has(head, 12, "VP8 ") && has(head, 23, "\x9d\x01\x2a"):
		// The two bits above the 14 of a size are a scale for display.
		return size(littleEndian(head[26:28])&0x3fff, littleEndian(head[28:30])&0x3fff)
	case has(head, 12, "VP8L") && head[20] == 0x2f:
		bits := littleEndian(head[21:25])
		return size(bits&0x3fff+1, bits>>14&0x3fff+1)
	case has(head, 12, "VP8X"):
		return size(littleEndian(head[24:27])+1, littleEndian(head[27:30])+1)
	default:
		return 0, 0
	}
}

// jpegSize looks for the frame header behind the metadata segments, which may hold a whole thumbnail.
func jpegSize(r io.Reader) (width, height int) {
	for {
		marker, ok := jpegMarker(r)
		if !ok {
			return 0, 0
		}
		var head [7]byte // length of the segment, itself included; in a frame header then precision, height, width
		if _, err := io.ReadFull(r, head[:2]); err != nil {
			return 0, 0
		}
		if isFrame(marker) {
			if _, err := io.ReadFull(r, head[2:]); err != nil {
				return 0, 0
			}
			return size(uint32(binary.BigEndian.Uint16(head[5:])), uint32(binary.BigEndian.Uint16(head[3:])))
		}
		length := int64(binary.BigEndian.Uint16(head[:2]))
		if _, err := io.CopyN(io.Discard, r, length-2); length < 2 || err != nil {
			return 0, 0
		}
	}
}

// jpegMarker reads the next marker: 0xff, as often as it is repeated as filler, and the marker's own byte. It is not ok
// at the end of the data, where no marker is, and where the scan (0xda) or the end (0xd9) comes without a frame header.
func jpegMarker(r io.Reader) (marker byte, ok bool) {
	var b [1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil || b[0] != 0xff {
		return 0, false
	}
	for b[0] == 0xff {
		if _, err := io.ReadFull(r, b[:]); err != nil {
			return 0, false
		}
	}
	return b[0], b[0] != 0xda && b[0] != 0xd9
}

// isFrame tells the frame headers, C0 to CF, from the three tables among them: DHT, JPG and DAC.
func isFrame(marker byte) bool {
	return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc
}

// size is 0 by 0 for a size no image can have: nothing, or more than an int32 holds.
func size(width, height uint32) (int, int) {
	if width == 0 || height == 0 || width > 1<<31-1 || height > 1<<31-1 {
		return 0, 0
	}
	return int(width), int(height)
}

func has(b []byte, at int, s string) bool {
	return len(b) >= at+len(s) && string(b[at:at+len(s)]) == s
}

// littleEndian reads a number of two, three or four bytes.
func littleEndian(b []byte) uint32 {
	var n uint32
	for i, x := range b {
		n |= uint32(x) << (8 * i)
	}
	return n
}
