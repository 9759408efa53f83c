package ops

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/deadletters"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook/text"
)

// Dead groups the commands on dead letters: events whose processing failed permanently.
type Dead struct {
	List    deadList    `cmd:"" default:"withargs" help:"List dead letters with code and reason."`
	Show    deadShow    `cmd:"" help:"Show one dead letter: origin, headers and event."`
	Requeue deadRequeue `cmd:"" help:"Publish the events again, with their original ids."`
	Drop    deadDrop    `cmd:"" help:"Delete dead letters permanently."`
}

// Help implements kong.HelpProvider.
func (*Dead) Help() string {
	return `An event becomes a dead letter after five failed attempts, if it is invalid, if its payload has expired, or if a newer version
of the programs wrote it. It does not block other events and is kept for a week. Code and reason describe the cause. Fix the
cause, then requeue the letter. A requeued event counts once, even if it is requeued several times.

The waiting tasks of an interrupted run share one letter if a generator with another model gets them: run the command of the
run again with its model, and the letter goes away.

Examples:

  debrief dead
  debrief dead list --role reflector --since 2h
  debrief dead show 12-ab12cd34
  debrief dead requeue 12-ab12cd34
  debrief dead requeue --all --role reflector --book support
  debrief dead drop --all --since 2026-11-20 --yes`
}

// letterFlags are the flags that filter dead letters.
type letterFlags struct {
	Role  string `help:"Select letters of this role: generator, reflector or curator." placeholder:"NAME"`
	Book  string `help:"Select letters of this playbook." placeholder:"NAME"`
	Since string `help:"Select letters since a time (2026-11-20) or for a duration (2h)." placeholder:"TIME"`
}

func (l letterFlags) filter() (f bus.LetterFilter, err error) {
	if f.Role = l.Role; f.Role != "" && !slices.Contains(cli.Roles, f.Role) {
		return f, app.Exit(app.ExitUsage, fmt.Errorf("--role: want %s, got %q", strings.Join(cli.Roles, ", "), l.Role))
	}
	if l.Book != "" {
		if f.Book, err = cli.ParseBook(l.Book); err != nil {
			return f, err
		}
	}
	f.Since, err = versions.ParseSince(l.Since)
	return f, err
}

// list returns the selected dead letters, oldest first.
func (l letterFlags) list(ctx context.Context, s *cli.Session) ([]deadletters.Row, error) {
	f, err := l.filter()
	if err != nil {
		return nil, err
	}
	return deadletters.List(ctx, s, f)
}

type deadList struct {
	cli.ServerFlags
	letterFlags
	Limit int  `help:"Show only the newest letters, up to this number; 0 for all." default:"100"`
	JSON  bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*deadList) Help() string {
	return `Examples:

  debrief dead list
  debrief dead list --role reflector --since 2h
  debrief dead list --limit 0 --json | jq .code`
}

// Run implements the command.
func (d *deadList) Run(ctx context.Context, c *app.Common) error {
	if _, err := d.filter(); err != nil {
		return err
	}
	if d.Limit < 0 {
		return app.Exit(app.ExitUsage, fmt.Errorf("--limit: must be 0 or above, got %d", d.Limit))
	}
	s, err := d.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	all, err := d.list(ctx, s)
	if err != nil {
		return err
	}
	shown, older := cli.Last(all, d.Limit)
	if d.JSON {
		for _, l := range shown {
			if err := cli.WriteJSON(console.Stdout, l); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		console.Printf("No dead letters.\n")
		return nil
	}
	w := console.NewTable(console.Stdout)
	console.Fprintf(w, "id\trole\tbook\tevent\ttime\tattempts\tcode\treason\n")
	for _, l := range shown {
		console.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, console.Line(l.Role), l.Book, console.Line(cmp.Or(l.Kind, "?")),
			l.Time.Local().Format(time.DateTime), l.Deliveries, console.Line(l.Code), text.Clip(console.Line(l.Reason), 100))
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
	cli.ServerFlags
	ID   events.Handle `arg:"" help:"Id of the letter; see 'debrief dead list'." placeholder:"ID"`
	JSON bool          `help:"Print one JSON document."`
}

// Help implements kong.HelpProvider.
func (*deadShow) Help() string {
	return `Examples:

  debrief dead show 12-ab12cd34
  debrief dead show 12-ab12cd34 --json`
}

// Run implements the command.
func (d *deadShow) Run(ctx context.Context, c *app.Common) error {
	s, err := d.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	out, err := deadletters.Show(ctx, s, d.ID)
	if err != nil {
		return err
	}
	if d.JSON {
		return cli.WriteJSON(console.Stdout, out)
	}
	return printLetter(out)
}

// maxExcerpt is the maximum length of the hex dump of an undecodable event, in bytes.
const maxExcerpt = 512

func printLetter(o *deadletters.Details) error {
	console.Printf("Dead letter %s, by the %s on %s.\n", o.ID, console.Line(o.Role), o.Time.Local().Format(time.DateTime))
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
		console.Fprintln(console.Stdout, console.Block(text))
		return nil
	}
	console.Printf("The event could not be decoded: %s\n", console.Line(o.Unreadable))
	if len(o.Raw) > 0 {
		console.Printf("It has %d bytes", len(o.Raw))
		if len(o.Raw) > maxExcerpt {
			console.Printf("; the first %d", maxExcerpt)
		}
		console.Printf(":\n%s", hex.Dump(o.Raw[:min(len(o.Raw), maxExcerpt)]))
	}
	return nil
}

// letterSelection selects letters by ids, or by --all and the filters.
type letterSelection struct {
	cli.ServerFlags
	IDs []events.Handle `arg:"" optional:"" name:"id" help:"Ids of letters; see 'debrief dead list'."`
	All bool            `help:"Select all letters, or those that match --role, --book and --since."`
	letterFlags
}

// openSelected opens a session and returns the ids of the selected letters.
func (ch *letterSelection) openSelected(ctx context.Context, c *app.Common) (*cli.Session, []events.Handle, error) {
	if err := ch.check(); err != nil {
		return nil, nil, err
	}
	s, err := ch.Connect(ctx, c.Logger())
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

func (ch *letterSelection) check() error {
	filtered := ch.letterFlags != letterFlags{}
	switch {
	case ch.All && len(ch.IDs) > 0:
		return app.Exit(app.ExitUsage, errors.New("--all: cannot be combined with ids"))
	case !ch.All && len(ch.IDs) == 0:
		return app.Exit(app.ExitUsage, errors.New("ids of letters or --all required; see 'debrief dead list'"))
	case !ch.All && filtered:
		return app.Exit(app.ExitUsage, errors.New("--role, --book, --since: require --all"))
	}
	for _, id := range ch.IDs {
		if _, _, err := id.Parse(); err != nil {
			return app.Exit(app.ExitUsage, err)
		}
	}
	_, err := ch.filter()
	return err
}

func (ch *letterSelection) ids(ctx context.Context, s *cli.Session) ([]events.Handle, error) {
	if !ch.All {
		return ch.IDs, nil
	}
	lines, err := ch.list(ctx, s)
	ids := make([]events.Handle, len(lines))
	for i, l := range lines {
		ids[i] = l.ID
	}
	return ids, err
}
