package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nkeys"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/rights"
)

// credentials makes what a server with TLS and a user per role needs to know, and what its users do.
type credentials struct {
	Dir    string   `arg:"" help:"Directory to make them in." type:"path"`
	Tenant []string `help:"Tenant to add, with its streams and users. May be repeated. Default: debrief, where the directory has no tenant yet." placeholder:"NAME"`
	Host   []string `help:"Name or address under which clients reach the server, besides localhost and 127.0.0.1. May be repeated." placeholder:"NAME"`
}

// Help implements kong.HelpProvider.
func (*credentials) Help() string {
	return `Makes, in DIR:

  ca.pem                       what clients trust: --ca
  server.pem, server-key.pem   the server's certificate, and its key
  accounts.conf                for the server: the rights of each user, and the tenants with their users' public keys
  TENANT/USER.nk               the secret key of each user: --nkey; for generator, reflector, curator, operator, agent

Keys and certificates are never overwritten. Another call with another --tenant adds it. Another call with a new version of
this program writes accounts.conf again with the rights of that version and the same keys. Each role has an account of its
own, so that its key is good for its own work only; the operator's key can change everything of its tenant: guard it.
The key of the authority is not kept: for a new certificate, move ca.pem, server.pem and server-key.pem away and call again.

Examples:

  debrief credentials secrets --host nats.example.org
  debrief credentials secrets --tenant acme --tenant globex
  debrief credentials secrets

Then start the server as in deploy/nats/server.conf, and:

  debrief setup --nats tls://nats.example.org:4222 --ca secrets/ca.pem --nkey secrets/debrief/operator.nk`
}

var tenantName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// certificateAge is how long certificates hold.
const certificateAge = 5 * 365 * 24 * time.Hour

// Run implements the command.
func (c *credentials) Run(context.Context) error {
	if err := c.valid(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	made, err := c.certificates()
	if err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	before, changed, err := c.accounts()
	if err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	if made {
		console.Printf("%s: authority, certificate for %s\n", c.Dir, strings.Join(c.hosts(), ", "))
	}
	for _, tenant := range c.Tenant {
		console.Printf("%s: a key for each user\n", filepath.Join(c.Dir, tenant))
	}
	if changed && len(before) > 0 {
		console.Printf("%s: written again; have the servers read it (SIGHUP, or a restart)\n", c.path("accounts.conf"))
	}
	if !made && !changed {
		console.Printf("%s: all there; nothing was made\n", c.Dir)
	}
	return nil
}

// valid also settles which tenants are to be made. All is looked at before anything is written.
func (c *credentials) valid() error {
	if len(c.Tenant) == 0 && !isThere(c.path("accounts.conf")) {
		c.Tenant = []string{"debrief"}
	}
	for i, tenant := range c.Tenant {
		if !tenantName.MatchString(tenant) || slices.Contains(c.Tenant[:i], tenant) {
			return app.Exit(app.ExitUsage, fmt.Errorf("--tenant: want different names of letters, digits, - and _ that begin with a letter, got %q", tenant))
		}
		if isThere(c.path(tenant)) {
			return app.Exit(app.ExitRefused, fmt.Errorf("--tenant: %s is there already, and keys are not overwritten", c.path(tenant)))
		}
	}
	for _, host := range c.Host {
		if host == "" || strings.ContainsAny(host, ":/ ") && net.ParseIP(host) == nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--host: want a name or an address without a port, got %q", host))
		}
	}
	there := slices.DeleteFunc([]string{"ca.pem", "server.pem", "server-key.pem"}, func(name string) bool { return !isThere(c.path(name)) })
	switch {
	case len(there) != 0 && len(there) != 3:
		return app.Exit(app.ExitRefused, fmt.Errorf("%s has %s and not the rest of the certificate: move it away", c.Dir, strings.Join(there, ", ")))
	case len(there) == 3 && len(c.Host) > 0:
		return app.Exit(app.ExitRefused, fmt.Errorf("--host: %s is there already: for a new certificate move it, ca.pem and server-key.pem away", c.path("server.pem")))
	}
	return nil
}

func (c *credentials) path(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

func isThere(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (c *credentials) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1"}
	for _, host := range c.Host {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// certificates makes an authority and the server's certificate, unless they are there.
func (c *credentials) certificates() (made bool, err error) {
	if isThere(c.path("ca.pem")) {
		return false, nil
	}
	ca := certificate("Debrief authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.MaxPathLenZero = true, true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	server := certificate("Debrief NATS server")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // a server of a cluster is the client of another
	for _, host := range c.hosts() {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return false, err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return false, fmt.Errorf("make the authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, server, ca, &key.PublicKey, caKey)
	if err != nil {
		return false, fmt.Errorf("make the server's certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return false, err
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
		mode       fs.FileMode
	}{
		{"server-key.pem", "PRIVATE KEY", keyDER, 0o600},
		{"server.pem", "CERTIFICATE", der, 0o644},
		{"ca.pem", "CERTIFICATE", caDER, 0o644},
	} {
		if err := create(c.path(f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return false, err
		}
	}
	return true, nil
}

func certificate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // rand.Reader does not fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateAge), // clocks differ
	}
}

// create writes a file that is not there yet.
func create(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// accounts makes the users of new tenants and writes accounts.conf with the rights of this version. It returns the tenants
// that were there before, and reports whether the file has changed.
func (c *credentials) accounts() (before []rights.Tenant, changed bool, err error) {
	file := c.path("accounts.conf")
	text, err := os.ReadFile(file)
	if err == nil {
		if before, err = rights.Tenants(string(text)); err != nil {
			return nil, false, fmt.Errorf("%s: %w", file, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	tenants := slices.Clone(before)
	for _, name := range c.Tenant {
		t, err := c.tenant(name)
		if err != nil {
			return nil, false, err
		}
		tenants = append(tenants, t)
	}
	conf := rights.Conf(tenants)
	if conf == string(text) {
		return before, false, nil
	}
	// Whole or not at all: a server may read it at any time.
	if err := os.WriteFile(file+".new", []byte(conf), 0o644); err != nil {
		return nil, false, err
	}
	return before, true, os.Rename(file+".new", file)
}

// tenant makes the keys of one tenant's users.
func (c *credentials) tenant(name string) (rights.Tenant, error) {
	t := rights.Tenant{Name: name, Keys: map[string]string{}}
	if err := os.Mkdir(c.path(name), 0o755); err != nil {
		return t, err
	}
	for _, user := range rights.Users() {
		seed, public, err := newKey()
		if err != nil {
			return t, fmt.Errorf("make the key of %s: %w", user.Name, err)
		}
		if err := create(c.path(name, user.Name+".nk"), append(seed, '\n'), 0o600); err != nil {
			return t, err
		}
		t.Keys[user.Name] = public
	}
	return t, nil
}

// newKey makes the key of a user.
func newKey() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", err
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, "", err
	}
	public, err = pair.PublicKey()
	return seed, public, err
}
