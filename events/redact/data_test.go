package redact

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// secretsInRecordings is the number of secrets in the recordings of other projects, which are not part of the repository.
// A manual review found none. The recordings contain flights, payments, code, a decrypted cipher and many hashes.
const secretsInRecordings = 0

// TestRecordings scans published runs of other agents, both the files and the texts in them.
func TestRecordings(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	files, size, found := 0, 0, 0
	look := func(name, text string) {
		size += len(text)
		if got := Text(text); got != text {
			for _, at := range aMark.FindAllStringIndex(got, -1) {
				found++
				t.Logf("%s: %q", name, got[max(0, at[0]-60):min(len(got), at[1]+20)])
			}
		}
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		look(d.Name(), string(raw))
		dec := json.NewDecoder(bytes.NewReader(raw))
		for dec.More() {
			var v any
			if dec.Decode(&v) != nil {
				break
			}
			texts(v, func(s string) { look(d.Name()+" within", s) })
		}
		return nil
	})
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	t.Logf("%d files, %d bytes, %d redacted", files, size, found)
	if found != secretsInRecordings {
		t.Errorf("got %d redacted, want %d: look at them", found, secretsInRecordings)
	}
}

func texts(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
		if strings.HasPrefix(v, "{") { // arguments of tools
			var inner any
			if json.Unmarshal([]byte(v), &inner) == nil {
				texts(inner, f)
			}
		}
	case []any:
		for _, e := range v {
			texts(e, f)
		}
	case map[string]any:
		for _, e := range v {
			texts(e, f)
		}
	}
}
