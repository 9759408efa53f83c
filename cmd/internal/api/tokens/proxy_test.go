package tokens

import (
	"net/http"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

// TestPersonsOfProxies sends the secret of a proxy's token, and that of another token, with different headers and from different addresses.
func TestPersonsOfProxies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	proxy, err := Add(path, "sso", []Scope{Read, Review}, nil, netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("fd00::/8"))
	if err != nil {
		t.Fatal(err)
	}
	agent, err := Add(path, "agent", []Scope{Report}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 129)
	for _, test := range []struct {
		name, secret, remote string
		persons              []string
		want                 string // name of the token; empty: refused
	}{
		{"person", proxy, "127.0.0.1:5000", []string{"ann+x@example.com"}, "ann+x@example.com"},
		{"mapped address", proxy, "[::ffff:127.0.0.1]:5000", []string{"ann"}, "ann"},
		{"network", proxy, "[fd00::7]:5000", []string{"ann"}, "ann"},
		{"another address", proxy, "127.0.0.2:5000", []string{"ann"}, ""},
		{"another IPv6 address", proxy, "[fe80::7%eth0]:5000", []string{"ann"}, ""},
		{"no address", proxy, "", []string{"ann"}, ""},
		{"no person", proxy, "127.0.0.1:5000", nil, ""},
		{"empty person", proxy, "127.0.0.1:5000", []string{""}, ""},
		{"two persons", proxy, "127.0.0.1:5000", []string{"ann", "eve"}, ""},
		{"list of persons", proxy, "127.0.0.1:5000", []string{"ann, eve"}, ""},
		{"control character", proxy, "127.0.0.1:5000", []string{"ann\n"}, ""},
		{"long name", proxy, "127.0.0.1:5000", []string{long}, ""},
		{"name of a token", proxy, "127.0.0.1:5000", []string{"Agent"}, ""},
		{"name of its own token", proxy, "127.0.0.1:5000", []string{"sso"}, ""},
		{"local", proxy, "127.0.0.1:5000", []string{"local"}, ""},
		{"no secret", "", "127.0.0.1:5000", []string{"ann"}, ""},
		{"unknown secret", "dbr_x", "127.0.0.1:5000", []string{"ann"}, ""},
		{"token of an agent", agent, "127.0.0.1:5000", []string{"ann"}, "agent"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := http.Header{PersonHeader: test.persons, Header: {test.secret}}
			got, err := s.Of(h, test.remote)
			switch {
			case err == nil && got.Name != test.want, err != nil && test.want != "":
				t.Errorf("got %+v, %v, want %q", got, err, test.want)
			case err == nil && len(got.Proxies) > 0 && (!got.Allows(Review) || got.Allows(Operate)):
				t.Errorf("got scopes %v", got.Scopes)
			}
		})
	}
	owner := func(person string) string {
		token, err := s.Of(http.Header{PersonHeader: {person}, Header: {proxy}}, "127.0.0.1:1")
		if err != nil {
			t.Fatal(err)
		}
		return token.Owner
	}
	shared, _ := s.Find(proxy)
	if ann, eve := owner("ann"), owner("eve"); ann == eve || ann == shared.Owner || ann != owner("ann") || len(ann) != len(shared.Owner) {
		t.Errorf("got owners %q and %q", ann, eve)
	}
}

func TestInvalidProxies(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"127.0.0.1": true, "10.0.0.0/8": true, "::1": true, "fd00::/8": true, "0.0.0.0/0": true,
		"10.0.0.1/8": false, "localhost": false, "": false, "fe80::1%eth0": false, "::ffff:10.0.0.0/104": false,
	} {
		if p, err := ParseProxy(text); (err == nil) != ok {
			t.Errorf("%q: got %v, %v", text, p, err)
		}
	}
	if _, _, err := New("sso", []Scope{Context}, nil, netip.MustParsePrefix("::1/128")); err == nil || !strings.Contains(err.Error(), "context") {
		t.Errorf("scope context: got %v", err)
	}
	entry := "sso:\n  hash: " + hashPrefix + strings.Repeat("0", 64) + "\n  owner: gSnAzmfpm1QDbLdWCeOyyA\n  scopes: [read]\n  proxies: "
	for text, want := range map[string]string{"[]\n": "proxies: is empty", "\n": "proxies: is empty", "null\n": "proxies: is empty", "~\n": "proxies: is empty", "[null]\n": "proxies: is empty", "[127.0.0.1]\n  books:\n": "books: is empty", "[127.0.0.1]\n  books: null\n": "books: is empty", "[127.0.0.1]\n  books: [null]\n": "books: is empty", "127.0.0.1\n": "line 5", "[127.0.0.1, x]\n": `"x"`, "[\"::1\", \"10.0.0.0/8\"]\n": ""} {
		if _, err := parse([]byte(entry + text)); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want %q", text, err, want)
		}
	}
}
