package ops

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/inspect"
	"debrief/events/liveness"

	book "debrief/playbook"
)

// Status shows the streams, the progress of each role, and the health of the learning loop.
type Status struct {
	cli.ServerFlags
	AlarmAfter time.Duration `help:"Report red after this time without a result; at least 3 times the usual time."`
	Watch      bool          `help:"Repeat every two seconds until interrupted."`
	JSON       bool          `help:"Print JSON."`
}

// SetDefaults sets the default of the library.
func (s *Status) SetDefaults() { s.AlarmAfter = liveness.Floor }

// Help implements kong.HelpProvider.
func (*Status) Help() string {
	return `The command asks all workers for a report and waits half a second for replies. The numbers of waiting messages come from
the server, so roles without a worker are included. Advice follows the tables. The levels of a role are:

  - green: the role works, or no work waits for it.
  - yellow: something needs attention, for example a role without a worker.
  - red: nothing is learned, or waiting messages will be lost.

Red ends the command with exit code 6.

Examples:

  debrief status
  debrief status --watch
  debrief status --json | jq .level`
}

// overview is the output of --json.
type overview struct {
	Level   liveness.Level                  `json:"level"`
	Store   []string                        `json:"store,omitempty"` // reasons why processes cannot write to the store
	Streams []bus.StreamState               `json:"streams"`
	Roles   map[string]liveness.RoleSummary `json:"roles"`
	Books   []bookState                     `json:"books"`
	Workers []liveness.Report               `json:"workers"`
	Damage  []inspect.Damage                `json:"damage,omitempty"`
}

// bookState is the state of a playbook's log and view.
type bookState struct {
	Book    book.Book `json:"book"`
	Version string    `json:"version"`
	Bullets int       `json:"bullets"`
	Shown   int       `json:"shown"`
	Lag     uint64    `json:"view_behind"`
	Error   string    `json:"error,omitempty"` // the log is damaged, or its end is lost
	Delta   time.Time `json:"last_delta_at"`
}

// Run implements the command.
func (st *Status) Run(ctx context.Context, c *app.Common) error {
	if st.AlarmAfter < 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--alarm-after: must be above 0, got %s", st.AlarmAfter))
	}
	s, err := st.Connect(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	if st.Watch {
		return st.watch(ctx, s)
	}
	return st.printOnce(ctx, s)
}

// watchEvery is the interval of --watch.
const watchEvery = 2 * time.Second

