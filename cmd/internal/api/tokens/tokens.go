// Package tokens reads the file of named tokens for the HTTP API and the gateway, and finds the token of a secret.
//
//	ci:
//	  hash: sha256:5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8
//	  owner: n1Ssl4rO1aBTtCpPnTCXTg
//	  scopes: [context, report]
//	  books: [support] # missing: all books
//	sso:
//	  hash: sha256:65e84be33532fb784c48129675f9eff3a682b27168c0ea744b2cf58ee02337c5
//	  owner: gSnAzmfpm1QDbLdWCeOyyA
//	  scopes: [read, review]
//	  proxies: [127.0.0.1] # the token of a proxy, which names a person in each request
//
// The owner is a random id: the runs that are reported with a token belong to its owner. A new token with an old name has another owner, so
// it sees none of the runs of the earlier token. The file has only the hashes of secrets. New creates a token and returns its secret once.
// No scope includes another one: a token for an agent that also reads the playbook needs context, report and read.
package tokens

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook"
)

// Scope is a group of requests that a token permits.
type Scope string

// The scopes.
const (
	Context Scope = "context" // contexts, and calls of models through the gateway
	Report  Scope = "report"  // executions, feedback and tasks
	Read    Scope = "read"    // all that can be read, also the runs of other owners
	Review  Scope = "review"  // changes of playbooks, and feedback on the runs of other owners
	Operate Scope = "operate" // dead letters, gate and tokens
)

// Scopes are all scopes.
var Scopes = []Scope{Context, Report, Read, Review, Operate}

// Token is a named token. Its name is the author of the edits that are made with it.
type Token struct {
	Name   string
	Owner  string // unique id; empty for the token of commands and of a server without tokens
	Scopes []Scope
	Books  []playbook.Book // empty: all books
	// Proxies are the addresses of proxies that authenticate persons. Requests with the secret must come from one, and name a person in
	// PersonHeader. Empty: the token is that of one caller.
	Proxies []netip.Prefix

	hash [sha256.Size]byte
}

// Allows reports whether the token permits the requests of a scope.
func (t *Token) Allows(s Scope) bool { return slices.Contains(t.Scopes, s) }

// AllOwners reports whether the token permits to read the runs of all owners in its playbooks. Other tokens permit only those of their owner.
func (t *Token) AllOwners() bool { return t.Allows(Read) || t.Allows(Review) || t.Allows(Operate) }

// Sees reports whether the token permits to read a run of an owner.
func (t *Token) Sees(owner string) bool { return t.Owner == owner || t.AllOwners() }

// LeavesControl reports whether requests with the token may be left out of the control share. A token without an owner may not: the caller of
// such requests on NATS is not known.
func (t *Token) LeavesControl() bool { return t.Owner != "" && t.Allows(Operate) }

// Caller returns the sender of the requests with the token.
func (t *Token) Caller() events.Caller {
	if t.Owner == "" { // runs without an owner have no name of a caller either
		return events.Caller{Reviews: t.Allows(Review)}
	}
	return events.Caller{Owner: t.Owner, Name: t.Name, Reviews: t.Allows(Review)}
}

// AllowsBook reports whether the token permits requests for a book.
func (t *Token) AllowsBook(b playbook.Book) bool {
	return len(t.Books) == 0 || slices.Contains(t.Books, b)
}

// Local is the name of the token local, and so the author of edits on a server without tokens. No other token can have it.
const Local = "local"

// local is the token of every request to a server without tokens, which listens on loopback only.
var local = &Token{Name: Local, Scopes: Scopes}

// prefix begins each secret, so that tools which search for secrets can recognize one.
const prefix = "dbr_"

// New returns the secret of a new token, and its entry in the tokens file as YAML. Its error names the invalid field.
func New(name string, scopes []Scope, books []playbook.Book, proxies ...netip.Prefix) (secret, entry string, err error) {
	t := &Token{Name: name, Owner: string(events.NewID()), Scopes: scopes, Books: books, Proxies: proxies}
	if err := t.validate(); err != nil {
		return "", "", err
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails
	secret = prefix + base64.RawURLEncoding.EncodeToString(random[:])
	t.hash = sha256.Sum256([]byte(secret))
	return secret, t.entry(), nil
}

// entry returns the token as YAML.
func (t *Token) entry() string {
	out := fmt.Sprintf("%s:\n  hash: %s%s\n  owner: %s\n  scopes: [%s]\n", t.Name, hashPrefix, hex.EncodeToString(t.hash[:]), t.Owner, join(t.Scopes))
	if len(t.Books) > 0 {
		out += fmt.Sprintf("  books: [%s]\n", join(t.Books))
	}
	if len(t.Proxies) > 0 {
		out += fmt.Sprintf("  proxies: [%s]\n", `"`+strings.Join(t.ProxyNames(), `", "`)+`"`) // quoted, because an IPv6 address has colons
	}
	return out
}

// ProxyNames returns the proxies as texts.
func (t *Token) ProxyNames() (names []string) {
	for _, p := range t.Proxies {
		names = append(names, p.String())
	}
	return names
}

// join lists names for a YAML list. A name such as true or 1 needs no quotes: the elements are read as texts.
func join[T ~string](all []T) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = string(s)
	}
	return strings.Join(texts, ", ")
}

