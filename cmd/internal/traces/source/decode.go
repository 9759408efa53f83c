package source

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
)

// maxWindow is the maximum size of the window of a zstd file in bytes. It bounds the memory of the decoder. A file that was
// compressed with --long=27 or more is rejected.
const maxWindow = 64 << 20

// Open returns a reader of the UTF-8 text of r. It decompresses gzip and zstd and converts UTF-16; it detects them by
// their first bytes. It removes a byte order mark, and counts the invalid bytes in omitted. The reader stops when ctx ends.
// The caller must call the returned function at the end.
func Open(ctx context.Context, r io.Reader, omitted Omissions) (io.Reader, func(), error) {
	in := bufio.NewReaderSize(&contextReader{ctx, r}, 64<<10)
	closeReader := func() {}
	switch magic, _ := in.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, fmt.Errorf("decompress gzip: %w", err)
		}
		in = bufio.NewReaderSize(&decompressor{"gzip", z}, 64<<10)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err != nil {
			return nil, nil, fmt.Errorf("decompress zstd: %w", err)
		}
		closeReader = z.Close
		in = bufio.NewReaderSize(&decompressor{"zstd", z}, 64<<10)
	}
	start, err := in.Peek(4)
	if err != nil && err != io.EOF {
		closeReader()
		return nil, nil, err
	}
	if order := utf16Order(start); order != nil {
		in = bufio.NewReaderSize(&utf16Reader{r: in, order: order, omitted: omitted}, 64<<10)
	}
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(len(mark))
	}
	return &utf8Reader{r: in, omitted: omitted}, closeReader, nil
}

// contextReader ends reading with the error of a context.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// decompressor names the compression in errors.
type decompressor struct {
	name string
	r    io.Reader
}

func (d *decompressor) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("decompress %s: %w", d.name, err)
	}
	return n, err
}

// utf16Order returns the byte order of a UTF-16 text, or nil for another text. A text without a byte order mark is UTF-16 if
// its first character is ASCII: JSON and CSV contain no NUL characters.
func utf16Order(start []byte) binary.ByteOrder {
	switch {
	case len(start) < 2:
		return nil
	case start[0] == 0xff && start[1] == 0xfe, start[0] != 0 && start[1] == 0 && (len(start) < 4 || start[3] == 0):
		return binary.LittleEndian
	case start[0] == 0xfe && start[1] == 0xff, start[0] == 0 && start[1] != 0 && (len(start) < 4 || start[2] == 0):
		return binary.BigEndian
	}
	return nil
}

// utf16Reader converts UTF-16 to UTF-8. It replaces unpaired surrogates by U+FFFD and counts them.
type utf16Reader struct {
	r       *bufio.Reader
	order   binary.ByteOrder
	omitted Omissions
	text    []byte // converted, not read yet
	buf     []byte // reused
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	if len(u.text) == 0 {
		if err := u.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.text)
	u.text = u.text[n:]
	return n, nil
}

// fill converts the next characters.
func (u *utf16Reader) fill() error {
	const most = 8 << 10 // characters
	u.buf = u.buf[:0]
	for range most {
		c, err := u.unit()
		if err == io.EOF && len(u.buf) > 0 {
			break
		}
		if err != nil {
			return err
		}
		r := rune(c)
		if utf16.IsSurrogate(r) {
			r = u.pair(r)
		}
		u.buf = utf8.AppendRune(u.buf, r)
	}
	u.text = u.buf
	return nil
}

// unit reads one 16-bit unit.
func (u *utf16Reader) unit() (uint16, error) {
	b, err := u.r.Peek(2)
	if len(b) < 2 {
		if len(b) == 1 && err == io.EOF { // half a unit
			u.omitted.Add(InvalidText, 1)
			_, _ = u.r.Discard(1)
		}
		return 0, err
	}
	c := u.order.Uint16(b)
	_, err = u.r.Discard(2)
	return c, err
}

// pair returns the character of a surrogate and the next unit, or U+FFFD if it has no partner.
func (u *utf16Reader) pair(first rune) rune {
	if b, _ := u.r.Peek(2); len(b) == 2 {
		if r := utf16.DecodeRune(first, rune(u.order.Uint16(b))); r != utf8.RuneError {
			_, _ = u.r.Discard(2)
			return r
		}
	}
	u.omitted.Add(InvalidText, 2)
	return utf8.RuneError
}

// utf8Reader counts invalid bytes. It does not change them: the JSON decoder replaces them.
type utf8Reader struct {
	r       io.Reader
	omitted Omissions
	rest    []byte // beginning of a character at the end of the last part
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	part := p[:n]
	if len(u.rest) > 0 {
		part = append(u.rest, part...)
		u.rest = nil
	}
	if !utf8.Valid(part) {
		u.count(part, err)
	}
	return n, err
}

// count counts the invalid bytes of a part, except the beginning of a character at its end.
func (u *utf8Reader) count(part []byte, err error) {
	invalid := 0
	for len(part) > 0 {
		r, size := utf8.DecodeRune(part)
		if r == utf8.RuneError && size == 1 {
			if err == nil && !utf8.FullRune(part) {
				u.rest = bytes.Clone(part)
				break
			}
			invalid++
		}
		part = part[size:]
	}
	u.omitted.Add(InvalidText, invalid)
}
