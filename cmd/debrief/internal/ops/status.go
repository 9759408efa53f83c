package ops

import (
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/events/redact"
	"debrief/events/streams"
)

// Status shows the streams, the progress of each role, and the health of the learning loop.
type Status struct {
	apiclient.Flags
	AlarmAfter time.Duration `help:"Report red after this time with waiting work and no success, or 3 x the p95 if longer."`
	JSON       bool          `help:"Print one JSON document."`
}

func (st *Status) SetDefaults() { st.AlarmAfter = liveness.Floor }

func (*Status) Help() string {
	return `The command asks all workers for a report and waits half a second for replies. The numbers of waiting messages come from
the server, so roles without a worker are included. The first line names the server and the setting that selects it. Advice
follows the tables. The command creates nothing. The levels of a role are:

  - green: the role works, or no work waits for it.
  - yellow: something needs attention, for example a role without a worker.
  - red: nothing is learned, or waiting messages will be lost.

Red ends the command with exit code 6.

Examples:

  debrief status
  watch debrief status
  debrief status --json | jq .level`
}

func (st *Status) Run(ctx context.Context, c *program.Common, from program.Effective) error {
	if st.AlarmAfter < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--alarm-after: must not be negative, got %s", st.AlarmAfter))
	}
	a, err := st.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	return st.print(ctx, a, st.location(a, from))
}

// location is the place of the streams, and the setting that selects it.
type location struct {
	Gateway string `json:"gateway,omitempty"` // address of a gateway; the next two are then empty
	Server  string `json:"server,omitempty"`  // empty if no server runs on the directory: the command starts one to read it
	Data    string `json:"data,omitempty"`    // data directory, empty for a server of --nats
	From    string `json:"from"`              // flag, variable or file that selects it, or "default"
}

// location returns the location of the streams that a client reads.
func (st *Status) location(a *apiclient.Client, from program.Effective) location {
	s := a.Session
	if s == nil { // a client of a gateway
		at := location{Gateway: a.Address(), From: "DEBRIEF_URL"}
		if st.URL != "" {
			at.From = "--url"
		}
		return at
	}
	at := location{Data: s.Data, From: from.Origin("nats")}
	if s.Server == nil { // not in this process
		at.Server = redact.Address(s.NATS().ConnectedUrl())
	}
	if s.Data != "" {
		at.From = from.Origin("data")
	}
	return at
}

// String returns the first line of the status.
func (l location) String() string {
	from := l.From
	if from != "default" {
		from = "from " + from
	}
	switch {
	case l.Gateway != "":
		return fmt.Sprintf("Gateway %s (%s)", l.Gateway, from)
	case l.Data == "":
		return fmt.Sprintf("Server %s (%s)", l.Server, from)
	case l.Server == "":
		return fmt.Sprintf("Data directory %s (%s); no server runs on it", l.Data, from)
	}
	return fmt.Sprintf("Server %s on data directory %s (%s)", l.Server, l.Data, from)
}

// print prints the status. It returns the error for the exit code if anything is red.
func (st *Status) print(ctx context.Context, a *apiclient.Client, at location) error {
	o, err := st.collect(ctx, a)
	if err != nil {
		return err
	}
	if st.JSON {
		err = cli.WriteJSON(term.Stdout, struct {
			At location `json:"at"`
			*doctor.Overview
		}{at, o})
	} else {
		term.Println(at)
		err = printOverview(o)
	}
	if err != nil {
		return err
	}
	if red := o.Red(); len(red) > 0 {
		return program.Exit(program.ExitRed, fmt.Errorf("red: %s", strings.Join(red, ", ")))
	}
	return nil
}

// collect reads the status. With a connection to NATS it adds the missing messages, which the API does not report because a gateway
// may not read all streams.
func (st *Status) collect(ctx context.Context, a *apiclient.Client) (*doctor.Overview, error) {
	reply, err := api.Get[api.Status](ctx, a.Client, "/status", map[string]string{"alarm_after": st.AlarmAfter.String()})
	switch {
	case err != nil:
		return nil, err
	case a.Session == nil: // a client of a gateway
		return reply.Overview, nil
	}
	reply.Damage, err = st.Damage(ctx, a.Conn, 0) // 0: without reading the messages
	if err != nil {
		return nil, err
	}
	reply.Rate() // again, with the damage
	return reply.Overview, nil
}

