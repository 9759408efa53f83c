package rights_test

import (
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/operate/rights"
)

func TestValidateCredentials(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		c     rights.Credentials
		valid bool
	}{
		"nothing":              {rights.Credentials{}, true},
		"names and an address": {rights.Credentials{Tenants: []string{"acme", "globex"}, Hosts: []string{"nats.example.org", "::1"}}, true},
		"a tenant twice":       {rights.Credentials{Tenants: []string{"acme", "acme"}}, false},
		"a path as tenant":     {rights.Credentials{Tenants: []string{"../acme"}}, false},
		"a host with a port":   {rights.Credentials{Hosts: []string{"nats:4222"}}, false},
		"an empty host":        {rights.Credentials{Hosts: []string{""}}, false},
	} {
		if err := test.c.Validate(); (err == nil) != test.valid {
			t.Errorf("%s: got %v, want valid: %t", name, err, test.valid)
		}
	}
}

// TestCreateCredentials creates the files, adds a tenant, and repeats the call without a change.
func TestCreateCredentials(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "secrets")
	read := func(names ...string) string {
		t.Helper()
		data, err := os.ReadFile(filepath.Join(append([]string{dir}, names...)...))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for _, step := range []struct {
		c    rights.Credentials
		want rights.Created
	}{
		{rights.Credentials{Dir: dir, Tenants: []string{"acme"}, Hosts: []string{"nats.example.org", "localhost"}}, rights.Created{Certificates: true, Accounts: true}},
		{rights.Credentials{Dir: dir, Tenants: []string{"globex"}}, rights.Created{Accounts: true, HadTenants: true}},
		{rights.Credentials{Dir: dir}, rights.Created{HadTenants: true}},
	} {
		if err := step.c.Check(); err != nil {
			t.Fatal(err)
		}
		if got, err := step.c.Create(); err != nil || got != step.want {
			t.Fatalf("tenants %q: got %+v, %v; want %+v", step.c.Tenants, got, err, step.want)
		}
	}
	tenants, err := rights.Tenants(read("accounts.conf"))
	if err != nil || len(tenants) != 2 {
		t.Fatalf("got %d tenants, %v; want 2", len(tenants), err)
	}
	for _, u := range rights.Users() {
		if read("acme", u.Name+".nk") == read("globex", u.Name+".nk") {
			t.Errorf("two tenants have the same key of %s", u.Name)
		}
	}
	authority := x509.NewCertPool()
	authority.AppendCertsFromPEM([]byte(read("ca.pem")))
	block, _ := pem.Decode([]byte(read("server.pem")))
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"nats.example.org", "localhost", "127.0.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: authority}); err != nil {
			t.Errorf("certificate for %s: %v", host, err)
		}
	}

	for name, c := range map[string]rights.Credentials{
		"an existing tenant":                {Dir: dir, Tenants: []string{"acme"}},
		"a host of an existing certificate": {Dir: dir, Hosts: []string{"other.example.org"}},
	} {
		if c.Check() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if err := os.Remove(filepath.Join(dir, "ca.pem")); err != nil {
		t.Fatal(err)
	}
	if (&rights.Credentials{Dir: dir}).Check() == nil {
		t.Error("certificates without their authority: accepted")
	}
}
