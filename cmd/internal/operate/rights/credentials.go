package rights

import (
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

	"github.com/google/renameio/v2/maybe"
	"github.com/nats-io/nkeys"
)

// Credentials are the files of a server with TLS and one user per role, in the directory Dir.
type Credentials struct {
	Dir     string
	Tenants []string // tenants to add
	Hosts   []string // names and addresses for the certificate, besides localhost and 127.0.0.1
}

// Created describes what Create has written.
type Created struct {
	Certificates bool // authority and certificate of the server
	Accounts     bool // accounts.conf
	HadTenants   bool // accounts.conf existed, with tenants: servers must read it again
}

var tenantName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,63}$`)

// certificateLifetime is the validity of certificates.
const certificateLifetime = 5 * 365 * 24 * time.Hour

// Validate returns an error for an invalid tenant or host. It reads no files.
func (c *Credentials) Validate() error {
	for i, tenant := range c.Tenants {
		if !tenantName.MatchString(tenant) || slices.Contains(c.Tenants[:i], tenant) {
			return fmt.Errorf("--tenant: want a unique name of letters, digits, - and _ that starts with a letter, got %q", tenant)
		}
	}
	for _, host := range c.Hosts {
		if host == "" || strings.ContainsAny(host, ":/ ") && net.ParseIP(host) == nil {
			return fmt.Errorf("--host: want a name or an address without a port, got %q", host)
		}
	}
	return nil
}

// Check returns an error if Create would overwrite a file, or if files of the certificates are missing.
func (c *Credentials) Check() error {
	for _, tenant := range c.Tenants {
		if pathExists(c.path(tenant)) {
			return fmt.Errorf("--tenant: %s already exists, and keys are not overwritten", c.path(tenant))
		}
	}
	files := []string{"ca.pem", "server.pem", "server-key.pem"}
	existing := slices.DeleteFunc(slices.Clone(files), func(name string) bool { return !pathExists(c.path(name)) })
	complete := len(existing) == len(files)
	switch {
	case len(existing) > 0 && !complete:
		return fmt.Errorf("%s contains only %s of the certificate files: move it away", c.Dir, strings.Join(existing, ", "))
	case complete && len(c.Hosts) > 0:
		return fmt.Errorf("--host: %s already exists: for a new certificate move it, ca.pem and server-key.pem away", c.path("server.pem"))
	}
	return nil
}

// HasAccounts reports whether the directory contains accounts.conf.
func (c *Credentials) HasAccounts() bool { return pathExists(c.path("accounts.conf")) }

// Create creates the certificates, unless they exist, and the keys of the new tenants. It writes accounts.conf if the file changes.
// Call Validate and Check before.
func (c *Credentials) Create() (Created, error) {
	var created Created
	if err := os.MkdirAll(c.Dir, 0o755); err != nil {
		return created, err
	}
	if !pathExists(c.path("ca.pem")) {
		if err := c.createCertificates(); err != nil {
			return created, err
		}
		created.Certificates = true
	}
	err := c.updateAccounts(&created)
	return created, err
}

func (c *Credentials) path(names ...string) string {
	return filepath.Join(append([]string{c.Dir}, names...)...)
}

func pathExists(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// CertificateHosts returns the names and addresses of the certificate, without duplicates.
func (c *Credentials) CertificateHosts() []string {
	hosts := []string{"localhost", "127.0.0.1"}
	for _, host := range c.Hosts {
		if !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	return hosts
}

// createCertificates creates an authority and the certificate of the server. It writes ca.pem last, because Create creates the files if
// ca.pem does not exist.
func (c *Credentials) createCertificates() error {
	ca := certificateTemplate("Debrief authority")
	ca.IsCA = true
	ca.BasicConstraintsValid = true
	ca.MaxPathLenZero = true
	ca.KeyUsage = x509.KeyUsageCertSign
	server := certificateTemplate("Debrief NATS server")
	server.KeyUsage = x509.KeyUsageDigitalSignature
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} // servers of a cluster are clients of each other
	for _, host := range c.CertificateHosts() {
		if ip := net.ParseIP(host); ip != nil {
			server.IPAddresses = append(server.IPAddresses, ip)
		} else {
			server.DNSNames = append(server.DNSNames, host)
		}
	}
	caKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, &caKey.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("create the certificate authority: %w", err)
	}
	der, err := x509.CreateCertificate(rand.Reader, server, ca, &key.PublicKey, caKey)
	if err != nil {
		return fmt.Errorf("create the server certificate: %w", err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
		mode       fs.FileMode
	}{
		{name: "server-key.pem", kind: "PRIVATE KEY", der: keyDER, mode: 0o600},
		{name: "server.pem", kind: "CERTIFICATE", der: der, mode: 0o644},
		{name: "ca.pem", kind: "CERTIFICATE", der: caDER, mode: 0o644},
	} {
		if err := writeNewFile(c.path(f.name), pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), f.mode); err != nil {
			return err
		}
	}
	return nil
}

func certificateTemplate(name string) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)) // rand.Reader does not fail
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-time.Hour), // because clocks differ
		NotAfter:  now.Add(certificateLifetime),
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

// updateAccounts creates the keys of new tenants and writes accounts.conf with the rights of this version. It sets Accounts and HadTenants.
func (c *Credentials) updateAccounts(created *Created) error {
	file := c.path("accounts.conf")
	before, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var tenants []Tenant
	if err == nil {
		if tenants, err = Tenants(string(before)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	created.HadTenants = len(tenants) > 0
	for _, name := range c.Tenants {
		t, err := c.createTenant(name)
		if err != nil {
			return err
		}
		tenants = append(tenants, t)
	}
	conf := Conf(tenants)
	if conf == string(before) {
		return nil
	}
	if err := maybe.WriteFile(file, []byte(conf), 0o644); err != nil { // replaces the file at once, because a server may read it at any time
		return err
	}
	created.Accounts = true
	return nil
}

// createTenant creates the keys of the users of one tenant.
func (c *Credentials) createTenant(name string) (Tenant, error) {
	t := Tenant{Name: name, Keys: map[string]string{}}
	if err := os.Mkdir(c.path(name), 0o755); err != nil {
		return t, err
	}
	for _, user := range Users() {
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
