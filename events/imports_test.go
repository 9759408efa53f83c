package events

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestMsgpackIsOnlyImportedHere ensures that guard runs before every decode. It reads every file of the module,
// with any build tags.
func TestMsgpackIsOnlyImportedHere(t *testing.T) {
	t.Parallel()
	const root = ".."
	here := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, imp := range file.Imports {
			name, err := strconv.Unquote(imp.Path.Value)
			if err != nil {
				return err
			}
			if !strings.HasPrefix(name, "github.com/vmihailenco/msgpack") {
				continue
			}
			if dir := filepath.Dir(path); dir != filepath.Join(root, "events") && dir != filepath.Join(root, "integration", "auditor") {
				t.Errorf("%s imports %s: use events.Marshal and events.Unmarshal", path, name)
			}
			here++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if here == 0 {
		t.Error("found no import of msgpack, not even in this package: the test does not work")
	}
}
