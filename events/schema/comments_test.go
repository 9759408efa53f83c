package schema

import (
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write comments.json from the sources")

// TestCommentsMatchSources compares comments.json with the comments of all types in messages.
func TestCommentsMatchSources(t *testing.T) {
	t.Parallel()
	want := map[string]typeComments{}
	sources := map[string]map[string]typeComments{}
	for typ := range typesOfMessages() {
		if !strings.HasPrefix(typ.PkgPath(), "debrief/") || typ.Name() == "" {
			continue
		}
		dir := filepath.Join("..", "..", strings.TrimPrefix(typ.PkgPath(), "debrief/"))
		if sources[dir] == nil {
			sources[dir] = readComments(t, dir)
		}
		if c := sources[dir][typ.Name()]; !reflect.ValueOf(c).IsZero() {
			want[typeName(typ)] = c
		}
	}
	if len(want["events.Task"].Fields) == 0 || len(want["events.Purpose"].Values) != 2 {
		t.Fatalf("found no comments: %+v", want["events.Task"])
	}
	if *update {
		data, err := json.MarshalIndent(want, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("comments.json", append(data, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, comments()); diff != "" {
		t.Errorf("run go test ./events/schema -update, and commit comments.json: -sources +comments.json:\n%s", diff)
	}
}

// typesOfMessages returns all types in payloads.
func typesOfMessages() map[reflect.Type]bool {
	all := map[reflect.Type]bool{}
	for _, m := range Messages() {
		ts := typesOf(&m)
		ts.types = all
		ts.root(&m)
	}
	return all
}

// readComments returns the comments of the types of a package.
func readComments(t *testing.T, dir string) map[string]typeComments {
	t.Helper()
	all := map[string]typeComments{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", dir, len(files), err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				addComments(all, d)
			}
		}
	}
	return all
}

func addComments(all map[string]typeComments, d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			c := all[s.Name.Name]
			c.Type = joined(d.Doc, s.Doc)
			if fields, ok := s.Type.(*ast.StructType); ok {
				c.Fields = fieldComments(fields)
			}
			all[s.Name.Name] = c
		case *ast.ValueSpec:
			typ, ok := s.Type.(*ast.Ident)
			if !ok || d.Tok != token.CONST || len(s.Values) != 1 {
				continue
			}
			if text, ok := s.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
				c := all[typ.Name]
				v, _ := strconv.Unquote(text.Value) // the parser has accepted it
				c.Values = append(c.Values, value{v, joined(s.Doc, s.Comment)})
				all[typ.Name] = c
			}
		}
	}
}

func fieldComments(s *ast.StructType) map[string]string {
	fields := map[string]string{}
	for _, f := range s.Fields.List {
		doc := joined(f.Doc, f.Comment)
		for _, name := range f.Names {
			if doc != "" && name.IsExported() {
				fields[name.Name] = doc
			}
		}
	}
	if len(fields) == 0 {
		return nil
	}
	return fields
}

func joined(groups ...*ast.CommentGroup) string {
	var all []string
	for _, g := range groups {
		if text := strings.Join(strings.Fields(g.Text()), " "); text != "" {
			all = append(all, sentence(text))
		}
	}
	return strings.Join(all, " ")
}