// watch repeats the status until the context ends. It continues after an outage of the server.
func (st *Status) watch(ctx context.Context, s *cli.Session) error {
	inPlace := !st.JSON && console.Stdout.IsTerminal()
	for {
		if inPlace {
			console.Control(console.Stdout, console.ClearScreen)
		}
		if err := st.printOnce(ctx, s); err != nil && app.ExitCode(err) != app.ExitRed && ctx.Err() == nil {
			console.Fprintln(console.Stderr, "debrief:", console.Line(err.Error()))
		}
		select {
		case <-ctx.Done(): // the normal end of --watch
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// printOnce prints the status. It returns the error for the exit code if anything is red.
func (st *Status) printOnce(ctx context.Context, s *cli.Session) error {
	o, err := st.collect(ctx, s)
	if err != nil {
		return err
	}
	if st.JSON {
		err = cli.WriteJSON(console.Stdout, o)
	} else {
		err = o.print()
	}
	if err != nil {
		return err
	}
	return o.alarm()
}

// collect reads the state of the server, the roles and the playbooks.
func (st *Status) collect(ctx context.Context, s *cli.Session) (*overview, error) {
	o := &overview{Level: liveness.Green, Roles: map[string]liveness.RoleSummary{}}
	var err error
	if o.Workers, err = liveness.CollectReports(ctx, s.NATS()); err != nil {
		return nil, err
	}
	o.Store = liveness.StoreErrors(o.Workers)
	if len(o.Store) > 0 {
		o.Level = liveness.Red
	}
	if o.Streams, err = s.Streams(ctx); err != nil {
		return nil, err
	}
	for _, role := range cli.Roles {
		w, err := s.Backlog(ctx, role)
		if err != nil {
			return nil, err
		}
		o.Roles[role] = liveness.Summarize(role, w, o.Workers, time.Now(), st.AlarmAfter)
		o.Level = liveness.Worse(o.Level, o.Roles[role].Level)
	}
	if o.Damage, err = st.Damage(ctx, s.Conn, 0); err != nil {
		return nil, err
	}
	if o.Books, err = booksOf(ctx, s); err != nil {
		return nil, err
	}
	for _, d := range o.Damage {
		o.Level = liveness.Worse(o.Level, map[bool]liveness.Level{true: liveness.Red, false: liveness.Yellow}[d.Lost])
	}
	if len(o.broken()) > 0 {
		o.Level = liveness.Red
	}
	return o, nil
}

// broken returns the names of playbooks with a damaged or truncated log.
func (o *overview) broken() (names []string) {
	for _, b := range o.Books {
		if b.Error != "" {
			names = append(names, string(b.Book))
		}
	}
	return names
}

// booksOf returns the state of every playbook.
func booksOf(ctx context.Context, s *cli.Session) (all []bookState, err error) {
	store := deltalog.New(s.JetStream())
	books, err := store.AllBooks(ctx)
	if err != nil {
		return nil, err
	}
	log, err := s.JetStream().Stream(ctx, events.StreamDeltas)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	for _, b := range books {
		w, err := store.Writer(ctx, b)
		if errors.Is(err, deltalog.ErrBrokenLog) || errors.Is(err, events.ErrNewerSchema) {
			all = append(all, bookState{Book: b, Error: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		p := w.State().Playbook()
		state := bookState{Book: b, Version: book.VersionLabel(p.Version(), w.State().Chain()), Bullets: p.Len(), Shown: len(p.Top(p.Len())), Lag: w.ViewLag()}
		last, err := log.GetLastMsgForSubject(ctx, events.KindDelta.Subject(b))
		switch {
		case err == nil:
			state.Delta = last.Time
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("read the last delta of %q: %w", b, err)
		}
		if lost := w.LostVersion(); lost != "" {
			state.Error = fmt.Sprintf("stream %s lost the end of the log, which was at version %s", events.StreamDeltas, lost)
		}
		all = append(all, state)
	}
	return all, nil
}

// print prints the tables, the reasons of each level, and the advice.
func (o *overview) print() error {
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "stream\tmessages\tMiB\n")
	for _, x := range o.Streams {
		console.Fprintf(w, "%s\t%d\t%.1f\n", x.Name, x.Messages, float64(x.Bytes)/(1<<20))
	}
	console.Fprintf(w, "\nrole\twaiting\tin work\tredelivered\toldest\tlast result\tdead\tworkers\tp50\tp95\thealth\n")
	for _, role := range cli.Roles {
		r := o.Roles[role]
		console.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", role, r.Pending, r.InFlight, r.Redelivered,
			formatAge(r.Oldest), formatAge(r.LastOutput), r.Dead, r.Workers, formatLatency(r.P50), formatLatency(r.P95), r.Level)
	}
	console.Fprintf(w, "\nbook\tversion\tbullets\tshown\tview behind\tlast delta\n")
	for _, b := range o.Books {
		console.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", b.Book, b.Version, b.Bullets, b.Shown, b.Lag, formatAge(b.Delta))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	console.Println()
	for _, why := range o.Store {
		console.Printf("%s: %s\n", liveness.Red, console.Line(why))
	}
	for _, role := range cli.Roles {
		for _, why := range o.Roles[role].Reasons {
			console.Printf("%s: %s\n", o.Roles[role].Level, console.Line(why))
		}
	}
	for _, d := range o.Damage {
		console.Printf("damage: %s\n", console.Line(d.String()))
	}
	for _, b := range o.Books {
		if b.Error != "" {
			console.Printf("%s: playbook %s: %s\n", liveness.Red, b.Book, console.Line(b.Error))
		}
	}
	if o.Level == liveness.Green {
		console.Printf("green: all roles work\n")
	}
	for _, line := range o.advice() {
		console.Println("→", line)
	}
	return nil
}

// advice returns a line for each problem that the operator can fix.
func (o *overview) advice() (lines []string) {
	if len(o.Damage) > 0 {
		lines = append(lines, "see 'debrief doctor' for the damage; "+cli.DamageFix)
	}
	for _, b := range o.broken() {
		lines = append(lines, "see 'debrief playbook verify --book "+b+"'")
	}
	dead := uint64(0)
	for _, role := range cli.Roles {
		r := o.Roles[role]
		dead += r.Dead
		switch {
		case r.Level == liveness.Green:
		case r.Workers == 0:
			lines = append(lines, fmt.Sprintf("start a %s: 'debrief up', or the program %s", role, role))
		default:
			lines = append(lines, fmt.Sprintf("check the %s: its log, its model, 'debrief doctor', and its results with 'debrief tail --role %s'", role, role))
		}
		if r.MaxBytes > 0 && r.Bytes > r.MaxBytes/5*4 {
			lines = append(lines, fmt.Sprintf("the input stream of the %s is %d %% full: increase its size, or start more %ss", role, 100*r.Bytes/r.MaxBytes, role))
		}
	}
	if dead > 0 {
		lines = append(lines, fmt.Sprintf("%s: read the reasons with 'debrief dead list', then run 'debrief dead requeue --all', or drop them", letters(int(dead))))
	}
	return lines
}

// alarm returns an error with the exit code for red if anything is red.
func (o *overview) alarm() error {
	var red []string
	if len(o.Store) > 0 {
		red = append(red, "the store")
	}
	for _, role := range cli.Roles {
		if o.Roles[role].Level == liveness.Red {
			red = append(red, role)
		}
	}
	for _, d := range o.Damage {
		if d.Lost && !slices.Contains(red, "stream "+d.Stream) {
			red = append(red, "stream "+d.Stream)
		}
	}
	for _, b := range o.broken() {
		red = append(red, "playbook "+b)
	}
	if len(red) == 0 {
		return nil
	}
	return app.Exit(app.ExitRed, fmt.Errorf("red: %s", strings.Join(red, ", ")))
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
	return d.Round(time.Millisecond / 10).String()
}
