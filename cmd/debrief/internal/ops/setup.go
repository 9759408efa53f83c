package ops

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/rights"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
	"debrief/events/streams"
)

// Setup creates the streams, buckets and consumers of the roles, so that the roles need no permission to create them.
type Setup struct {
	program.NATS
	cli.NoGateway
	WaitServer time.Duration `help:"Longest wait for a server that does not answer yet." placeholder:"DURATION" default:"0s"`
	DryRun     bool          `help:"Change nothing; list what would be created or changed." env:"-"`
	JSON       bool          `help:"Print one JSON document: the streams, or with --dry-run the steps."`
	program.Retention
}

func (*Setup) Help() string {
	return `Create missing streams, buckets and durable consumers, and list the streams. In existing ones it changes only:

  - the limits of --…-age, --…-size and --…-values that a flag, a variable or the file of --config sets; a limit that none
    sets keeps its value. An age that is too short for what refers to the messages is raised; see --dry-run
  - the ack wait of the consumers (--ack-wait)

A shorter age deletes older messages at once. The log of the playbooks is kept for ever. A server without users needs no setup:
the programs create the streams with the defaults.

Examples:

  debrief setup --nats nats://nats:4222 --replicas 3
  debrief setup --executions-age 90d --dry-run
  debrief setup --wait-server 1m`
}

func (s *Setup) Check() error { return errors.Join(s.NoGateway.Check(), s.NATS.Check()) }

func (s *Setup) Run(ctx context.Context, c *program.Common, settings program.Effective) error {
	if s.WaitServer < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--wait-server: must be at least 0, got %s", s.WaitServer))
	}
	nc, conn, err := s.connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer nc.Close()
	if s.DryRun {
		return s.plan(ctx, conn, settings)
	}
	if _, err := s.SetLimits(ctx, conn, s.Replicas, settings); err != nil {
		return err
	}
	within, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if err := conn.Consumers.Create(within); err != nil {
		return err
	}
	all, err := conn.Streams(within)
	if err != nil {
		return err
	}
	if s.JSON {
		return cli.WriteJSON(term.Stdout, all)
	}
	return term.PrintTable(term.Stdout, "stream\treplicas\tmessages\tconsumers\tage limit\tsize limit", all, func(w io.Writer, x bus.StreamState) {
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\n", x.Name, x.Replicas, x.Messages, x.Consumers, formatAgeLimit(x), formatSizeLimit(x))
	})
}

// plan prints what Run would create and change.
func (s *Setup) plan(ctx context.Context, conn *bus.Conn, settings program.Effective) error {
	steps, err := s.PlanLimits(ctx, conn, s.Replicas, settings)
	if err != nil {
		return err
	}
	consumers, err := conn.Consumers.Plan(ctx)
	if err != nil {
		return err
	}
	steps = append(steps, consumers...)
	if s.JSON {
		return cli.WriteJSON(term.Stdout, steps)
	}
	if len(steps) == 0 {
		term.Println("nothing to create or change")
		return nil
	}
	w := term.NewTable(term.Stdout)
	for _, step := range steps {
		if step.Create {
			term.Fprintf(w, "create %s\n", step.Stream)
		} else {
			term.Fprintf(w, "change %s\n", step.Stream)
		}
		for _, c := range step.Changes {
			value := c.To
			if c.From != "" {
				value = c.From + " → " + c.To
			}
			term.Fprintf(w, "  %s\t%s\t%s\n", c.Setting, value, c.Why)
		}
	}
	return w.Flush()
}

// formatAgeLimit formats the age limit of a stream for a table, "-" for none.
func formatAgeLimit(s bus.StreamState) string {
	if s.MaxAge == 0 {
		return "-"
	}
	return streams.Age(s.MaxAge).String()
}

// formatSizeLimit formats the limit of the size of a stream for a table, "-" for none.
func formatSizeLimit(s bus.StreamState) string {
	switch {
	case s.MaxBytes > 0:
		return streams.Size(s.MaxBytes).String()
	case s.MaxMessages > 0:
		return fmt.Sprintf("%d values", s.MaxMessages)
	}
	return "-"
}

// connect connects to the server and opens its streams, which a dry run does not create. It waits up to --wait-server for the server.
func (s *Setup) connect(ctx context.Context, log zerolog.Logger) (nc *nats.Conn, conn *bus.Conn, err error) {
	defer term.Doing("waiting for the server")()
	err = program.RetryUnreachable(ctx, s.WaitServer, func() error {
		var err error
		nc, err = s.Dial("debrief", log)
		if err != nil {
			return err
		}
		if s.DryRun {
			conn, err = bus.Attach(nc, bus.Options{Log: log, Policy: bus.Policy{AckWait: s.AckWait}})
		} else {
			conn, err = s.Open(ctx, nc, "", log)
		}
		if err != nil {
			nc.Close()
		}
		return err
	})
	return nc, conn, err
}

// Credentials creates certificates, accounts and keys for a server with TLS and one user per role.
type Credentials struct {
	cli.NoGateway
	Dir    string   `arg:"" help:"Directory for the files." type:"path"`
	Tenant []string `help:"Tenant to add, with streams and users; repeatable. Default: debrief, for a new directory." placeholder:"NAME"`
	JSON   bool     `help:"Print one JSON document."`
	Host   []string `help:"Host name or address for the certificate, besides localhost and 127.0.0.1; repeatable." placeholder:"NAME"`
}

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

func (c *Credentials) Run() error {
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
