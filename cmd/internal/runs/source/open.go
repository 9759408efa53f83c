package source

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
)

// maxWindow is the maximum size of the window of a zstd file in bytes. It bounds the memory of the decoder. A file that was
// compressed with --long=27 or more is rejected.
const maxWindow = 64 << 20

const (
	bufferSize       = 64 << 10
	maxInspectHeader = 4 << 20 // bytes
)

// Open returns a reader of the UTF-8 text of r. It decompresses gzip, zstd and the zip files of Inspect, and converts UTF-16; it
// detects them by their first bytes. It removes a byte order mark. The reader counts invalid bytes in omitted, and stops when
// ctx ends. The caller must call closeText after the last read.
func Open(ctx context.Context, r io.Reader, omitted Omissions) (text io.Reader, closeText func(), err error) {
	in, closeText, err := decompress(bufio.NewReaderSize(&contextReader{ctx, r}, bufferSize))
	if err != nil {
		return nil, nil, err
	}
	start, err := in.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		closeText()
		return nil, nil, err
	}
	inUTF16 := false
	if order, ok := utf16Order(start); ok {
		inUTF16 = true
		in = bufio.NewReaderSize(unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in), bufferSize)
	}
	if mark, _ := in.Peek(3); string(mark) == "\xef\xbb\xbf" {
		_, _ = in.Discard(len(mark))
	}
	return &utf8Reader{r: in, omitted: omitted, replaced: inUTF16}, closeText, nil
}

// decompress returns the decompressed bytes, and a function that releases the reader.
func decompress(in *bufio.Reader) (*bufio.Reader, func(), error) {
	var out io.Reader
	var err error
	name, closeOut := "", func() {}
	switch magic, _ := in.Peek(4); {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		name = "gzip"
		out, err = gzip.NewReader(in)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var z *zstd.Decoder
		name = "zstd"
		z, err = zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			out, closeOut = z, z.Close
		}
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		name = "zip"
		out, closeOut, err = openInspect(in)
	default:
		return in, closeOut, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("decompress %s: %w", name, err)
	}
	return bufio.NewReaderSize(&decompressor{name, out}, bufferSize), closeOut, nil
}

// openInspect returns the JSON of a log that Inspect wrote as a zip file, and a function that removes its temporary file. The file is
// necessary because a zip file is read from its end.
func openInspect(in io.Reader) (io.Reader, func(), error) {
	file, err := os.CreateTemp("", "debrief-*.eval")
	if err != nil {
		return nil, nil, err
	}
	closeFile := func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }
	log, err := copyInspect(file, in)
	if err != nil {
		closeFile()
		return nil, nil, err
	}
	return log, closeFile, nil
}

// copyInspect copies a zip file of Inspect and returns the JSON of its log.
func copyInspect(file *os.File, in io.Reader) (io.Reader, error) {
	size, err := io.Copy(file, in)
	if err != nil {
		return nil, err
	}
	archive, err := zip.NewReader(file, size)
	if err != nil {
		return nil, err
	}
	archive.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(zstd.WithDecoderMaxWindow(maxWindow)))
	return inspectLog(archive)
}

// inspectLog returns the JSON of a log: its header with the list of its samples, as in a log without compression.
func inspectLog(archive *zip.Reader) (io.Reader, error) {
	var header []byte
	for _, name := range []string{"header.json", "_journal/start.json"} { // the journal of a log that was not finished
		file, err := archive.Open(name)
		if err != nil {
			continue
		}
		if header, err = io.ReadAll(io.LimitReader(file, maxInspectHeader)); err != nil {
			return nil, err
		}
		break
	}
	header = bytes.TrimSuffix(bytes.TrimSpace(header), []byte("}"))
	parts := []io.Reader{bytes.NewReader(header), strings.NewReader(`,"samples":[`)}
	samples := 0
	for _, file := range archive.File {
		if !strings.HasPrefix(file.Name, "samples/") || !strings.HasSuffix(file.Name, ".json") {
			continue
		}
		samples++
		if samples > 1 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, &zipReader{file: file})
	}
	if len(header) == 0 || samples == 0 {
		return nil, errors.New("want a log of Inspect with samples")
	}
	return io.MultiReader(append(parts, strings.NewReader("]}"))...), nil
}

// zipReader reads a file of an archive. It opens the file at the first read.
type zipReader struct {
	file *zip.File
	r    io.ReadCloser
}

func (z *zipReader) Read(p []byte) (n int, err error) {
	if z.r == nil {
		if z.r, err = z.file.Open(); err != nil {
			return 0, fmt.Errorf("%s: %w", z.file.Name, err)
		}
	}
	if n, err = z.r.Read(p); err != nil {
		_ = z.r.Close()
	}
	return n, err
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
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("decompress %s: %w", d.name, err)
	}
	return n, err
}

// utf16Order returns the byte order of a UTF-16 text, and false for another text. JSON and CSV begin with an ASCII character and contain
// no NUL characters. So a text without a byte order mark is UTF-16 if each of its first characters has one byte that is zero.
func utf16Order(start []byte) (order unicode.Endianness, ok bool) {
	if len(start) < 2 {
		return order, false
	}
	second := []byte{0, 0} // a text of one character
	if len(start) >= 4 {
		second = start[2:4]
	}
	switch {
	case bytes.HasPrefix(start, []byte{0xff, 0xfe}):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(start, []byte{0xfe, 0xff}):
		return unicode.BigEndian, true
	case start[0] != 0 && start[1] == 0 && second[1] == 0:
		return unicode.LittleEndian, true
	case start[0] == 0 && start[1] != 0 && second[0] == 0:
		return unicode.BigEndian, true
	}
	return order, false
}

// utf8Reader counts invalid bytes. It does not change them: the JSON decoder replaces them.
type utf8Reader struct {
	r        io.Reader
	omitted  Omissions
	replaced bool   // r has already replaced invalid bytes by U+FFFD
	rest     []byte // the bytes of an incomplete character at the end of the last part
}

func (u *utf8Reader) Read(p []byte) (int, error) {
	n, err := u.r.Read(p)
	part := p[:n]
	if len(u.rest) > 0 {
		part = append(u.rest, part...)
		u.rest = nil
	}
	if u.replaced || !utf8.Valid(part) {
		u.count(part, err)
	}
	return n, err
}

// count counts the invalid bytes of a part. An incomplete character at its end counts with the next part, unless readErr says that there
// is none.
func (u *utf8Reader) count(part []byte, readErr error) {
	invalid := 0
	for len(part) > 0 {
		if readErr == nil && !utf8.FullRune(part) {
			u.rest = bytes.Clone(part)
			break
		}
		r, size := utf8.DecodeRune(part)
		isInvalid := r == utf8.RuneError && size == 1
		isReplaced := r == utf8.RuneError && u.replaced
		if isInvalid || isReplaced {
			invalid++
		}
		part = part[size:]
	}
	u.omitted.Add(InvalidText, invalid)
}