// printOverview prints the tables, the reasons of the levels, and the advice.
func printOverview(o *doctor.Overview) error {
	if err := printTables(o); err != nil {
		return err
	}
	term.Println()
	printReasons(o)
	for _, line := range o.Advice() {
		term.Println("→", line)
	}
	return nil
}

// printTables prints the tables of the streams, the roles, the gateways and the playbooks.
func printTables(o *doctor.Overview) error {
	w := term.NewTable(term.Stdout)
	term.Fprintf(w, "stream\tmessages\tMiB\tsize limit\tused\toldest\tage limit\n")
	for _, x := range o.Streams {
		term.Fprintf(w, "%s\t%d\t%.1f\t%s\t%s\t%s\t%s\n", x.Name, x.Messages, float64(x.Bytes)/(1<<20), formatSizeLimit(x), formatUsed(x), formatAge(x.Oldest), formatAgeLimit(x))
	}
	term.Fprintf(w, "\nrole\twaiting\tin work\tredelivered\toldest\tlast result\tdead\tworkers\tp50\tp95\thealth\n")
	for _, role := range streams.Roles {
		r := o.Roles[role]
		term.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", role, r.Pending, r.InFlight, r.Redelivered,
			formatAge(r.Oldest), formatAge(r.LastOutput), r.Dead, r.Workers, formatLatency(r.P50), formatLatency(r.P95), r.Level)
	}
	printGateways(w, o)
	if len(o.Books) > 0 {
		term.Fprintf(w, "\nbook\tversion\tbullets\tshown\tview behind\tlast delta\n")
	}
	for _, b := range o.Books {
		term.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", b.Book, b.Version, b.Bullets, b.Shown, b.Lag, formatAge(b.Delta))
	}
	return w.Flush()
}

// printReasons prints the reasons of the levels.
func printReasons(o *doctor.Overview) {
	for _, reason := range o.Store {
		printReason(liveness.Red, reason)
	}
	for _, role := range streams.Roles {
		for _, reason := range o.Roles[role].Reasons {
			printReason(o.Roles[role].Level, reason)
		}
	}
	for _, r := range o.Workers {
		if r.Gateway == nil {
			continue
		}
		for _, reason := range r.Gateway.Reasons {
			printReason(r.Gateway.Level, "gateway: "+reason)
		}
	}
	for _, d := range o.Damage {
		term.Printf("damage: %s\n", term.Line(d.String()))
	}
	for _, b := range o.Books {
		if b.Error != "" {
			printReason(liveness.Red, fmt.Sprintf("playbook %s: %s", b.Book, b.Error))
		}
	}
	if o.Level == liveness.Green {
		printReason(liveness.Green, "all roles work")
	}
}

// formatUsed formats the used share of a stream's size for a table, "-" without a limit.
func formatUsed(s bus.StreamState) string {
	if s.MaxBytes == 0 && s.MaxMessages == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100*s.Used())
}

// printGateways prints a row for each gateway: the calls of models since its start.
func printGateways(w *term.Table, o *doctor.Overview) {
	isFirst := true
	for _, r := range o.Workers {
		if r.Gateway == nil {
			continue
		}
		if isFirst {
			term.Fprintf(w, "\ngateway\tcaptured calls\tpassed calls\thealth\n")
			isFirst = false
		}
		passed := uint64(0)
		for _, p := range r.Gateway.Passed { // one for each reason why calls were not captured
			passed += p.Calls
		}
		term.Fprintf(w, "%s\t%d\t%d\t%s\n", r.Program, r.Gateway.Captured, passed, r.Gateway.Level)
	}
}

// printReason prints a reason after its level.
func printReason(level liveness.Level, reason string) {
	term.Printf("%s: %s\n", level, reason)
}

// formatAge formats the time since t for a table, "-" for the zero time.
func formatAge(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(time.Since(t), 0).Round(time.Second).String()
}

// formatLatency formats a duration for a table, "-" for zero.
func formatLatency(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	if d < time.Millisecond/10 {
		return "<0.1ms"
	}
	return d.Round(time.Millisecond / 10).String()
}
