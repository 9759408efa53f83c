package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/doctor"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/denied"
	"debrief/events/liveness"
	"debrief/events/natsd"
)

// doctors looks at everything that the pipeline rests on.
type doctors struct {
	place
	app.Model
	app.Embedding
	AcceptDamage bool `help:"Forget the damage that the embedded server has found so far."`
	JSON         bool `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*doctors) Help() string {
	return `Server, streams, durables, replicas, rights, clocks, disk, workers, playbooks, dead letters and, where they are named, models
and embedder: each with a result and, where it is not ok, how to mend it. A model is asked for one token. Nothing is
changed. With the key of a role it checks that role's rights instead. It ends with 1 when something failed and with 4 when no server answers; a warning is no failure.

Examples:

  debrief doctor
  debrief doctor --nats nats://10.0.0.5:4222
  debrief doctor --model gpt-4o-mini --embed-model text-embedding-3-small
  debrief doctor --json | jq '.checks[] | select(.result != "ok")'`
}

// patient is what is examined.
type patient struct {
	nc    *nats.Conn
	dir   string // of the embedded server, if it is one
	where string // a name for it that is no address
	close func()
}

// connect connects and makes nothing: no stream, no directory.
func (p place) connect(log zerolog.Logger) (*patient, error) {
	switch {
	case p.NATS.NATS != "", p.Data == "" && !dirExists(p.dir()):
		return p.examined("", log)
	case !dirExists(p.dir()):
		return nil, p.idle()
	}
	user, password, token, err := p.Login()
	if err != nil {
		return nil, err
	}
	server, err := natsd.Start(natsd.Config{
		Dir: p.dir(), Sync: p.Sync, MaxStore: int64(p.MaxStore), User: user, Password: password, Token: token,
	})
	var used *natsd.InUseError
	switch {
	case errors.As(err, &used) && used.URL != "":
		p.NATS.NATS = used.URL
		return p.examined(p.dir(), log)
	case err != nil:
		return nil, app.Exit(app.ExitUnreachable, err)
	}
	nc, err := server.Connect(app.Options("debrief", log)...)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	return &patient{nc, p.dir(), "the embedded server, which nobody runs just now", func() { nc.Close(); server.Close() }}, nil
}

// examined is a server that runs already.
func (p place) examined(dir string, log zerolog.Logger) (*patient, error) {
	nc, err := p.Dial("debrief", log)
	if err != nil {
		return nil, err
	}
	return &patient{nc, dir, "", nc.Close}, nil
}

// Run implements the command.
func (d *doctors) Run(ctx context.Context, c *app.Common) error {
	server, err := d.connect(c.Logger())
	if err != nil {
		return err
	}
	defer server.close()
	conn, err := bus.Attach(server.nc, bus.Options{Log: c.Logger()})
	if err != nil {
		return err
	}
	x := new(doctor.Exam)
	d.examine(ctx, x, conn, server)
	d.models(ctx, x)
	if d.JSON {
		err = writeJSON(console.Stdout, struct {
			Failed int            `json:"failed"`
			Checks []doctor.Check `json:"checks"`
		}{x.Failed(), x.Checks})
	} else {
		err = printChecks(x.Checks)
	}
	if n := x.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("%s failed", plural(n, "check"))
	}
	return err
}

func (d *doctors) examine(ctx context.Context, x *doctor.Exam, conn *bus.Conn, on *patient) {
	x.Server(on.nc, on.where)
	watch := denied.Of(conn.JetStream())
	if !x.Rights(ctx, conn.NATS(), watch) {
		d.role(ctx, x)
		return
	}
	if on.dir != "" {
		d.disk(x, on.dir)
	}
	if !x.JetStream(ctx, conn.JetStream()) {
		return
	}
	whole := x.Fixtures(ctx, conn)
	reports, err := denied.Call(ctx, watch, events.SubjectHealth, func(ctx context.Context) ([]liveness.Report, error) {
		return liveness.Call(ctx, conn.NATS())
	})
	if err != nil {
		x.Add("roll call", doctor.Fail, "let the user publish ace.health and subscribe to its inbox", "%v", err)
	}
	x.Stores(liveness.Stores(reports))
	x.Clock(ctx, conn.JetStream(), reports, time.Now())
	if !whole {
		return
	}
	d.examineDamage(ctx, x, conn)
	x.Workers(ctx, conn, reports)
	examineBooks(ctx, x, conn)
}

// role finds the role whose credentials these are, by the inboxes that it may subscribe to, and checks its rights.
func (d *doctors) role(ctx context.Context, x *doctor.Exam) {
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		nc, err := d.Dial(role, zerolog.Nop())
		if err != nil {
			return // it went a moment ago
		}
		defer nc.Close()
		watch := denied.New(nc)
		const subject = "$JS.API.INFO" // any answer to it needs the inbox
		_, err = denied.Call(ctx, watch, subject, func(ctx context.Context) (*nats.Msg, error) { return nc.RequestWithContext(ctx, subject, nil) })
		if refused := (*denied.Error)(nil); !errors.As(err, &refused) || !refused.Listen {
			x.Role(ctx, nc, watch, role)
		}
	}
}

// disk looks at the directory of the embedded server.
func (d *doctors) disk(x *doctor.Exam, dir string) {
	free, size, err := natsd.Disk(dir)
	reserve := natsd.Reserve(size)
	switch {
	case err != nil:
		x.Add("disk", doctor.Warn, "", "how much room %s has is not known: %v", dir, err)
	case free < reserve:
		x.Add("disk", doctor.Fail, "free space on that disk, or move the directory to a larger one: the server opens within a second of it", "%s has %d MiB left, less than the %d MiB that are reserved, so the server takes nothing new", dir, free>>20, reserve>>20)
	case free < 2*reserve:
		x.Add("disk", doctor.Fail, "make room, or move the directory to a larger disk: a full one stops everything", "%s has %d MiB left", dir, free>>20)
	case free < 8*reserve:
		x.Add("disk", doctor.Warn, "make room, or move the directory to a larger disk", "%s has %d MiB left", dir, free>>20)
	default:
		x.Add("disk", doctor.OK, "", "%s has %d GiB left", dir, free>>30)
	}
	if d.Sync != natsd.SyncAlways {
		x.Add("sync", doctor.Warn, "say --sync always where that must not be", "--sync %s: a power cut loses what was stored since the last flush", d.Sync)
	} else {
		x.Add("sync", doctor.OK, "", "always, as this program is set: what is acknowledged is on disk")
	}
}

// models asks each model that is named for a token, and the embedder for a vector.
func (d *doctors) models(ctx context.Context, x *doctor.Exam) {
	mend := "see --model, --base-url and the key (OPENAI_API_KEY); what the server says is in the line above"
	if !d.Named() {
		x.Add("model", doctor.OK, "", "not asked: name one with --model")
	}
	var asked []string
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		m, err := d.Optional(role)
		if err == nil && m == nil {
			continue
		}
		if err != nil {
			x.Add("model", doctor.Fail, mend, "%v", err)
			continue
		}
		name := map[string]string{events.RoleGenerator: d.GeneratorModel, events.RoleReflector: d.ReflectorModel, events.RoleCurator: d.CuratorModel}[role]
		if name == "" {
			name = d.Model.Model
		}
		if slices.Contains(asked, name) {
			continue
		}
		asked = append(asked, name)
		began := time.Now()
		r, err := m.Complete(ctx, chat.Prompt{Name: role, MaxTokens: 1, Messages: []chat.Message{{Speaker: chat.User, Text: "Say ok."}}})
		if err != nil {
			x.Add("model", doctor.Fail, mend, "%s: %s", console.Line(name), console.Line(err.Error()))
			continue
		}
		cost := ""
		if r.Usage.Cost > 0 {
			cost = fmt.Sprintf(", %.6f dollars", r.Usage.Cost)
		}
		x.Add("model", doctor.OK, "", "%s answers in %s, for %d tokens%s", console.Line(name), time.Since(began).Round(time.Millisecond), r.Usage.Tokens(), cost)
	}
	e, err := d.Embedder(d.Model)
	if e != nil && err == nil {
		var vectors [][]float32
		if vectors, err = e.Embed(ctx, []string{"ok"}); err == nil {
			x.Add("embedder", doctor.OK, "", "%s makes vectors of %d numbers", console.Line(d.EmbedModel), len(vectors[0]))
		}
	}
	if err != nil {
		x.Add("embedder", doctor.Fail, "see --embed-model, --embed-base-url and --embed-api-key; without an embedder texts are found by their words", "%s", console.Line(err.Error()))
	}
}

func printChecks(checks []doctor.Check) error {
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	for _, c := range checks {
		console.Fprintf(w, "%s\t%s\t%s\n", c.Result, c.Name, console.Line(c.Text))
		if c.Mend != "" {
			console.Fprintf(w, "\t\tmend: %s\n", c.Mend)
		}
	}
	return w.Flush()
}
