package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"debrief/playbook"
)

const (
	hashPrefix = "sha256:"
	maxFile    = 1 << 20 // bytes of a tokens file
)

// checkInterval is the minimum time between two checks whether the file has changed.
const checkInterval = time.Second

// Set is the tokens of a file. It reads the file again after a change. A nil set has no tokens: every secret finds the token
// Local, with all scopes and books. It is safe for concurrent use.
type Set struct {
	path   string
	report func(error)
	now    func() time.Time

	mu      sync.Mutex
	tokens  []*Token
	checked time.Time // of the last check of the file
	state   fileState
	problem error // reason why the file in this state cannot be read; nil for a valid one
}

// fileState detects changes of a file: its content, or the error of reading it.
type fileState struct{ content, err string }

// Load reads a tokens file. Its error names the file, the token and the field. If the file is invalid after a change, the set keeps the
// tokens that it had. If the file is removed, no token is valid until it is back. In both cases the set calls report with an error, once
// for each change of the file. A nil report ignores the errors.
func Load(path string, report func(error)) (*Set, error) {
	s := &Set{path: path, report: report, now: time.Now, state: fileState{err: "not read yet"}}
	s.checked = s.now()
	if err := s.read(); err != nil {
		return nil, err
	}
	return s, nil
}

// Find returns the token with a secret. It returns false for an unknown secret.
func (s *Set) Find(secret string) (*Token, bool) {
	if s == nil {
		return local, true
	}
	t := find(s.all(), secret)
	return t, t != nil
}

// List returns the tokens, sorted by name.
func (s *Set) List() []*Token { return slices.Clone(s.all()) }

// all returns the tokens. It first reads the file again if it has changed.
func (s *Set) all() []*Token {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.now(); now.Sub(s.checked) >= checkInterval {
		s.checked = now
		if err := s.read(); err != nil && s.report != nil {
			s.report(err)
		}
	}
	return s.tokens
}

// Check returns the number of valid tokens, and the reason why the file cannot be read, nil if it can.
func (s *Set) Check() (valid int, err error) {
	valid = len(s.all())
	s.mu.Lock()
	defer s.mu.Unlock()
	return valid, s.problem
}

// read reads the file, and returns its problem if it has changed: a problem is returned once for each change. The caller holds mu.
func (s *Set) read() error {
	data, err := readFile(s.path)
	now := fileState{content: string(data)}
	if err != nil {
		now.err = err.Error()
	}
	if now == s.state {
		return nil
	}
	s.state = now
	s.problem = s.use(data, err)
	return s.problem
}

// use replaces the tokens by those of the data, or by none if the file is missing. Other errors keep the tokens.
func (s *Set) use(data []byte, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		s.tokens = nil
		return fmt.Errorf("tokens file: %w: no token is valid until it is back; 'debrief token new' creates it", err)
	}
	if err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	all, err := parse(data)
	if err != nil {
		return fmt.Errorf("tokens file %s: %w", s.path, err)
	}
	s.tokens = all
	return nil
}

// readFile reads a file. Of a file that is too large it returns a part that parse refuses.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// fields are the fields of a token in the file. A list that is a node may be missing, but not empty: see listOf.
type fields struct {
	Hash    string    `yaml:"hash"`
	Owner   string    `yaml:"owner"`
	Scopes  []Scope   `yaml:"scopes"`
	Books   yaml.Node `yaml:"books"`
	Proxies yaml.Node `yaml:"proxies"`
}

// listOf returns the elements of a field, or nil without the field. An empty field is an error: without its last element, a token would suddenly have
// all playbooks, or need no proxy.
func listOf[T any](name string, field yaml.Node) (list []T, err error) {
	if field.IsZero() {
		return nil, nil
	}
	if err := field.Decode(&list); err != nil {
		return nil, fmt.Errorf("%s: want a list: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: is empty: remove the field, or list at least one", name)
	}
	return list, nil
}

// parse returns the tokens of a file, sorted by name. Its error names the token or the line, and the field.
func parse(data []byte) ([]*Token, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("want at most %d bytes", maxFile)
	}
	var entries map[string]fields
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&entries); err != nil && !errors.Is(err, io.EOF) {
		reason := strings.Join(strings.Fields(strings.TrimPrefix(err.Error(), "yaml: ")), " ") // it has a line for each problem
		return nil, fmt.Errorf("want a mapping from names to tokens with hash, owner, scopes, books and proxies: %s", reason)
	}
	if len(entries) == 0 {
		return nil, errors.New("has no tokens")
	}
	if !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		return nil, errors.New("want one YAML document")
	}
	var all []*Token
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		t, err := newToken(name, entries[name])
		if err != nil {
			return nil, fmt.Errorf("token %.80q: %w", name, err)
		}
		for _, other := range all {
			if other.Owner == t.Owner {
				return nil, fmt.Errorf("token %q: owner: the same as that of token %q", t.Name, other.Name)
			}
			if other.hash == t.hash {
				return nil, fmt.Errorf("token %q: hash: the same as that of token %q", t.Name, other.Name)
			}
		}
		all = append(all, t)
	}
	return all, nil
}

// newToken returns the token of an entry of the file. Its error names the field.
func newToken(name string, entry fields) (*Token, error) {
	books, err := listOf[playbook.Book]("books", entry.Books)
	if err != nil {
		return nil, err
	}
	proxies, err := listOf[string]("proxies", entry.Proxies)
	if err != nil {
		return nil, err
	}
	t := &Token{Name: name, Owner: entry.Owner, Scopes: entry.Scopes, Books: books}
	digits, ok := strings.CutPrefix(entry.Hash, hashPrefix)
	hash, err := hex.DecodeString(digits)
	if !ok || err != nil || len(hash) != sha256.Size {
		return nil, fmt.Errorf("hash: want %s and 64 hex digits; 'debrief token new' prints it", hashPrefix)
	}
	t.hash = [sha256.Size]byte(hash)
	for _, text := range proxies {
		p, err := ParseProxy(text)
		if err != nil {
			return nil, err
		}
		t.Proxies = append(t.Proxies, p)
	}
	return t, t.validate()
}
