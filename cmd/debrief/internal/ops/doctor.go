package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/events/natsd"
	"debrief/events/natserr"
	"debrief/events/streams"
)

// Doctor diagnoses the server, the streams, the workers and the models.
type Doctor struct {
	cli.NATSFlags
	program.Model
	program.Embedding
	AcceptDamage bool `help:"Clear the damage report of the embedded server."`
	JSON         bool `help:"Print one JSON document."`
}

func (*Doctor) Help() string {
	return `Checks server, streams, durables, replicas, rights, clocks, disk, workers, playbooks and dead letters. With --model and
--embed-model it also checks the models (one token each) and the embedder. Each check prints a result and, if it is not ok,
a fix. The command changes nothing, except with --accept-damage. With the key of a role it checks only the rights of this
role. Exit code 1 if a check failed, 4 if no server is reachable; a warning is not a failure.

Examples:

  debrief doctor
  debrief doctor --nats nats://10.0.0.5:4222
  debrief doctor --model gpt-4o-mini --embed-model text-embedding-3-small
  debrief doctor --json | jq '.checks[] | select(.result != "ok")'`
}

func (d *Doctor) Run(ctx context.Context, c *program.Common) error {
	s, err := d.Attach(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	report := new(doctor.Report)
	d.check(ctx, report, s)
	d.checkModels(ctx, report)
	if ctx.Err() != nil {
		return context.Cause(ctx) // a check that was interrupted has not failed
	}
	if d.JSON {
		err = cli.WriteJSON(term.Stdout, struct {
			Failed int            `json:"failed"`
			Checks []doctor.Check `json:"checks"`
		}{report.Failed(), report.Checks})
	} else {
		err = printChecks(report.Checks)
	}
	if n := report.Failed(); err == nil && n > 0 {
		err = fmt.Errorf("%s failed", term.Plural(n, "check"))
	}
	return err
}

// check checks the server and what it stores. With the key of a role it checks only the rights, because the server does not answer most
// other requests of a role.
func (d *Doctor) check(ctx context.Context, report *doctor.Report, s *cli.Session) {
	conn := s.Conn
	name := "" // report.Server then names the address
	if s.Server != nil {
		name = "the embedded server, started for this check"
	}
	report.Server(conn.NATS(), name)
	watch := natserr.WatchOf(conn.JetStream())
	mayAskMore := report.Rights(ctx, conn.NATS(), watch)
	if !mayAskMore {
		flags := d.NATS
		if s.Data != "" {
			flags.NATS = conn.NATS().ConnectedUrl() // the flags have no address: Attach found the server by its directory
		}
		report.Roles(ctx, func(role string) (*nats.Conn, error) { return flags.Dial(role, zerolog.Nop()) })
		return
	}
	if s.Data != "" {
		free, size, err := natsd.Disk(s.Data)
		report.Disk(s.Data, free, natsd.Reserve(size), err)
	}
	if !report.JetStream(ctx, conn.JetStream()) {
		return
	}
	streamsOK := report.Resources(ctx, conn)
	reports, err := natserr.Call(ctx, watch, events.SubjectHealth, func(ctx context.Context) ([]liveness.Report, error) {
		return liveness.CollectReports(ctx, conn.NATS())
	})
	if err != nil {
		report.Add("roll call", doctor.Fail, "grant the user to publish debrief.health and to subscribe to its inbox", "%v", err)
	}
	report.StoreErrors(liveness.StoreErrors(reports))
	report.Clock(ctx, conn.JetStream(), reports, time.Now())
	if !streamsOK {
		return
	}
	d.checkDamage(ctx, report, conn)
	report.Workers(ctx, conn, reports)
	report.Playbooks(ctx, deltalog.New(conn.JetStream()))
}

// checkModels checks the models and the embedder of the flags.
func (d *Doctor) checkModels(ctx context.Context, report *doctor.Report) {
	defer term.Doing("waiting for the reply of the model")()
	var models []doctor.RoleModel
	for _, role := range streams.Roles { // a role without a model has a nil Model
		m, err := d.ForCheck().OptionalClient(role)
		models = append(models, doctor.RoleModel{Role: role, Name: d.NameOf(role), Model: m, Err: err})
	}
	report.Models(ctx, models)
	e, err := d.Embedder(d.Model)
	if e != nil || err != nil { // both are nil without --embed-model
		report.Embedder(ctx, d.EmbedModel, e, err)
	}
}

func printChecks(checks []doctor.Check) error {
	w := term.NewTable(term.Stdout)
	for _, c := range checks {
		term.Fprintf(w, "%s\t%s\t%s\n", c.Result, c.Name, term.Line(c.Text))
		if c.Fix != "" {
			term.Fprintf(w, "\t\tfix: %s\n", c.Fix)
		}
	}
	return w.Flush()
}

// maxStreamSize is the largest stream, in bytes, that the doctor reads completely. Reading 1 GiB takes a second or two.
const maxStreamSize = 1 << 30

// checkDamage checks the streams for gaps. With --accept-damage it first clears the damage report.
func (d *Doctor) checkDamage(ctx context.Context, report *doctor.Report, conn *bus.Conn) {
	if d.AcceptDamage {
		if !d.Embedded() {
			report.Add("damage", doctor.Fail, "run it on the machine with the data directory, without --nats", "--accept-damage applies to an embedded server only")
		} else if err := natsd.AcceptDamage(d.Dir()); err != nil {
			report.Add("damage", doctor.Fail, "check the permissions of the directory", "%v", err)
		}
	}
	all, err := d.Damage(ctx, conn, maxStreamSize)
	if err != nil {
		report.Add("damage", doctor.Fail, "see the checks above", "%v", err)
		return
	}
	report.Damage(all, maxStreamSize)
}
