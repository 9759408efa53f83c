package ops

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

// Credentials creates certificates, accounts and keys for a server with TLS and one user per role.
type Credentials struct {
	Dir    string   `arg:"" help:"Directory for the files." type:"path"`
	Tenant []string `help:"Tenant to add, with streams and users; repeatable. Default: debrief, for a new directory." placeholder:"NAME"`
	Host   []string `help:"Host name or address for the certificate, besides localhost and 127.0.0.1; repeatable." placeholder:"NAME"`
}

// Help implements kong.HelpProvider.
func (*Credentials) Help() string {
	return `Creates in DIR:

  ca.pem                       certificate authority, for the --ca of clients
  server.pem, server-key.pem   certificate and key of the server
  accounts.conf                server configuration: tenants, users, public keys and rights
  TENANT/USER.nk               secret key for --nkey, for generator, reflector, curator, operator and agent

Keys and certificates are never overwritten. Repeat the command with --tenant to add a tenant. Repeat it after an update of
this program to write accounts.conf with the rights of the new version and the same keys. Each role has a separate account,
and its key allows only the work of this role. The operator's key can change everything in its tenant: guard it. The key of
the authority is not stored. For a new certificate move ca.pem, server.pem and server-key.pem away and repeat the command.

Examples:

  debrief credentials secrets --host nats.example.org
  debrief credentials secrets --tenant acme --tenant globex
  debrief credentials secrets

Then start the server with deploy/nats/server.conf and create the streams:

  debrief setup --nats tls://nats.example.org:4222 --ca secrets/ca.pem --nkey secrets/debrief/operator.nk`
}

var tenantName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// certificateLifetime is the validity of certificates.
const certificateLifetime = 5 * 365 * 24 * time.Hour

// Run implements the command.
func (c *Credentials) Run(context.Context) error {
	if err := c.validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	created, err := c.createCertificates()
	if err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	before, changed, err := c.updateAccounts()
	if err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	if created {
		console.Printf("%s: authority, certificate for %s\n", c.Dir, strings.Join(c.hosts(), ", "))
	}
	for _, tenant := range c.Tenant {
		console.Printf("%s: one key per user\n", filepath.Join(c.Dir, tenant))
	}
	if changed && len(before) > 0 {
		console.Printf("%s: updated; reload the configuration of the servers (SIGHUP or a restart)\n", c.path("accounts.conf"))
	}
	if !created && !changed {
		console.Printf("%s: complete; nothing was created\n", c.Dir)
	}
	return nil
}

// validate sets the default tenant and checks all arguments and existing files, before anything is written.
func (c *Credentials) validate() error {
	if len(c.Tenant) == 0 && !pathExists(c.path("accounts.conf")) {
		c.Tenant = []string{"debrief"}
	}
	for i, tenant := range c.Tenant {
		if !tenantName.MatchString(tenant) || slices.Contains(c.Tenant[:i], tenant) {
			return app.Exit(app.ExitUsage, fmt.Errorf("--tenant: want a unique name of letters, digits, - and _ that starts with a letter, got %q", tenant))
		}
		if pathExists(c.path(tenant)) {
			return app.Exit(app.ExitRefused, fmt.Errorf("--tenant: %s already exists, and keys are not overwritten", c.path(tenant)))
		}
	}
	for _, host := range c.Host {
		if host == "" || strings.ContainsAny(host, ":/ ") && net.ParseIP(host) == nil {
			return app.Exit(app.ExitUsage, fmt.Errorf("--host: want a name or an address without a port, got %q", host))
		}
	}
	existing := slices.DeleteFunc([]string{"ca.pem", "server.pem", "server-key.pem"}, func(name string) bool { return !pathExists(c.path(name)) })
	switch {
	case len(existing) != 0 && len(existing) != 3:
		return app.Exit(app.ExitRefused, fmt.Errorf("%s contains only %s of the certificate files: move it away", c.Dir, strings.Join(existing, ", ")))
	case len(existing) == 3 && len(c.Host) > 0:
		return app.Exit(app.ExitRefused, fmt.Errorf("--host: %s already exists: for a new certificate move it, ca.pem and server-key.pem away", c.path("server.pem")))
	}
	return nil
}

func (c *Credentials) path(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (c *Credentials) hosts() []string {
	hosts := []string{"localhost", "127.0.0.1"}
	for _, host := range c.Host {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// createCertificates creates an authority and the certificate of the server. It reports false if they exist.
func (c *Credentials) createCertificates() (created bool, err error) {
	if pathExists(c.path("ca.pem")) {
		return false, nil
	}
	ca := certificateTemplate("Debrief authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.MaxPathLenZero = true, true, true
	ca.KeyUsage = x509.KeyUsageCertSign
	server := certificateTemplate("Debrief NATS server")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // servers of a cluster are clients of each other
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
		return false, fmt.Errorf("create the certificate authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, server, ca, &key.PublicKey, caKey)
	if err != nil {
		return false, fmt.Errorf("create the server certificate: %w", err)
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
		if err := writeNewFile(c.path(f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return false, err
		}
	}
	return true, nil
}

func certificateTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // rand.Reader does not fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(certificateLifetime), // an hour earlier, because clocks differ
	}
}

// writeNewFile writes a file and fails if it exists.
func writeNewFile(name string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// updateAccounts creates the keys of new tenants and writes accounts.conf with the rights of this version. It returns the
// tenants that existed before, and whether the file has changed.
func (c *Credentials) updateAccounts() (before []rights.Tenant, changed bool, err error) {
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
		t, err := c.createTenant(name)
		if err != nil {
			return nil, false, err
		}
		tenants = append(tenants, t)
	}
	conf := rights.Conf(tenants)
	if conf == string(text) {
		return before, false, nil
	}
	// Replace the file atomically: a server may read it at any time.
	if err := os.WriteFile(file+".new", []byte(conf), 0o644); err != nil {
		return nil, false, err
	}
	return before, true, os.Rename(file+".new", file)
}

// createTenant creates the keys of the users of one tenant.
func (c *Credentials) createTenant(name string) (rights.Tenant, error) {
	t := rights.Tenant{Name: name, Keys: map[string]string{}}
	if err := os.Mkdir(c.path(name), 0o755); err != nil {
		return t, err
	}
	for _, user := range rights.Users() {
		seed, public, err := newKey()
		if err != nil {
			return t, fmt.Errorf("create the key of %s: %w", user.Name, err)
		}
		if err := writeNewFile(c.path(name, user.Name+".nk"), append(seed, '\n'), 0o600); err != nil {
			return t, err
		}
		t.Keys[user.Name] = public
	}
	return t, nil
}

// newKey returns the seed and the public key of a new user.
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
