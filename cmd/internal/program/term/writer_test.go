package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

const attack = "a\x1b]0;title\x07\x1b[31m\u009b2J\u202eb\u2066c\u200ed\u061ce\u2028f\u2029g\x7fh\xffi\nline two\r\tj"

func TestCleanRemovesControls(t *testing.T) {
	t.Parallel()
	want := `a\u001b]0;title\u0007\u001b[31m\u009b2J\u202eb\u2066c\u200ed\u061ce\u2028f\u2029g\u007fh` + "\ufffdi\nline two" + `\u000d` + "\tj"
	if got := clean(attack); got != want {
		t.Errorf("clean: got %q, want %q", got, want)
	}
	if got := Line(attack); strings.ContainsAny(got, "\n\t\r") || strings.Count(got, " ") != 6 {
		t.Errorf("Line: got %q", got)
	}
	for _, text := range []string{"", "plain\n\ttext", "Grüße, 世界, مرحبا, שלום", "👩‍👩‍👧 e\u0301"} {
		if got := clean(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
	if got := clean("a\r\nb"); got != "a\nb" {
		t.Errorf("a line break of two: got %q", got)
	}
}

type named string

func (n named) String() string { return "[" + string(n) + "]" }

// TestArgumentsStayOnOneLine: the format may contain line breaks; of the arguments only a Block may.
func TestArgumentsStayOnOneLine(t *testing.T) {
	t.Parallel()
	const text = "a\nforged\t\x1b[1m"
	for want, print := range map[string]func(*bytes.Buffer) (int, error){
		"x\n\ta forged \\u001b[1m|\n": func(b *bytes.Buffer) (int, error) { return Fprintf(b, "x\n\t%s|\n", text) },
		"[a forged \\u001b[1m]\n":     func(b *bytes.Buffer) (int, error) { return Fprintln(b, named(text)) },
		"a forged \\u001b[1m 7\n":     func(b *bytes.Buffer) (int, error) { return Fprintln(b, errors.New(text), 7) },
		"[a forged \\u001b[1m]":       func(b *bytes.Buffer) (int, error) { return Fprintf(b, "%v", []string{text}) },
		"a\nforged\t\\u001b[1m":       func(b *bytes.Buffer) (int, error) { return Fprintf(b, "%s", Block(text)) },
		"    7|1.50|2s|\"x\"|ab   |true": func(b *bytes.Buffer) (int, error) {
			return Fprintf(b, "%5d|%.2f|%s|%q|%-5s|%t", 7, 1.5, 2*time.Second, "x", "ab", true)
		},
	} {
		var out bytes.Buffer
		if _, err := print(&out); err != nil || out.String() != want {
			t.Errorf("got %q, %v, want %q", out.String(), err, want)
		}
	}
}

// TestJSONKeepsItsValue: cleaned characters are JSON escapes.
func TestJSONKeepsItsValue(t *testing.T) {
	t.Parallel()
	data, err := json.Marshal(map[string]string{"k\u202e": attack})
	if err != nil {
		t.Fatal(err)
	}
	var want, got map[string]string
	cleaned := clean(string(data))
	if err := errors.Join(json.Unmarshal(data, &want), json.Unmarshal([]byte(cleaned), &got)); err != nil {
		t.Fatal(err)
	}
	if want["k\u202e"] != got["k\u202e"] || needsCleaning(cleaned) {
		t.Errorf("got %q, want %q", cleaned, data)
	}
}

// TestOutputUsesThisPackage parses the source of the programs: none of them uses the standard streams or prints
// without this package.
func TestOutputUsesThisPackage(t *testing.T) {
	t.Parallel()
	files := 0
	err := filepath.WalkDir("../../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "term" {
			return err
		}
		files++
		source, err := os.ReadFile(path)
		for _, found := range bypasses(t, path, source) {
			t.Errorf("%s: use package term", found)
		}
		return err
	})
	if err != nil || files < 50 {
		t.Fatalf("read %d files: %v", files, err)
	}
	// Control: each way around this package is found.
	got := bypasses(t, "x.go", []byte("package x\nfunc f() { fmt.Println(1); fmt.Printf(`x`); fmt.Print(); os.Stdout.Write(nil); g(os.Stderr); println(1); print(2); fmt.Fprintf(w, ``) }"))
	if len(got) != 7 {
		t.Errorf("got %q, want 7", got)
	}
}

// bypasses returns the places in a file that write to a standard stream.
func bypasses(t *testing.T, name string, source []byte) (found []string) {
	t.Helper()
	places := token.NewFileSet()
	file, err := parser.ParseFile(places, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		text := ""
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				text = x.Name + "." + n.Sel.Name
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok {
				text = f.Name
			}
		}
		if slices.Contains([]string{"os.Stdout", "os.Stderr", "fmt.Print", "fmt.Printf", "fmt.Println", "print", "println", "syscall.Stdout", "syscall.Stderr"}, text) {
			found = append(found, places.Position(n.Pos()).String()+": "+text)
		}
		return true
	})
	return found
}

// TestDoing checks that the text of a long operation comes after a delay, and not for a short operation. It is not parallel, because it replaces
// standard error.
func TestDoing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, err := os.Create(filepath.Join(t.TempDir(), "errors"))
		if err != nil {
			t.Fatal(err)
		}
		before := os.Stderr
		os.Stderr = f
		defer func() { os.Stderr = before; _ = f.Close() }()
		done := Doing("waiting for a short time")
		time.Sleep(5 * time.Second)
		done()
		done = Doing("waiting for a long time")
		time.Sleep(time.Minute)
		synctest.Wait()
		done()
		if got, err := os.ReadFile(f.Name()); err != nil || string(got) != "waiting for a long time\n" {
			t.Errorf("got %q, %v, want only the text of the long operation", got, err)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add(attack)
	f.Fuzz(func(t *testing.T, text string) {
		got := clean(text)
		if needsCleaning(got) || !utf8.ValidString(got) || clean(got) != got {
			t.Errorf("%q: got %q", text, got)
		}
		if line := Line(text); needsCleaning(line) || strings.ContainsAny(line, "\n\t") {
			t.Errorf("%q: got the line %q", text, line)
		}
	})
}
