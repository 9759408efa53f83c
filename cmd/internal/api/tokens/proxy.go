package tokens

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
)

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
