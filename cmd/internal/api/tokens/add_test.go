package tokens

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"debrief/playbook"
)

func TestAdd(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	first, err := Add(path, "agent", []Scope{Context, Report}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file for the owner only", info, err)
	}
	second, err := Add(path, "ann", []Scope{Read, Review}, []playbook.Book{"support"})
	if err != nil {
		t.Fatal(err)
	}
	set, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for secret, name := range map[string]string{first: "agent", second: "ann"} {
		if token, ok := set.Find(secret); !ok || token.Name != name || token.AllowsBook("other") == (name == "ann") {
			t.Errorf("got %+v, %t, want token %s", token, ok, name)
		}
	}
	// A token with the name of a removed one has another owner.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	again, err := Add(path, "agent", []Scope{Context}, nil)
	if err != nil {
		t.Fatal(err)
	}
	later, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, _ := set.Find(first)
	if now, ok := later.Find(again); !ok || now.Owner == "" || now.Owner == old.Owner {
		t.Errorf("got owner %q of a new token, that of the old one is %q", now.Owner, old.Owner)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Add(path, "agent", []Scope{Read}, nil); !errors.Is(err, ErrExists) || !strings.Contains(err.Error(), "revoke it first") {
		t.Errorf("second agent: got %v, want ErrExists with what to do", err)
	}
	if _, err := Add(path, "x y", []Scope{Read}, nil); err == nil {
		t.Error("invalid name: got no error")
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("refused tokens changed the file: %s, %v", after, err)
	}
	if _, err := Add(filepath.Join(path, "x"), "b", []Scope{Read}, nil); err == nil {
		t.Error("no directory: got no error")
	}
	if err := os.WriteFile(path, []byte("agent: 3"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(path, "b", []Scope{Read}, nil); err == nil {
		t.Error("invalid file: got no error")
	}
}

// TestChangesAtOnce: all tokens whose secrets were shown are in the file, and removed ones are not.
func TestChangesAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	const n = 12
	for i := range n {
		if _, err := Add(path, fmt.Sprint("old", i), []Scope{Read}, nil); err != nil {
			t.Fatal(err)
		}
	}
	secrets := make([]string, n)
	var changes sync.WaitGroup
	for i := range n {
		changes.Go(func() {
			var err error
			if secrets[i], err = Add(path, fmt.Sprint("new", i), []Scope{Read}, nil); err != nil {
				t.Error(err)
			}
		})
		changes.Go(func() {
			if err := Remove(path, fmt.Sprint("old", i)); err != nil {
				t.Error(err)
			}
		})
	}
	changes.Wait()
	set, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, secret := range secrets {
		if _, ok := set.Find(secret); !ok {
			t.Errorf("token new%d is not in the file", i)
		}
	}
	if got := len(set.List()); got != n {
		t.Errorf("got %d tokens, want the %d new ones", got, n)
	}
}
