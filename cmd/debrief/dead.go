package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/events/bus"
)

// dead is what roles gave up on.
type dead struct {
	List    deadList    `cmd:"" default:"withargs" help:"List dead letters, and why each was given up."`
	Show    deadShow    `cmd:"" help:"Show all of one: where it came from, and the event."`
	Requeue deadRequeue `cmd:"" help:"Hand events in again, under their own ids."`
	Drop    deadDrop    `cmd:"" help:"Throw letters away, for good."`
}

// Help implements kong.HelpProvider.
func (*dead) Help() string {
	return `An event becomes a dead letter after five failed attempts, when it is invalid or its payload is gone, and when a newer program
wrote it. It blocks nothing and is kept for a week. The code and the reason say why. Fix the cause, then requeue the
letter. The event counts once, however often it is requeued.

Examples:

  debrief dead
  debrief dead list --role reflector --since 2h
  debrief dead show 12-ab12cd34
  debrief dead requeue 12-ab12cd34
  debrief dead requeue --all --role reflector --book support
  debrief dead drop --all --since 2026-11-20 --yes`
}

// letterChoice are the flags that choose among dead letters.
type letterChoice struct {
	Role  string `help:"Those of this role: generator, reflector or curator." placeholder:"NAME"`
	Book  string `help:"Those of this playbook." placeholder:"NAME"`
	Since string `help:"Those given up since then: 2h for that long ago, or a time such as 2026-11-20." placeholder:"TIME"`
}

func (l letterChoice) filter() (f bus.LetterFilter, err error) {
	if f.Role = l.Role; f.Role != "" && !slices.Contains(workingRoles, f.Role) {
		return f, app.Exit(app.ExitUsage, fmt.Errorf("--role: want %s, got %q", strings.Join(workingRoles, ", "), l.Role))
	}
	if l.Book != "" {
		if f.Book, err = bookName(l.Book); err != nil {
			return f, err
		}
	}
	f.Since, err = sinceFlag(l.Since)
	return f, err
}

// sinceFlag is the time that a person means with --since; none is the zero time.
func sinceFlag(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	p, err := parsePoint(text, time.Now())
	if err != nil || p.by != byTime {
		return time.Time{}, app.Exit(app.ExitUsage, fmt.Errorf("--since: want a time such as 2026-11-20 or '2026-11-20 15:04', or 90m for that long ago, got %q", text))
	}
	if d, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return d, nil // a day begins, where a version's day ends
	}
	return p.time, nil
}

// letterLine is a dead letter in a list.
type letterLine struct {
	ID         events.Handle `json:"id"`
	Role       string        `json:"role"`
	Book       string        `json:"book"`
	Kind       string        `json:"kind"`
	Time       time.Time     `json:"time"`
	Deliveries int           `json:"deliveries"`
	Code       string        `json:"code"`
	Reason     string        `json:"reason"`
}

func lineOf(l *bus.Letter) letterLine {
	kind, _, _ := events.ParseSubject(l.Subject)
	return letterLine{l.Handle(), l.Role, string(l.Book), string(kind), cmp.Or(l.Time, l.Stored), l.Deliveries, string(l.Code), l.Reason}
}

// lines are the dead letters that are chosen, oldest first.
func (l letterChoice) lines(ctx context.Context, s *session) (all []letterLine, err error) {
	f, err := l.filter()
	if err != nil {
		return nil, err
	}
	err = s.Letters(ctx, f, func(l *bus.Letter) error {
		all = append(all, lineOf(l))
		return nil
	})
	return all, err
}

type deadList struct {
	place
	letterChoice
	Limit int  `help:"Show at most so many, the latest; 0 for all." default:"100"`
	JSON  bool `help:"Print JSON lines."`
}

