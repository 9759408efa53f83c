package ops

import (
	"context"
	"path/filepath"
	"strings"

	"debrief/cmd/internal/operate/rights"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// Credentials creates certificates, accounts and keys for a server with TLS and one user per role.
type Credentials struct {
	cli.NoGateway
	Dir    string   `arg:"" help:"Directory for the files." type:"path"`
	Tenant []string `help:"Tenant to add, with streams and users; repeatable. Default: debrief, for a new directory." placeholder:"NAME"`
	JSON   bool     `help:"Print one JSON document."`
	Host   []string `help:"Host name or address for the certificate, besides localhost and 127.0.0.1; repeatable." placeholder:"NAME"`
}

// Help implements kong.HelpProvider.
func (*Credentials) Help() string {
	return `Creates in DIR:

  ca.pem                       certificate authority, for the --ca of clients
  server.pem, server-key.pem   certificate and key of the server
  accounts.conf                server configuration: tenants, users, rights
  TENANT/USER.nk               secret key for --nkey: USER is generator,
                               reflector, curator, gateway, operator or agent

Keys and certificates are never overwritten. Repeat the command with --tenant to add a tenant. Repeat it after an update of
this program to write accounts.conf with the rights of the new version and the same keys. Each role has a separate account,
and its key allows only the work of this role. The operator's key can change everything in its tenant: guard it. The key of
the authority is not stored. For a new certificate move ca.pem, server.pem and server-key.pem away and repeat the command.

Examples:

  debrief credentials secrets --host nats.example.org
  debrief credentials secrets --tenant acme --tenant globex
  debrief credentials secrets

Then start the server with deploy/nats/server.conf, and create the streams with 'debrief setup', --nats, --ca secrets/ca.pem
and --nkey secrets/debrief/operator.nk.`
}

// Run implements the command.
func (c *Credentials) Run(context.Context) error {
	files := &rights.Credentials{Dir: c.Dir, Tenants: c.Tenant, Hosts: c.Host}
	if len(files.Tenants) == 0 && !files.HasAccounts() {
		files.Tenants = []string{"debrief"}
	}
	if err := files.Validate(); err != nil {
		return program.Exit(program.ExitUsage, err)
	}
	if err := files.Check(); err != nil {
		return program.Exit(program.ExitRefused, err)
	}
	created, err := files.Create()
	if err != nil {
		return program.Exit(program.ExitRefused, err)
	}
	reload := created.Accounts && created.HadTenants
	if c.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			Dir          string   `json:"dir"`
			Tenants      []string `json:"tenants"` // tenants with new keys
			Hosts        []string `json:"hosts"`   // of a new certificate
			Certificates bool     `json:"certificates_created"`
			Accounts     bool     `json:"accounts_written"`
			Reload       bool     `json:"reload_servers"`
		}{c.Dir, files.Tenants, files.CertificateHosts(), created.Certificates, created.Accounts, reload})
	}
	if created.Certificates {
		term.Printf("%s: authority, certificate for %s\n", c.Dir, strings.Join(files.CertificateHosts(), ", "))
	}
	for _, tenant := range files.Tenants {
		term.Printf("%s: one key per user\n", filepath.Join(c.Dir, tenant))
	}
	if reload {
		term.Printf("%s: updated; reload the configuration of the servers (SIGHUP or a restart)\n", filepath.Join(c.Dir, "accounts.conf"))
	}
	if !created.Certificates && !created.Accounts {
		term.Printf("%s: complete; nothing was created\n", c.Dir)
	}
	return nil
}
