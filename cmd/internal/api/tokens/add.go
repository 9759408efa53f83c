package tokens

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v3"

	"debrief/playbook"
)

// ErrExists is the error of Add for the name of a token that the file has.
var ErrExists = errors.New("a token of this name exists")

// Add adds a new token to a tokens file, and returns its secret. It creates a missing file, which only the owner can read. The
// file is replaced as a whole, so a server that reads it never sees a part.
func Add(path, name string, scopes []Scope, books []playbook.Book, proxies ...netip.Prefix) (secret string, err error) {
	secret, entry, err := New(name, scopes, books, proxies...)
	if err != nil {
		return "", err
	}
	err = change(path, func(data []byte) ([]byte, error) {
		if data != nil { // otherwise the file is new
			all, err := parse(data)
			if err != nil {
				return nil, err
			}
			if hasName(all, name) {
				return nil, fmt.Errorf("%w: %s: revoke it first, or choose another name", ErrExists, name)
			}
			data = append(bytes.TrimRight(data, "\n"), '\n')
		}
		return append(data, entry...), nil
	})
	if err != nil {
		return "", err
	}
	return secret, nil
}

// ErrUnknown is returned by Remove for a token that the file does not have.
var ErrUnknown = errors.New("unknown token")

// Remove removes a token from the file at path. The gateways that use the file refuse the token within a second, and end its open streams
// of events. A file without tokens is invalid, so the last token stays: its removal returns an error.
func Remove(path, name string) error {
	if _, err := os.Stat(path); err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	return change(path, func(data []byte) ([]byte, error) {
		all, err := parse(data)
		switch {
		case err != nil:
			return nil, err
		case !hasName(all, name):
			return nil, fmt.Errorf("%w: %s", ErrUnknown, name)
		case len(all) == 1:
			return nil, fmt.Errorf("%s is the last token, and a gateway needs one: add another one first", name)
		}
		return withoutEntry(data, name)
	})
}

// hasName reports whether one of the tokens has a name.
func hasName(all []*Token, name string) bool {
	return slices.ContainsFunc(all, func(t *Token) bool { return t.Name == name })
}

// change replaces the text of a tokens file by the result of edit, which gets nil if the file is missing. No other process changes the file
// at the same time.
func change(path string, edit func([]byte) ([]byte, error)) error {
	unlock, err := lock(path)
	if err != nil {
		return err
	}
	defer unlock()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("tokens file: %w", err)
	}
	mode := fs.FileMode(0o600) // of a new file
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	if data, err = edit(data); err != nil {
		return fmt.Errorf("tokens file %s: %w", path, err)
	}
	if err := replaceFile(path, data, mode); err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	return nil
}

// withoutEntry returns the text of a tokens file without an entry. Other entries and comments stay.
func withoutEntry(data []byte, name string) ([]byte, error) {
	var root yaml.Node
	if err := yaml.Unmarshal(data, &root); err != nil {
		return nil, err
	}
	top := root.Content[0]
	for i := 0; i < len(top.Content); i += 2 {
		if top.Content[i].Value == name {
			top.Content = slices.Delete(top.Content, i, i+2)
			break
		}
	}
	return yaml.Marshal(&root)
}

// lock waits until no other process changes the tokens file at path: of two changes at once the later would undo the earlier, also the removal
// of a token. The lock is a file beside it, because each change replaces the tokens file. The caller must call unlock.
func lock(path string) (unlock func(), err error) {
	l := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := l.Lock(); err != nil {
		return nil, fmt.Errorf("tokens file: %w", err)
	}
	return func() { _ = l.Unlock() }, nil
}
