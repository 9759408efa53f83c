package tokens

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"debrief/playbook"
)

// ErrExists is the error of Add for the name of a token that the file has.
var ErrExists = errors.New("a token of this name exists")

// Add adds a new token to a tokens file, and returns its secret. It creates a missing file, which only the owner can read. The
// file is replaced as a whole, so a server that reads it never sees a part.
func Add(path, name string, scopes []Scope, books []playbook.Book) (secret string, err error) {
	secret, entry, err := New(name, scopes, books)
	if err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	mode := fs.FileMode(0o600) // of a new file
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("tokens file: %w", err)
	default:
		all, err := parse(data)
		if err != nil {
			return "", fmt.Errorf("tokens file %s: %w", path, err)
		}
		if slices.ContainsFunc(all, func(t *Token) bool { return t.Name == name }) {
			return "", fmt.Errorf("tokens file %s: %w: %s: remove its entry first", path, ErrExists, name)
		}
		if info, err := os.Stat(path); err == nil {
			mode = info.Mode().Perm()
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		data = append(data, '\n')
	}
	if err := replace(path, append(data, entry...), mode); err != nil {
		return "", fmt.Errorf("tokens file: %w", err)
	}
	return secret, nil
}

// replace writes a temporary file beside path, and renames it to path.
func replace(path string, data []byte, mode fs.FileMode) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".tokens-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
