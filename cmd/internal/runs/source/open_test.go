package source

import (
	"bytes"
	"compress/gzip"
	"io"
	"testing"

	"github.com/klauspost/compress/zstd"
)

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
