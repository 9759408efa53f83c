package runs

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/klauspost/compress/zstd"

	"debrief/events"
)

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, text)
	w.Close()
	return b.String()
}

func zstded(text string) string {
	w, _ := zstd.NewWriter(nil)
	return string(w.EncodeAll([]byte(text), nil))
}

// inUTF16 converts a text to UTF-16, with or without a byte order mark.
func inUTF16(text string, order binary.AppendByteOrder, mark bool) string {
	units := utf16.Encode([]rune(text))
	if mark {
		units = append([]uint16{0xfeff}, units...)
	}
	var b []byte
	for _, u := range units {
		b = order.AppendUint16(b, u)
	}
	return string(b)
}

const twoAnswers = `{"question":"wo? 😀","answer":"hier"}` + "\n" + `{"question":"wann?","answer":"jetzt"}` + "\n"

func TestCompressionsAndEncodings(t *testing.T) {
	t.Parallel()
	want, _, err := read(t, "f", twoAnswers)
	if err != nil || len(want) != 2 {
		t.Fatal(want, err)
	}
	for name, text := range map[string]string{
		"gzip":                  gzipped(twoAnswers),
		"gzip, two members":     gzipped(twoAnswers[:20]) + gzipped(twoAnswers[20:]),
		"zstd":                  zstded(twoAnswers),
		"zstd, two frames":      zstded(twoAnswers[:20]) + zstded(twoAnswers[20:]),
		"byte order mark":       "\ufeff" + twoAnswers,
		"UTF-16 LE with mark":   inUTF16(twoAnswers, binary.LittleEndian, true),
		"UTF-16 BE with mark":   inUTF16(twoAnswers, binary.BigEndian, true),
		"UTF-16 in gzip":        gzipped(inUTF16(twoAnswers, binary.BigEndian, true)),
		"CRLF":                  strings.ReplaceAll(twoAnswers, "\n", "\r\n"),
		"no last line break":    strings.TrimSpace(twoAnswers),
		"marks between files":   "\ufeff" + strings.Replace(twoAnswers, "\n", "\n\ufeff", 1),
		"no line break between": strings.Replace(twoAnswers, "}\n{", "}{", 1),
	} {
		for _, reader := range []io.Reader{strings.NewReader(text), iotest.OneByteReader(strings.NewReader(text))} {
			var got []*events.Execution
			report, err := Read(t.Context(), "book", "f", reader, func(e *events.Execution) error {
				e.Origin.Index = len(got) + 1
				got = append(got, e)
				return nil
			})
			if err != nil || report.Skipped != 0 || report.Invalid != 0 || !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %d runs, report %+v, error %v", name, len(got), report, err)
			}
		}
	}
}

func TestInvalidTextIsCounted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 100_000) // the parts of a reader end inside characters
	for text, want := range map[string]int{
		"{\"question\":\"\xff\xfe?\",\"answer\":\"\xc3\"}":                                                                        3,
		`{"question":"` + long + `","answer":"` + "\xe2\x82" + `"}`:                                                               2,
		`{"question":"` + long + `","answer":"a"}`:                                                                                0,
		inUTF16(`{"question":"q","answer":"a"}`, binary.LittleEndian, true) + "x":                                                 0, // half a character
		inUTF16(`{"question":"`, binary.LittleEndian, true) + "\x00\xd8" + inUTF16(`","answer":"a"}`, binary.LittleEndian, false): 1,
		"question,answer\nq\xff,a":                                                                                                1,
	} {
		_, report, err := read(t, "f", text)
		if report.Invalid != want || report.Runs != 1 || err != nil {
			t.Errorf("%.40q: got %d invalid bytes, %d runs, error %v; want %d", text, report.Invalid, report.Runs, err, want)
		}
	}
}

// TestRunsBeforeDamageAreKept checks that complete runs, and sessions that have not ended, are delivered before an error.
func TestRunsBeforeDamageAreKept(t *testing.T) {
	t.Parallel()
	text := claude + strings.Repeat(`{"question":"`+strings.Repeat("x", 50)+`","answer":"a"}`+"\n", 3000)
	for name, damaged := range map[string]string{
		"truncated gzip": gzipped(text)[:len(gzipped(text))-20],
		"truncated zstd": zstded(text)[:len(zstded(text))-3],
	} {
		report, err := Read(t.Context(), "book", "f", strings.NewReader(damaged), func(*events.Execution) error { return nil })
		if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "decompress") || report.Source != sourceClaudeCode || report.Runs == 0 {
			t.Errorf("%s: got %d runs, error %v", name, report.Runs, err)
		}
	}
	broken := errors.New("disk")
	report, err := Read(t.Context(), "book", "f", io.MultiReader(strings.NewReader(claude), iotest.ErrReader(broken)), func(*events.Execution) error { return nil })
	if !errors.Is(err, broken) || report.Runs != 1 {
		t.Errorf("got %d runs, error %v, want the open session and the error of the disk", report.Runs, err)
	}
}

func TestLargeWindowsAreRejected(t *testing.T) {
	t.Parallel()
	// A frame of unknown size with a window of 2^(10+18) bytes, and one raw block, which is the last (RFC 8878). An encoder would take seconds
	// to prepare such a window.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 18 << 3}
	header := len(twoAnswers)<<3 | 1
	frame = append(append(frame, byte(header), byte(header>>8), byte(header>>16)), twoAnswers...)
	if _, _, err := read(t, "f", string(frame)); err == nil || !strings.Contains(err.Error(), "window") {
		t.Errorf("got %v, want an error on the window", err)
	}
}
