package main

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
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/liveness"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// status shows what is stored, how far each role is, and whether learning is alive.
type status struct {
	place
	AlarmAfter time.Duration `help:"A role is red when work waits for it and none goes well for so long, or for three times what is usual, whichever is longer." default:"60s"`
	Watch      bool          `help:"Show it again every two seconds, until interrupted; on a terminal in place."`
	JSON       bool          `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*status) Help() string {
	return `Whatever runs on the server is asked how it is, for half a second; what waits is read from the server itself, so a role that
does not run is judged as well. Green is well; yellow is for somebody to know; red is when nothing is learned, or what
waits will be lost. Red ends with exit code 6, so that a script can tell. Below the tables stands what to do.

Examples:

  debrief status
  debrief status --watch
  debrief status --json | jq .level`
}

type overview struct {
	Level   liveness.Level             `json:"level"`
	Store   []string                   `json:"store,omitempty"` // why processes can store nothing
	Streams []bus.StreamState          `json:"streams"`
	Roles   map[string]liveness.Survey `json:"roles"`
	Books   []bookState                `json:"books"`
	Workers []liveness.Report          `json:"workers"`
	Damage  []bus.Damage               `json:"damage,omitempty"`
}

type bookState struct {
	Book    book.Book `json:"book"`
	Version string    `json:"version"`
	Bullets int       `json:"bullets"`
	Shown   int       `json:"shown"`
	Lag     uint64    `json:"view_behind"`
	Error   string    `json:"error,omitempty"` // the log is broken, or lost its end
	Delta   time.Time `json:"last_delta_at"`
}

// workingRoles are those that learning rests on, in the order in which work goes through them.
var workingRoles = []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator}

// Run implements the command.
func (st *status) Run(ctx context.Context, c *app.Common) error {
	if st.AlarmAfter < 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--alarm-after: must be above 0, got %s", st.AlarmAfter))
	}
	s, err := st.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	if st.Watch {
		return st.watch(ctx, s)
	}
	return st.once(ctx, s)
}

// watchEvery is how often --watch looks.
const watchEvery = 2 * time.Second

// watch shows it again and again, until the context ends. It outlives a server that is away.
func (st *status) watch(ctx context.Context, s *session) error {
	inPlace := !st.JSON && console.Stdout.IsTerminal()
	for {
		if inPlace {
			console.Control(console.Stdout, console.ClearScreen)
		}
		if err := st.once(ctx, s); err != nil && app.ExitCode(err) != app.ExitRed && ctx.Err() == nil {
			console.Fprintln(console.Stderr, "debrief:", console.Line(err.Error()))
		}
		select {
		case <-ctx.Done(): // that is how it ends
			return nil
		case <-time.After(watchEvery):
		}
	}
}

func (st *status) once(ctx context.Context, s *session) error {
	o, err := st.look(ctx, s)
	if err != nil {
		return err
	}
	if st.JSON {
		err = writeJSON(console.Stdout, o)
	} else {
		err = o.print()
	}
	if err != nil {
		return err
	}
	return o.alarm()
}

func (st *status) look(ctx context.Context, s *session) (*overview, error) {
	o := &overview{Level: liveness.Green, Roles: map[string]liveness.Survey{}}
	var err error
	if o.Workers, err = liveness.Call(ctx, s.nc); err != nil {
		return nil, err
	}
	o.Store = liveness.Stores(o.Workers)
	if len(o.Store) > 0 {
		o.Level = liveness.Red
	}
	if o.Streams, err = s.Streams(ctx); err != nil {
		return nil, err
	}
	for _, role := range workingRoles {
		w, err := s.Work(ctx, role)
		if err != nil {
			return nil, err
		}
		o.Roles[role] = liveness.Combine(role, w, o.Workers, time.Now(), st.AlarmAfter)
		o.Level = liveness.Worse(o.Level, o.Roles[role].Level)
	}
	if o.Damage, err = st.damage(ctx, s.Conn, 0); err != nil {
		return nil, err
	}
	if o.Books, err = booksOf(ctx, s); err != nil {
		return nil, err
	}
	for _, d := range o.Damage {
		o.Level = liveness.Worse(o.Level, map[bool]liveness.Level{true: liveness.Red, false: liveness.Yellow}[d.Sure])
	}
	if len(o.broken()) > 0 {
		o.Level = liveness.Red
	}
	return o, nil
}

// broken names the books with a broken or shortened log.
func (o *overview) broken() (names []string) {
	for _, b := range o.Books {
		if b.Error != "" {
			names = append(names, string(b.Book))
		}
	}
	return names
}

func booksOf(ctx context.Context, s *session) (all []bookState, err error) {
	store := natskv.New(s.JetStream())
	books, err := store.Known(ctx)
	if err != nil {
		return nil, err
	}
	log, err := s.JetStream().Stream(ctx, events.StreamDeltas)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDeltas, err)
	}
	for _, b := range books {
		w, err := store.Writer(ctx, b)
		if errors.Is(err, natskv.ErrBrokenLog) || errors.Is(err, events.ErrNewerSchema) {
			all = append(all, bookState{Book: b, Error: err.Error()})
			continue
		}
		if err != nil {
			return nil, err
		}
		p := w.State().Playbook()
		state := bookState{Book: b, Version: book.Label(p.Version(), w.State().Chain()), Bullets: p.Len(), Shown: len(p.Top(p.Len())), Lag: w.Lag()}
		last, err := log.GetLastMsgForSubject(ctx, events.KindDelta.Subject(b))
		switch {
		case err == nil:
			state.Delta = last.Time
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			return nil, fmt.Errorf("read the last delta of %q: %w", b, err)
		}
		if lost := w.Lost(); lost != "" {
			state.Error = fmt.Sprintf("stream %s lost the end of the log, which was at %s", events.StreamDeltas, lost)
		}
		all = append(all, state)
	}
	return all, nil
}

func (o *overview) print() error {
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 3, ' ', 0)
	console.Fprintf(w, "stream\tmessages\tMiB\n")
	for _, x := range o.Streams {
		console.Fprintf(w, "%s\t%d\t%.1f\n", x.Name, x.Messages, float64(x.Bytes)/(1<<20))
	}
	console.Fprintf(w, "\nrole\twaiting\tin work\tredelivered\toldest\tlast result\tdead\tworkers\tp50\tp95\thealth\n")
	for _, role := range workingRoles {
		r := o.Roles[role]
		console.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%s\t%d\t%d\t%s\t%s\t%s\n", role, r.Pending, r.InFlight, r.Redelivered,
			ago(r.Oldest), ago(r.Output), r.Dead, r.Workers, took(r.P50), took(r.P95), r.Level)
	}
	console.Fprintf(w, "\nbook\tversion\tbullets\tshown\tview behind\tlast delta\n")
	for _, b := range o.Books {
		console.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\n", b.Book, b.Version, b.Bullets, b.Shown, b.Lag, ago(b.Delta))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	console.Println()
	for _, why := range o.Store {
		console.Printf("%s: %s\n", liveness.Red, console.Line(why))
	}
	for _, role := range workingRoles {
		for _, why := range o.Roles[role].Because {
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
		console.Printf("green: every role is at work\n")
	}
	for _, line := range o.advice() {
		console.Println("→", line)
	}
	return nil
}

// advice is what a person can do about what is not well.
func (o *overview) advice() (lines []string) {
	if len(o.Damage) > 0 {
		lines = append(lines, "see 'debrief doctor' for the damage; "+acceptDamage)
	}
	for _, b := range o.broken() {
		lines = append(lines, "see 'debrief playbook verify --book "+b+"'")
	}
	dead := uint64(0)
	for _, role := range workingRoles {
		r := o.Roles[role]
		dead += r.Dead
		switch {
		case r.Level == liveness.Green:
		case r.Workers == 0:
			lines = append(lines, fmt.Sprintf("start a %s: 'debrief up', or the program of that name", role))
		default:
			lines = append(lines, fmt.Sprintf("look into the %s: its log, its model, 'debrief doctor', and 'debrief tail --role %s' for what it makes", role, role))
		}
		if r.MaxBytes > 0 && r.Bytes > r.MaxBytes/5*4 {
			lines = append(lines, fmt.Sprintf("the stream that the %s reads is %d %% full: give it more room, or more %ss", role, 100*r.Bytes/r.MaxBytes, role))
		}
	}
	if dead > 0 {
		lines = append(lines, fmt.Sprintf("%s: see why with 'debrief dead list', then 'debrief dead requeue --all', or drop them", letters(int(dead))))
	}
	return lines
}

// alarm is the error of what is red, for the exit code.
func (o *overview) alarm() error {
	var red []string
	if len(o.Store) > 0 {
		red = append(red, "the store")
	}
	for _, role := range workingRoles {
		if o.Roles[role].Level == liveness.Red {
			red = append(red, role)
		}
	}
	for _, d := range o.Damage {
		if d.Sure && !slices.Contains(red, "stream "+d.Stream) {
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

// ago is how long ago something was, for a table.
func ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return max(time.Since(t), 0).Round(time.Second).String()
}

func took(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond / 10).String()
}
