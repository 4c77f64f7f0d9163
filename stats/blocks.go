package stats

import (
	"bufio"
	"encoding/binary"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// A compressed day has an index beside it, so that few of its blocks need be read. It is a help, never the truth: one that
// is missing, cut, corrupt or another file's is not used.
//
//	magic, then for each block: offset of its text, offset in the compressed file, first and last time (Unix ms), each 8
//	bytes, little endian; length of its Bloom filter (4 bytes); the filter.
//	At the end: size of the compressed file, its last 8 bytes, size of the text, number of blocks, each 8 bytes; CRC-32 of all.
const (
	indexMagic    = "coding-proxy journal index 1\n"
	indexEntry    = 4*8 + 4
	indexFooter   = 4*8 + 4
	bitsPerTerm   = 12 // with 7 probes three of 1000 blocks are read for nothing
	bloomProbes   = 7
	maxBloom      = 1 << 20
	blockText     = 256 << 10 // a member is cut at the first line end after as much text, a line too long to be ours anywhere
	maxBlockTerms = maxBloom * 8 / bitsPerTerm
)

// The kinds of terms that a Bloom filter has.
const (
	termTrace   = 't'
	termCaller  = 'c'
	termModel   = 'm'
	termKey     = 'k'
	termTier    = 'r'
	termOutcome = 'o'
)

// term hashes a value of a kind; it is in files, so it must never change (FNV-1a and the finalizer of MurmurHash3).
func term(kind byte, text string) uint64 {
	const prime = 1099511628211
	h := (uint64(14695981039346656037) ^ uint64(kind)) * prime
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// terms calls each for the record's terms.
func (r *Record) terms(each func(uint64)) {
	add := func(kind byte, text string) {
		if text != "" {
			each(term(kind, text))
		}
	}
	add(termTrace, r.Trace)
	add(termCaller, r.Caller)
	add(termModel, r.Requested)
	add(termModel, r.Resolved)
	add(termModel, r.UpstreamModel)
	add(termKey, r.Key)
	add(termTier, r.Tier)
	add(termOutcome, r.Outcome)
	for i := range r.Attempts {
		add(termKey, r.Attempts[i].Key)
		add(termTier, r.Attempts[i].Tier)
	}
}

func bloomProbe(bloom []byte, t uint64, i int) (at uint64, bit byte) {
	n := (t + uint64(i)*(t>>32|1)) % (uint64(len(bloom)) * 8)
	return n / 8, 1 << (n % 8)
}

func bloomAdd(bloom []byte, t uint64) {
	for i := range bloomProbes {
		at, bit := bloomProbe(bloom, t, i)
		bloom[at] |= bit
	}
}

func bloomHas(bloom []byte, t uint64) bool {
	if len(bloom) == 0 {
		return false
	}
	for i := range bloomProbes {
		if at, bit := bloomProbe(bloom, t, i); bloom[at]&bit == 0 {
			return false
		}
	}
	return true
}

// block is a part of a compressed day that is compressed by itself and begins with a line: one member, or the several that
// a line too long to be ours is cut into.
type block struct {
	start, end  int64 // of its text
	packed      int64 // offset in the compressed file
	first, last int64 // times of its records, Unix ms
}

// indexWriter writes the index of a day while the day is compressed.
type indexWriter struct {
	out    io.Writer
	sum    hash.Hash32
	blocks int64
	block  block
	terms  map[uint64]struct{}
	buf    []byte
	err    error
}

func newIndexWriter(out io.Writer) *indexWriter {
	w := &indexWriter{sum: crc32.NewIEEE(), terms: map[uint64]struct{}{}}
	w.out = io.MultiWriter(out, w.sum)
	w.write([]byte(indexMagic))
	return w
}

func (w *indexWriter) write(data []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(data)
	}
}

// begin starts a block.
func (w *indexWriter) begin(start, packed int64) {
	clear(w.terms)
	w.block = block{start: start, packed: packed, first: math.MaxInt64, last: math.MinInt64}
}

func (w *indexWriter) add(r *Record) {
	ts := r.TS.UnixMilli()
	w.block.first, w.block.last = min(w.block.first, ts), max(w.block.last, ts)
	r.terms(func(t uint64) { w.terms[t] = struct{}{} })
}

// end finishes a block.
func (w *indexWriter) end() {
	bloom := make([]byte, min(len(w.terms), maxBlockTerms)*bitsPerTerm/8+1)
	for t := range w.terms {
		bloomAdd(bloom, t)
	}
	b := w.buf[:0]
	for _, n := range [...]int64{w.block.start, w.block.packed, w.block.first, w.block.last} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(bloom)))
	w.buf = append(b, bloom...)
	w.write(w.buf)
	w.blocks++
}

