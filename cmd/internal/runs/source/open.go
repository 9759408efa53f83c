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
	"io/fs"
	"os"
	"strings"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/encoding/unicode"
	"golang.org/x/text/transform"
)

// maxWindow is the maximum size of the window of a zstd file in bytes. It bounds the memory of the decoder. A file that was
// compressed with --long=27 or more is rejected.
const maxWindow = 64 << 20

// Sizes in bytes.
const (
	bufferSize       = 64 << 10
	maxInspectHeader = 4 << 20
)

// Open returns a reader of the UTF-8 text of r. It decompresses gzip, zstd and the zip files of Inspect, which it detects by their first
// bytes. It converts UTF-16 with a byte order mark, and removes the mark. The reader stops when ctx ends. The caller must call closeText
// after the last read.
func Open(ctx context.Context, r io.Reader) (text io.Reader, closeText func(), err error) {
	in, closeText, err := decompress(bufio.NewReaderSize(&contextReader{ctx, r}, bufferSize))
	if err != nil {
		return nil, nil, err
	}
	return transform.NewReader(in, unicode.BOMOverride(transform.Nop)), closeText, nil
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
func openInspect(in io.Reader) (log io.Reader, closeLog func(), err error) {
	file, err := os.CreateTemp("", "debrief-*.eval")
	if err != nil {
		return nil, nil, err
	}
	closeLog = func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }
	size, err := io.Copy(file, in)
	var archive *zip.Reader
	if err == nil {
		archive, err = zip.NewReader(file, size)
	}
	if err == nil {
		archive.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor(zstd.WithDecoderMaxWindow(maxWindow)))
		log, err = inspectLog(archive)
	}
	if err != nil {
		closeLog()
		return nil, nil, err
	}
	return log, closeLog, nil
}

// inspectLog returns the JSON of a log: its header with the list of its samples, as in a log without compression. A log that was not finished
// has a journal in place of the header.
func inspectLog(archive *zip.Reader) (io.Reader, error) {
	header, err := readHeader(archive, "header.json")
	if errors.Is(err, fs.ErrNotExist) {
		header, err = readHeader(archive, "_journal/start.json")
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	header = bytes.TrimSuffix(bytes.TrimSpace(header), []byte("}")) // the samples become its last member
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

// readHeader reads a file of at most maxInspectHeader bytes.
func readHeader(archive *zip.Reader, name string) ([]byte, error) {
	file, err := archive.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	header, err := io.ReadAll(io.LimitReader(file, maxInspectHeader+1))
	if len(header) > maxInspectHeader {
		err = fmt.Errorf("%s: must be at most %d bytes", name, maxInspectHeader)
	}
	return header, err
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

// contextReader reads until a context ends, and then returns the error of the context.
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

// decompressor reads from a decompressing reader, and names the compression in errors.
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
