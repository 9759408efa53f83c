package worlds

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"debrief/cmd/internal/worlds/world"
)

// TestWorldsImportNoProduct checks that a world cannot share code with the product that it measures.
func TestWorldsImportNoProduct(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			name, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			first, _, _ := strings.Cut(name, "/")
			isModule := strings.Contains(first, ".") || first == "debrief"
			if isModule && !strings.HasPrefix(name, "debrief/cmd/internal/worlds/") {
				t.Errorf("%s imports %s: want only the standard library and packages of worlds", path, name)
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("read %d files: %v", files, err)
	}
}

// TestWorldsOpen checks that every world of the registry opens by its name and recognises its rules.
func TestWorldsOpen(t *testing.T) {
	t.Parallel()
	changers := 0
	for _, name := range Names() {
		w, err := New(name, 1, Default())
		if err != nil || w.Name() != name {
			t.Fatalf("open %s: got %v, %v", name, w, err)
		}
		if hand := w.ByHand(0); !w.States(hand[0], 0, 0) || w.States(hand[0], 0, 1) {
			t.Errorf("%s does not recognise its first rule", name)
		}
		if c, ok := w.(world.Changer); ok && len(c.Changed()) > 0 {
			changers++
		}
	}
	if changers != 1 {
		t.Errorf("got %d worlds with rules that change, want 1", changers)
	}
	if _, err := New("nowhere", 1, Default()); err == nil {
		t.Error("open an unknown world: got no error")
	}
}