// validName is the form of the names of tokens: they are authors in the log, and keys in the file.
var validName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,63}$`)

// validate returns an error for each invalid field.
func (t *Token) validate() error {
	var errs []error
	if !validName.MatchString(t.Name) || t.Name == Local {
		errs = append(errs, fmt.Errorf("name %.80q: want a letter and up to 63 letters, digits, '.', '_' or '-', and not %q", t.Name, Local))
	}
	if err := events.ValidateOwner(t.Owner); err != nil || t.Owner == "" {
		errs = append(errs, errors.New("owner: want 22 characters of base64url; 'debrief token new' prints them"))
	}
	if len(t.Scopes) == 0 {
		errs = append(errs, fmt.Errorf("scopes: at least one required of %s", join(Scopes)))
	}
	for _, s := range t.Scopes {
		if !slices.Contains(Scopes, s) {
			errs = append(errs, fmt.Errorf("scopes: unknown scope %.40q: want %s", s, join(Scopes)))
		}
	}
	if len(t.Proxies) > 0 && t.Allows(Context) {
		errs = append(errs, errors.New("scopes: a token with proxies is for persons, and cannot have the scope context"))
	}
	for _, b := range t.Books {
		if err := events.ValidateBook(b); err != nil {
			errs = append(errs, fmt.Errorf("books: %w", err))
		}
	}
	return errors.Join(errs...)
}

// find returns the token with a secret, or nil. It compares all tokens, so that its duration reveals nothing about a secret.
func find(all []*Token, secret string) *Token {
	hash := sha256.Sum256([]byte(secret))
	var found *Token
	for _, t := range all {
		if subtle.ConstantTimeCompare(hash[:], t.hash[:]) == 1 {
			found = t
		}
	}
	return found
}

// Header is the header with the secret of a token. Requests to a model through the gateway need it, because Authorization has the key of
// the provider.
const Header = "X-Debrief-Token"

// SecretOf returns the secret of the token in the headers of a request: the value of Header, else the bearer token in Authorization. It
// returns "" without one.
func SecretOf(h http.Header) string {
	if s := h.Get(Header); s != "" {
		return s
	}
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// PersonHeader is the header in which a proxy names the person that it has authenticated. It counts only in requests with the secret of a
// token that has proxies.
const PersonHeader = "X-Debrief-Person"

// errMissing is returned by Of for a request without a token, or with an unknown one.
var errMissing = errors.New("missing or unknown token: want the header Authorization: Bearer TOKEN")

// Of returns the token of a request. remote is the address of its sender, with the port. If the token is that of a proxy, the result has the
// scopes of the token, and the name and an owner of the person that the proxy names.
func (s *Set) Of(h http.Header, remote string) (*Token, error) {
	t, ok := s.Find(SecretOf(h))
	switch {
	case !ok:
		return nil, errMissing
	case len(t.Proxies) == 0:
		return t, nil
	case !t.isProxy(remote):
		return nil, fmt.Errorf("token %q is for its proxies only, and the request comes from another address", t.Name)
	}
	names := h.Values(PersonHeader)
	if len(names) != 1 || !validPerson.MatchString(names[0]) {
		return nil, fmt.Errorf("token %q: want one person in the header %s: a letter or digit and up to 127 letters, digits, '.', '_', '+', '@' or '-'", t.Name, PersonHeader)
	}
	person := *t
	person.Name, person.Owner = names[0], string(events.Hash("person", t.Owner, names[0]))
	sameName := func(other *Token) bool { return strings.EqualFold(other.Name, person.Name) }
	if slices.ContainsFunc(s.all(), sameName) || strings.EqualFold(person.Name, Local) {
		return nil, fmt.Errorf("token %q: the person has the name of a token", t.Name)
	}
	return &person, nil
}

// validPerson is the form of the name of a person: it is the author of edits.
var validPerson = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.+@-]{0,127}$`)

// isProxy reports whether a request from an address may use the token.
func (t *Token) isProxy(remote string) bool {
	from, err := netip.ParseAddrPort(remote)
	return err == nil && slices.ContainsFunc(t.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Addr().Unmap().WithZone("")) })
}

// ParseProxy parses an address, or a network such as 10.0.0.0/8.
func ParseProxy(text string) (netip.Prefix, error) {
	if a, err := netip.ParseAddr(text); err == nil && a.Zone() == "" {
		return netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil || p.Masked() != p || p.Addr().Is4In6() {
		return p, fmt.Errorf("proxies: %.80q: want an address, or a network such as 10.0.0.0/8", text)
	}
	return p, nil
}