// Run implements the command.
func (d *deadList) Run(ctx context.Context, c *app.Common) error {
	if _, err := d.filter(); err != nil {
		return err
	}
	if d.Limit < 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--limit: must be 0 or above, got %d", d.Limit))
	}
	s, err := d.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := d.lines(ctx, s)
	if err != nil {
		return err
	}
	older := 0
	if d.Limit > 0 && len(all) > d.Limit {
		older = len(all) - d.Limit
	}
	if d.JSON {
		for _, l := range all[older:] {
			if err := writeJSON(console.Stdout, l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		console.Printf("No dead letters.\n")
		return nil
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	console.Fprintf(w, "id\trole\tbook\tevent\tgiven up\tattempts\tcode\treason\n")
	for _, l := range all[older:] {
		console.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, console.Line(l.Role), l.Book, console.Line(cmp.Or(l.Kind, "?")),
			l.Time.Local().Format(time.DateTime), l.Deliveries, console.Line(l.Code), events.Beginning(console.Line(l.Reason), 100))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if older > 0 {
		console.Printf("… and %d older ones: --limit 0 shows all.\n", older)
	}
	return nil
}

type deadShow struct {
	place
	ID   events.Handle `arg:"" help:"Id of the letter, from the list." placeholder:"ID"`
	JSON bool          `help:"Print JSON."`
}

// shownLetter is all that is known of a dead letter.
type shownLetter struct {
	letterLine
	Stream  string              `json:"stream"`
	Seq     uint64              `json:"seq"`
	Subject string              `json:"subject"`
	Header  map[string][]string `json:"header"`
	Event   events.Event        `json:"event,omitempty"`
	// Unreadable says why there is no event; Raw is what there is instead.
	Unreadable string `json:"unreadable,omitempty"`
	Raw        []byte `json:"raw,omitempty"`
}

// Run implements the command.
func (d *deadShow) Run(ctx context.Context, c *app.Common) error {
	s, err := d.open(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	l, err := letterByID(ctx, s, d.ID)
	if err != nil {
		return err
	}
	out := shownLetter{letterLine: lineOf(l), Stream: l.Stream, Seq: l.DeadLetter.Seq, Subject: l.Subject, Header: l.Header}
	if out.Event, err = s.Undead(ctx, l.DeadLetter); err != nil {
		if bus.Unreachable(err) {
			return err
		}
		out.Event, out.Unreadable, out.Raw = nil, err.Error(), l.Data
	}
	if d.JSON {
		return writeJSON(console.Stdout, out)
	}
	return out.print()
}

// letterByID finds a letter, and tells a person who asks for none of ours.
func letterByID(ctx context.Context, s *session, id events.Handle) (*bus.Letter, error) {
	if _, _, err := id.Parse(); err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	l, err := s.Letter(ctx, id)
	if errors.Is(err, bus.ErrGone) {
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("there is no dead letter %s: it was requeued or dropped, or is older than a week; see 'debrief dead list'", id))
	}
	return l, err
}

// excerpt is how much of what cannot be read is shown, in bytes.
const excerpt = 512

func (o *shownLetter) print() error {
	console.Printf("Dead letter %s, given up by the %s on %s.\n", o.ID, console.Line(o.Role), o.Time.Local().Format(time.DateTime))
	console.Printf("  code        %s\n  reason      %s\n  attempts    %d\n  origin      %s at sequence %d, %s\n", console.Line(o.Code), console.Line(o.Reason), o.Deliveries,
		console.Line(o.Stream), o.Seq, console.Line(o.Subject))
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		console.Printf("  header      %s: %s\n", console.Line(name), console.Line(strings.Join(o.Header[name], ", ")))
	}
	if o.Event != nil {
		text, err := json.MarshalIndent(o.Event, "", "  ")
		if err != nil {
			return fmt.Errorf("show %s: %w", o.ID, err)
		}
		console.Println(console.Block(text))
		return nil
	}
	console.Printf("It cannot be read: %s\n", console.Line(o.Unreadable))
	if len(o.Raw) > 0 {
		console.Printf("It has %d bytes", len(o.Raw))
		if len(o.Raw) > excerpt {
			console.Printf("; the first %d", excerpt)
		}
		console.Printf(":\n%s", hex.Dump(o.Raw[:min(len(o.Raw), excerpt)]))
	}
	return nil
}

// chosen are the letters that are meant with ids, or with --all and the filters.
type chosen struct {
	place
	IDs []events.Handle `arg:"" optional:"" name:"id" help:"Ids of letters, from the list."`
	All bool            `help:"All of them, or all that --role, --book and --since choose."`
	letterChoice
}

// find is an open session and the ids of the letters that are chosen.
func (ch *chosen) find(ctx context.Context, c *app.Common) (*session, []events.Handle, error) {
	if err := ch.check(); err != nil {
		return nil, nil, err
	}
	s, err := ch.open(ctx, c.Logger())
	if err != nil {
		return nil, nil, err
	}
	ids, err := ch.ids(ctx, s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return s, ids, nil
}

func (ch *chosen) check() error {
	filtered := ch.letterChoice != letterChoice{}
	switch {
	case ch.All && len(ch.IDs) > 0:
		return app.Exit(app.ExitUsage, errors.New("--all: names letters already, want no ids with it"))
	case !ch.All && len(ch.IDs) == 0:
		return app.Exit(app.ExitUsage, errors.New("want the ids of letters, or --all; see 'debrief dead list'"))
	case !ch.All && filtered:
		return app.Exit(app.ExitUsage, errors.New("--role, --book, --since: go with --all"))
	}
	for _, id := range ch.IDs {
		if _, _, err := id.Parse(); err != nil {
			return app.Exit(app.ExitUsage, err)
		}
	}
	_, err := ch.filter()
	return err
}

func (ch *chosen) ids(ctx context.Context, s *session) ([]events.Handle, error) {
	if !ch.All {
		return ch.IDs, nil
	}
	lines, err := ch.lines(ctx, s)
	ids := make([]events.Handle, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	return ids, err
}

// confirmed asks a person, where there is one.
func confirmed(question string) error {
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return app.Exit(app.ExitRefused, errors.New("nobody is there to confirm it: say --yes"))
	}
	console.Fprintf(console.Stderr, "%s [y/N] ", question)
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return app.Exit(app.ExitRefused, errors.New("nothing was done"))
	}
	return nil
}