// finish writes the end; tail are the last bytes of the compressed file.
func (w *indexWriter) finish(size int64, tail [8]byte, text int64) error {
	b := binary.LittleEndian.AppendUint64(w.buf[:0], uint64(size))
	b = append(b, tail[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(text))
	w.write(binary.LittleEndian.AppendUint64(b, uint64(w.blocks)))
	w.write(w.sum.Sum(nil))
	return w.err
}

// readIndex returns the blocks of a compressed file that may have what the query asks for. ok is false when the index
// cannot be used.
func readIndex(path string, packed io.ReaderAt, size int64, q *query) (blocks []block, ok bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, false
	}
	return decodeIndex(f, info.Size(), packed, size, q)
}

func decodeIndex(f io.ReaderAt, length int64, packed io.ReaderAt, size int64, q *query) (blocks []block, ok bool) {
	body := length - int64(len(indexMagic)) - indexFooter
	var footer [indexFooter]byte
	if body < 0 || !readAt(f, footer[:], length-indexFooter) {
		return nil, false
	}
	number := func(at int) int64 { return int64(binary.LittleEndian.Uint64(footer[at:])) }
	var tail [8]byte
	if number(0) != size || size < 8 || !readAt(packed, tail[:], size-8) || string(tail[:]) != string(footer[8:16]) {
		return nil, false
	}
	sum := crc32.NewIEEE()
	in := bufio.NewReader(io.TeeReader(io.NewSectionReader(f, 0, length-4), sum))
	magic := make([]byte, len(indexMagic))
	if _, err := io.ReadFull(in, magic); err != nil || string(magic) != indexMagic {
		return nil, false
	}
	blocks, ok = decodeBlocks(in, body, block{start: number(16), packed: size}, number(24), q)
	if _, err := io.Copy(io.Discard, in); err != nil {
		return nil, false
	}
	return blocks, ok && string(sum.Sum(nil)) == string(footer[32:])
}

// decodeBlocks reads the entries, which must be in order and end before the end.
func decodeBlocks(in io.Reader, body int64, end block, count int64, q *query) (blocks []block, ok bool) {
	var head [indexEntry]byte
	var bloom []byte
	var last block
	wanted := false
	done := func(next block) bool { // the end of a block is where the next begins
		last.end = next.start
		if wanted {
			blocks = append(blocks, last)
		}
		return next.start > last.start && next.packed > last.packed
	}
	for n := range count {
		if body -= indexEntry; body < 0 {
			return nil, false
		}
		if _, err := io.ReadFull(in, head[:]); err != nil {
			return nil, false
		}
		number := func(at int) int64 { return int64(binary.LittleEndian.Uint64(head[at:])) }
		b := block{start: number(0), packed: number(8), first: number(16), last: number(24)}
		length := int64(binary.LittleEndian.Uint32(head[32:]))
		if body -= length; body < 0 || length > maxBloom || n == 0 && (b.start != 0 || b.packed != 0) || n > 0 && !done(b) {
			return nil, false
		}
		bloom = slices.Grow(bloom[:0], int(length))[:length]
		if _, err := io.ReadFull(in, bloom); err != nil {
			return nil, false
		}
		last, wanted = b, q.mayHave(&b, bloom)
	}
	return blocks, body == 0 && count > 0 && done(end)
}

func readAt(f io.ReaderAt, b []byte, at int64) bool {
	n, err := f.ReadAt(b, at)
	return n == len(b) && (err == nil || err == io.EOF)
}
