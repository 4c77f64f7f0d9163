package stats

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
)

const (
	// memberMagic begins each member of our own gzip files: RFC 1952's header with one extra field "CP", in which the offset
	// of the member's text follows.
	memberMagic = "\x1f\x8b\x08\x04\x00\x00\x00\x00\x00\xff\x0c\x00CP\x08\x00"
	// mostMember is more text than a member of ours has.
	mostMember = blockText + maxLine
	// mostText is more text than a compressed byte can stand for (deflate reaches 1032).
	mostText = 1100
)

func memberExtra(offset int64) []byte {
	return binary.LittleEndian.AppendUint64([]byte(memberMagic[12:]), uint64(offset))
}

// members reads the text of a gzip file. Where members cannot be read it goes on with the next that can; blanks stand for
// the text that is lost, so that offsets stay right.
type members struct {
	src     io.ReaderAt
	size    int64
	in      *bufio.Reader
	at      int64 // offset in the file where in began to read…
	section *io.SectionReader
	gz      gzip.Reader
	open    bool  // a member is being read…
	ours    bool  // …and it is one of ours
	begin   int64 // offset of its text
	start   int64 // offset in the file of the present member
	text    int64 // offset of the next byte of text
	blanks  int64 // blanks that come before the member's text
	drift   int64 // how much more text was handed out than there was
	ended   bool  // the last byte handed out was a line end
	lost    bool  // the last member could not be read to its end
	corrupt int   // members that could not be read
}

func newMembers() *members { return &members{in: bufio.NewReaderSize(nil, 32<<10)} }

// reset begins with the member at an offset in the file, whose text has the offset text.
func (m *members) reset(src io.ReaderAt, size, packed, text int64) {
	m.src, m.size, m.text = src, size, text
	m.open, m.blanks, m.drift, m.ended, m.lost, m.corrupt = false, 0, 0, true, false, 0
	m.seek(packed)
	m.start = packed
}

func (m *members) seek(at int64) {
	m.at, m.section = at, io.NewSectionReader(m.src, at, max(0, m.size-at))
	m.in.Reset(m.section)
}

// position is the offset in the file of the next byte.
func (m *members) position() int64 {
	n, _ := m.section.Seek(0, io.SeekCurrent) // cannot fail
	return m.at + n - int64(m.in.Buffered())
}

func (m *members) Read(p []byte) (int, error) {
	for {
		if m.blanks > 0 && len(p) > 0 {
			return m.blank(p), nil
		}
		if !m.open {
			if err := m.next(); err != nil {
				return 0, err
			}
			continue
		}
		n, err := m.gz.Read(p)
		m.text += int64(n)
		if m.ours && m.text-m.begin > mostMember { // damage
			err = gzip.ErrChecksum
		}
		m.close(err)
		if n > 0 {
			m.ended = p[n-1] == '\n'
			return n, nil
		}
	}
}

// close ends the member if err is not nil.
func (m *members) close(err error) {
	if err != nil {
		m.open = false
	}
	if err != nil && err != io.EOF {
		m.lost = true
		m.corrupt++
	}
}

// finish reads the check sum of a member that was read to its end.
func (m *members) finish() {
	if m.open {
		var more [1]byte
		n, err := m.gz.Read(more[:])
		if n > 0 {
			err = gzip.ErrChecksum
		}
		m.close(err)
	}
}

// blank hands out blanks; a line end before and after them keeps them apart from the lines around.
func (m *members) blank(p []byte) int {
	n := int(min(m.blanks, int64(len(p))))
	for i := range n {
		p[i] = ' '
	}
	if !m.ended {
		p[0] = '\n'
	}
	m.blanks -= int64(n)
	m.text += int64(n)
	if m.blanks == 0 {
		p[n-1] = '\n'
	}
	m.ended = true
	return n
}

// next opens the next member, after one that was lost the next that can be found.
func (m *members) next() error {
	for {
		before := m.start
		if m.lost {
			if err := m.find(before + 1); err != nil {
				return err
			}
		}
		m.start = m.position()
		if _, err := m.in.Peek(1); err != nil {
			return err
		}
		err := m.gz.Reset(m.in)
		if err == nil {
			m.gz.Multistream(false)
			if m.fits(before) {
				m.open, m.lost = true, false
				return nil
			}
		}
		m.lost = true
		m.corrupt++
	}
}

// fits reports whether the member's text can come next, as its offset says; members of others say none.
func (m *members) fits(before int64) bool {
	offset := m.text
	m.ours = false
	if e := m.gz.Extra; len(e) == len(memberMagic)-12+8 && string(e[:4]) == memberMagic[12:] {
		offset, m.ours = int64(binary.LittleEndian.Uint64(e[4:])), true
	}
	gap, least := offset+m.drift-m.text, int64(0)
	if !m.lost {
		if gap != 0 {
			return false
		}
	} else if gap < -mostMember || gap > (m.start-before)*mostText {
		return false
	} else if !m.ended { // the lost member's last line ends here
		least = 1
	}
	if gap < least { // damage can also lengthen a text
		m.drift += least - gap
		gap = least
	}
	m.blanks, m.begin = gap, m.text+gap
	return true
}

// find goes to the next member of ours from an offset on.
func (m *members) find(from int64) error {
	m.seek(from)
	for {
		window, err := m.in.Peek(m.in.Size())
		if i := bytes.Index(window, []byte(memberMagic)); i >= 0 {
			_, err := m.in.Discard(i)
			return err
		}
		if err != nil {
			return err
		}
		if _, err := m.in.Discard(len(window) - len(memberMagic) + 1); err != nil {
			return err
		}
	}
}
