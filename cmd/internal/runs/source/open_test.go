package source

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestInspectHeader reads logs of Inspect with a header, a journal, and a header that is too large.
func TestInspectHeader(t *testing.T) {
	t.Parallel()
	large := `{"eval":"` + strings.Repeat("x", maxInspectHeader) + `"}`
	for _, test := range []struct{ file, header, want, wantErr string }{
		{file: "header.json", header: `{"eval":1}`, want: `{"eval":1,"samples":[{}]}`},
		{file: "_journal/start.json", header: `{"eval":1}`, want: `{"eval":1,"samples":[{}]}`},
		{file: "header.json", header: large, wantErr: "decompress zip: header.json: must be at most 4194304 bytes"},
		{file: "other.json", header: `{}`, wantErr: "decompress zip: want a log of Inspect with samples"},
	} {
		var zipped bytes.Buffer
		w := zip.NewWriter(&zipped)
		for name, content := range map[string]string{test.file: test.header, "samples/1.json": "{}"} {
			f, _ := w.Create(name)
			io.WriteString(f, content)
		}
		w.Close()
		text, closeText, err := Open(t.Context(), &zipped)
		if err != nil {
			if err.Error() != test.wantErr {
				t.Errorf("%s: got error %v, want %q", test.file, err, test.wantErr)
			}
			continue
		}
		got, err := io.ReadAll(text)
		closeText()
		if err != nil || string(got) != test.want || test.wantErr != "" {
			t.Errorf("%s: got %.40q, %v, want %q or the error %q", test.file, got, err, test.want, test.wantErr)
		}
	}
}

func FuzzPlainText(f *testing.F) {
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	io.WriteString(w, "x")
	w.Close()
	f.Add(zipped.Bytes())
	z, _ := zstd.NewWriter(nil)
	f.Add(z.EncodeAll([]byte("x"), nil))
	f.Add([]byte("\xfe\xff\x00{\x00\xe9"))
	f.Add([]byte("\xff\xfe\x00\xd8\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, end, err := Open(t.Context(), bytes.NewReader(data))
		if err != nil {
			return
		}
		defer end()
		if n, err := io.Copy(io.Discard, io.LimitReader(r, 1<<24)); n == 0 && err == nil && len(data) > 100 {
			t.Errorf("got no text of %d bytes", len(data))
		}
	})
}
