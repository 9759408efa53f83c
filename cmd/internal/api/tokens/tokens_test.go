package tokens

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/playbook"
)

func hashOf(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// twoTokens is a file with a token of one book and one of all books.
var twoTokens = "ci:\n  hash: " + hashOf("secret-ci") + "\n  owner: n1Ssl4rO1aBTtCpPnTCXTg\n  scopes: [context, report]\n  books: [support, \"2026\"]\nann:\n  hash: " + hashOf("secret-ann") + "\n  owner: Vg8mnzK13ZARoCkIqK7pWA\n  scopes: [read, review]\n"

func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestFindAndRights(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, path, twoTokens, time.Now())
	s, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for secret, want := range map[string]string{"secret-ci": "ci", "secret-ann": "ann", "": "", "secret": "", "secret-ci ": "", hashOf("secret-ci"): ""} {
		got, ok := s.Find(secret)
		if ok != (want != "") || ok && got.Name != want {
			t.Errorf("%q: got %+v, %v, want %q", secret, got, ok, want)
		}
	}
	ci, _ := s.Find("secret-ci")
	ann, _ := s.Find("secret-ann")
	for _, test := range []struct {
		token *Token
		scope Scope
		book  playbook.Book
		want  [2]bool
	}{
		{ci, Context, "support", [2]bool{true, true}},
		{ci, Read, "2026", [2]bool{false, true}},
		{ci, Report, "default", [2]bool{true, false}},
		{ann, Review, "default", [2]bool{true, true}},
		{ann, Operate, "support", [2]bool{false, true}},
	} {
		if got := [2]bool{test.token.Allows(test.scope), test.token.AllowsBook(test.book)}; got != test.want {
			t.Errorf("%s, %s, %s: got %v, want %v", test.token.Name, test.scope, test.book, got, test.want)
		}
	}
	var names []string
	for _, token := range s.List() {
		names = append(names, token.Name)
	}
	if !slices.Equal(names, []string{"ann", "ci"}) {
		t.Errorf("got %v", names)
	}
}

func TestNoTokens(t *testing.T) {
	t.Parallel()
	var none *Set
	token, ok := none.Find("")
	if !ok || token.Name != Local || !token.AllowsBook("any") || len(none.List()) != 0 {
		t.Errorf("got %+v, %v", token, ok)
	}
	for _, s := range Scopes {
		if !token.Allows(s) {
			t.Errorf("scope %s is not allowed", s)
		}
	}
}

func TestReload(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	began := time.Now()
	write(t, path, twoTokens, began)
	var reported []error
	s, err := Load(path, func(err error) { reported = append(reported, err) })
	if err != nil {
		t.Fatal(err)
	}
	now := began
	s.now = func() time.Time { now = now.Add(checkInterval); return now }
	one, _, _ := strings.Cut(twoTokens, "ann:")
	for i, step := range []struct {
		text     string // empty: removed
		ann      bool
		reported int
		valid    int
		problem  bool
	}{
		{text: twoTokens, ann: true, valid: 2},
		{text: one, valid: 1},
		{text: twoTokens, ann: true, valid: 2},
		{text: "ann: {scopes: [read]}\n", ann: true, reported: 1, valid: 2, problem: true},
		{text: "", reported: 2, problem: true},
		{text: one, reported: 2, valid: 1},
	} {
		if step.text == "" {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		} else {
			write(t, path, step.text, began.Add(time.Duration(i)*time.Minute))
		}
		for range 2 {
			if _, ok := s.Find("secret-ann"); ok != step.ann || len(reported) != step.reported {
				t.Errorf("step %d: got %v and errors %v", i, ok, reported)
			}
			if valid, err := s.Check(); valid != step.valid || (err != nil) != step.problem {
				t.Errorf("step %d: got %d valid tokens and the problem %v, want %d and a problem: %v", i, valid, err, step.valid, step.problem)
			}
		}
	}
}

