package tokens

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// fileState detects changes of a file.
type fileState struct {
	changed time.Time
	size    int64
}

// Load reads a tokens file. Its error names the file, the token and the field. If the file is invalid after a change, the set keeps the
// tokens that it had. If the file is removed, no token is valid until it is back. In both cases the set calls report with an error, once
// for each change of the file. A nil report ignores the errors.
func Load(path string, report func(error)) (*Set, error) {
	s := &Set{path: path, report: report, now: time.Now}
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
	if now := s.now(); s.path != "" && now.Sub(s.checked) >= checkInterval {
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

// read reads the file if it has changed, and records the problem. The caller holds mu.
func (s *Set) read() error {
	before := s.state
	err := s.readChanged()
	if s.state != before { // else the problem of this state is recorded already
		s.problem = err
	}
	return err
}

// noFile is the state of a file that is missing or cannot be found.
var noFile = fileState{size: -1}

// readChanged reads the file if its state differs from the last one, and sets the state. So a problem is returned once for each change.
func (s *Set) readChanged() error {
	info, err := os.Stat(s.path)
	if err != nil {
		if s.state == noFile {
			return nil
		}
		s.state = noFile
		if errors.Is(err, fs.ErrNotExist) {
			s.tokens = nil
			return fmt.Errorf("tokens file: %w: no token is valid until it is back", err)
		}
		return fmt.Errorf("tokens file: %w", err)
	}
	now := fileState{info.ModTime(), info.Size()}
	if now == s.state {
		return nil
	}
	s.state = now
	f, err := os.Open(s.path)
	if err != nil {
		return fmt.Errorf("tokens file: %w", err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
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

// parse returns the tokens of a file, sorted by name. Its error names the token and the field.
func parse(data []byte) ([]*Token, error) {
	if len(data) > maxFile {
		return nil, fmt.Errorf("want at most %d bytes", maxFile)
	}
	var root yaml.Node
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&root); errors.Is(err, io.EOF) {
		return nil, errors.New("has no tokens")
	} else if err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if !errors.Is(dec.Decode(new(yaml.Node)), io.EOF) {
		return nil, errors.New("want one YAML document")
	}
	top := root.Content[0]
	if top.Kind != yaml.MappingNode || len(top.Content) == 0 {
		return nil, fmt.Errorf("line %d: want a mapping from names to tokens", top.Line)
	}
	var all []*Token
	for i := 0; i < len(top.Content); i += 2 {
		t, err := parseToken(top.Content[i], top.Content[i+1])
		if err != nil {
			return nil, fmt.Errorf("token %.80q: %w", top.Content[i].Value, err)
		}
		for _, other := range all {
			if other.Name == t.Name {
				return nil, fmt.Errorf("token %q: line %d: is there twice", t.Name, top.Content[i].Line)
			}
			if other.Owner == t.Owner {
				return nil, fmt.Errorf("token %q: owner: the same as that of token %q", t.Name, other.Name)
			}
			if other.hash == t.hash {
				return nil, fmt.Errorf("token %q: hash: the same as that of token %q", t.Name, other.Name)
			}
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b *Token) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// parseToken parses one entry of the file. Its error names the field.
func parseToken(name, entry *yaml.Node) (*Token, error) {
	t := &Token{Name: name.Value}
	if entry.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("line %d: want the fields hash, owner, scopes, books and proxies", entry.Line)
	}
	seen := map[string]bool{}
	for i := 0; i < len(entry.Content); i += 2 {
		field, value := entry.Content[i].Value, entry.Content[i+1]
		if seen[field] {
			return nil, fmt.Errorf("%.40s: line %d: is there twice", field, value.Line)
		}
		seen[field] = true
		if err := t.set(field, value); err != nil {
			return nil, err
		}
	}
	if !seen["hash"] {
		return nil, errors.New("hash: required; 'debrief token new' prints it")
	}
	return t, t.validate()
}

// set sets a field of the token.
func (t *Token) set(field string, value *yaml.Node) (err error) {
	switch field {
	case "hash":
		text, ok := strings.CutPrefix(value.Value, hashPrefix)
		hash, err := hex.DecodeString(text)
		if !ok || err != nil || len(hash) != sha256.Size {
			return fmt.Errorf("hash: line %d: want %s and 64 hex digits", value.Line, hashPrefix)
		}
		t.hash = [sha256.Size]byte(hash)
	case "owner":
		t.Owner = value.Value
	case "scopes":
		t.Scopes, err = list[Scope](field, value)
	case "books":
		t.Books, err = list[playbook.Book](field, value)
	case "proxies":
		var texts []string
		texts, err = list[string](field, value)
		for _, text := range texts {
			p, problem := ParseProxy(text)
			t.Proxies, err = append(t.Proxies, p), errors.Join(err, problem)
		}
		if err == nil && len(texts) == 0 {
			err = errors.New("proxies: is empty: remove the field, or name an address") // else the secret would need no proxy
		}
	default:
		return fmt.Errorf("unknown field %.40q: want hash, owner, scopes, books or proxies", field)
	}
	return err
}

// list returns the texts of a list.
func list[T ~string](field string, value *yaml.Node) ([]T, error) {
	if value.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s: line %d: want a list such as [a, b]", field, value.Line)
	}
	var all []T
	for _, item := range value.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, fmt.Errorf("%s: line %d: want a list of names", field, item.Line)
		}
		all = append(all, T(item.Value))
	}
	return all, nil
}