func TestInvalidFiles(t *testing.T) {
	t.Parallel()
	hash := hashOf("x")
	for _, test := range []struct {
		name, text string
		want       []string // parts of the error
	}{
		{"empty", "", []string{"tokens.yaml: ", "no tokens"}},
		{"only a comment", "# none\n", []string{"no tokens"}},
		{"a list", "[a]\n", []string{"line 1", "mapping"}},
		{"no YAML", "a: [\n", []string{"line 1"}},
		{"two documents", twoTokens + "---\n" + twoTokens, []string{"one YAML document"}},
		{"a token that is text", "ci: x\n", []string{"line 1", "hash, owner, scopes, books and proxies"}},
		{"without a hash", "ci: {scopes: [read]}\n", []string{`"ci"`, "hash: want"}},
		{"the secret itself", "ci: {hash: secret, scopes: [read]}\n", []string{`"ci"`, "hash: want"}},
		{"a short hash", "ci: {hash: 'sha256:abcd', scopes: [read]}\n", []string{`"ci"`, "hash: want"}},
		{"no scopes", "ci: {hash: '" + hash + "'}\n", []string{`"ci"`, "scopes: "}},
		{"an unknown scope", "ci: {hash: '" + hash + "', scopes: [reed]}\n", []string{`"ci"`, "scopes: ", `"reed"`}},
		{"a scope that is text", "ci: {hash: '" + hash + "', scopes: read}\n", []string{"line 1", "Scope"}},
		{"a list in a list", "ci: {hash: '" + hash + "', scopes: [[read]]}\n", []string{"line 1", "Scope"}},
		{"an invalid book", "ci: {hash: '" + hash + "', scopes: [read], books: [a/b]}\n", []string{`"ci"`, "books: "}},
		{"an unknown field", "ci: {hash: '" + hash + "', scope: [read]}\n", []string{"line 1", "field scope not found"}},
		{"a field twice", "ci: {hash: '" + hash + "', hash: '" + hash + "', scopes: [read]}\n", []string{"line 1", `"hash" already defined`}},
		{"a token twice", twoTokens + "ci: {hash: '" + hash + "', scopes: [read]}\n", []string{"line 10", `"ci" already defined`}},
		{"a hash twice", twoTokens + "cj: {hash: '" + hashOf("secret-ci") + "', owner: P6-hzy8Zp8ESm-sgzwmD9w, scopes: [read]}\n", []string{`"cj"`, "hash: ", `"ci"`}},
		{"no owner", "ci: {hash: '" + hash + "', scopes: [read]}\n", []string{`"ci"`, "owner: "}},
		{"an invalid owner", "ci: {hash: '" + hash + "', owner: me, scopes: [read]}\n", []string{`"ci"`, "owner: "}},
		{"an owner twice", twoTokens + "cj: {hash: '" + hash + "', owner: n1Ssl4rO1aBTtCpPnTCXTg, scopes: [read]}\n", []string{`"cj"`, "owner: ", `"ci"`}},
		{"an invalid name", "'a b': {hash: '" + hash + "', scopes: [read]}\n", []string{`"a b"`, "name"}},
		{"the name of no token", "local: {hash: '" + hash + "', scopes: [read]}\n", []string{"name", "local"}},
		{"huge", "#" + strings.Repeat(" ", maxFile), []string{"1048576"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "tokens.yaml")
			write(t, path, test.text, time.Now())
			_, err := Load(path, nil)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, want %q in it", err, part)
				}
			}
			if strings.Contains(err.Error(), "secret ") {
				t.Errorf("the error has the secret: %q", err)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "missing.yaml"), nil); err == nil || !strings.Contains(err.Error(), "missing.yaml") || !strings.Contains(err.Error(), "'debrief token new' creates it") {
		t.Errorf("a missing file: got %v", err)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	secret, entry, err := New("yes", []Scope{Read, Report}, []playbook.Book{"true", "2026", "-"})
	if err != nil {
		t.Fatal(err)
	}
	all, err := parse([]byte(entry))
	if err != nil {
		t.Fatalf("%v in %s", err, entry)
	}
	got := find(all, secret)
	if got == nil || got.Name != "yes" || !slices.Equal(got.Scopes, []Scope{Read, Report}) || !slices.Equal(got.Books, []playbook.Book{"true", "2026", "-"}) {
		t.Errorf("got %+v from %s", got, entry)
	}
	if strings.Contains(entry, secret) || !strings.HasPrefix(secret, prefix) || len(secret) != len(prefix)+43 {
		t.Errorf("got secret %q, entry %q", secret, entry)
	}
	for field, try := range map[string]func() (string, string, error){
		"name":   func() (string, string, error) { return New("a b", Scopes, nil) },
		"scopes": func() (string, string, error) { return New("a", nil, nil) },
		"books":  func() (string, string, error) { return New("a", Scopes, []playbook.Book{"a/b"}) },
	} {
		if s, e, err := try(); err == nil || !strings.HasPrefix(err.Error(), field) || s+e != "" {
			t.Errorf("%s: got %q, %q, %v", field, s, e, err)
		}
	}
}

// FuzzParse parses any file. Each token of a valid one has a name, a hash and known scopes, and its entry parses again.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{twoTokens, "a: &x {hash: *x, scopes: [read]}", "a: [", "? [a]\n: {}\n", "a: {scopes: [read, 1, null]}", "<<: {a: b}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parse([]byte(text))
		if err == nil && len(all) == 0 {
			t.Error("got no tokens and no error")
		}
		for _, token := range all {
			if err := token.validate(); err != nil {
				t.Error(err)
			}
			again, err := parse([]byte(token.entry()))
			if err != nil || again[0].hash != token.hash || !slices.Equal(again[0].Books, token.Books) {
				t.Errorf("%s: got %v", token.entry(), err)
			}
		}
	})
}
