package ops

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/operate"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
)

// Dead groups the commands on dead letters: events whose processing failed permanently.
type Dead struct {
	List    deadList    `cmd:"" default:"withargs" help:"List dead letters with code and reason." example:"--role reflector --since 2h"`
	Show    deadShow    `cmd:"" help:"Show one dead letter: origin, headers and event." example:"12-ab12cd34"`
	Requeue deadRequeue `cmd:"" help:"Publish the events again, with their original ids."`
	Drop    deadDrop    `cmd:"" help:"Delete dead letters: their events are never learned from." example:"--all --book scratch --yes"`
}

func (*Dead) Help() string {
	return `An event becomes a dead letter after five failed attempts, if it is invalid, if its payload has expired, or if a newer version
of the programs wrote it. It does not block other events and is kept for the age limit --dead-age of 'debrief setup'. Code and reason describe the cause. Fix the
cause, then requeue the letter. A requeued event counts once, even if it is requeued several times.

If 'debrief train' is interrupted, a generator with another model may receive its waiting tasks. All of them then share one
letter. Repeat the command with its own model, and the letter goes away.

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

// list returns the selected dead letters, oldest first.
func (l letterFlags) list(ctx context.Context, a *apiclient.Client) ([]operate.LetterRow, error) {
	query := map[string]string{"role": l.Role, "book": l.Book}
	since, err := explain.ParseSince(l.Since)
	if err != nil {
		return nil, err
	}
	if !since.IsZero() {
		query["since"] = since.Format(time.RFC3339)
	}
	all, _, err := api.List[operate.LetterRow](ctx, a.Client, "/dead", query, 0)
	return all, err
}

type deadList struct {
	apiclient.Flags
	letterFlags
	Limit int  `help:"Show only the newest letters, up to this number; 0 for all." default:"100"`
	JSON  bool `help:"Print JSON lines; an empty list prints nothing."`
}

func (d *deadList) Run(ctx context.Context, c *program.Common) error {
	if d.Limit < 0 {
		return program.Exit(program.ExitUsage, fmt.Errorf("--limit: must be 0 or above, got %d", d.Limit))
	}
	a, err := d.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	all, err := d.list(ctx, a)
	if err != nil {
		return err
	}
	shown := all // oldest first
	older := 0   // number of letters before those shown
	if d.Limit > 0 && len(all) > d.Limit {
		older = len(all) - d.Limit
		shown = all[older:]
	}
	err = cli.PrintList(d.JSON, shown, "No dead letters.", "id\trole\tbook\tevent\ttime\tattempts\tcode\treason", func(w io.Writer, l operate.LetterRow) {
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.ID, l.Role, l.Book, cmp.Or(l.Kind, "?"),
			l.Time.Local().Format(time.DateTime), l.Attempts, l.Code, term.OneLine(l.Reason, 100))
	})
	if err == nil && older > 0 && !d.JSON {
		_, err = term.Printf("… and %d older ones: --limit 0 shows all.\n", older)
	}
	return err
}

type deadShow struct {
	apiclient.Flags
	ID   events.Handle `arg:"" help:"Id of the letter; see 'debrief dead list'." placeholder:"ID"`
	JSON bool          `help:"Print one JSON document."`
}

func (d *deadShow) Run(ctx context.Context, c *program.Common) error {
	return apiclient.Show(ctx, c, d.Flags, d.JSON, letterPath(d.ID), nil, printLetter)
}

const maxExcerpt = 512 // maximum length of the hex dump of an undecodable event, in bytes

// letter is a dead letter as the API shows it, with the JSON of its event.
type letter struct {
	operate.LetterDetails
	Event json.RawMessage `json:"event,omitempty"`
}

// printLetter prints a letter, with its event as JSON or as a hex dump.
func printLetter(o *letter) error {
	term.Printf("Dead letter %s, by the %s on %s.\n", o.ID, term.Line(o.Role), o.Time.Local().Format(time.DateTime))
	term.Printf("  code        %s\n  reason      %s\n  attempts    %d\n  origin      %s at sequence %d, %s\n", term.Line(o.Code), term.Line(o.Reason), o.Attempts,
		term.Line(o.Stream), o.Seq, term.Line(o.Subject))
	for _, name := range slices.Sorted(maps.Keys(o.Header)) {
		term.Printf("  header      %s: %s\n", term.Line(name), term.Line(strings.Join(o.Header[name], ", ")))
	}
	if o.Event != nil {
		text, err := json.MarshalIndent(o.Event, "", "  ")
		if err != nil {
			return fmt.Errorf("show %s: %w", o.ID, err)
		}
		term.Fprintln(term.Stdout, term.Block(text))
		return nil
	}
	term.Printf("The event could not be decoded: %s\n", term.Line(o.Unreadable))
	if len(o.Raw) > 0 {
		term.Printf("It has %d bytes, and begins with:\n%s", len(o.Raw), term.Block(hex.Dump(o.Raw[:min(len(o.Raw), maxExcerpt)])))
	}
	return nil
}

// letterSelection selects letters by ids, or by --all and the filters.
type letterSelection struct {
	apiclient.Flags
	IDs []events.Handle `arg:"" optional:"" name:"id" help:"Ids of letters; see 'debrief dead list'."`
	All bool            `help:"Select all letters, or those that match --role, --book and --since."`
	letterFlags
}

// openSelected opens a client and returns it with the ids of the selected letters. The caller closes the client.
func (l *letterSelection) openSelected(ctx context.Context, c *program.Common) (*apiclient.Client, []events.Handle, error) {
	switch {
	case l.All && len(l.IDs) > 0:
		return nil, nil, program.Exit(program.ExitUsage, errors.New("--all: cannot be combined with ids"))
	case !l.All && len(l.IDs) == 0:
		return nil, nil, program.Exit(program.ExitUsage, errors.New("ids of letters or --all required; see 'debrief dead list'"))
	case !l.All && l.letterFlags != letterFlags{}:
		return nil, nil, program.Exit(program.ExitUsage, errors.New("--role, --book, --since: require --all"))
	}
	a, err := l.Open(ctx, c, apiclient.Change, "")
	if err != nil || !l.All {
		return a, l.IDs, err
	}
	all, err := l.list(ctx, a)
	if err != nil {
		return nil, nil, errors.Join(err, a.Close())
	}
	ids := make([]events.Handle, len(all))
	for i, row := range all {
		ids[i] = row.ID
	}
	return a, ids, nil
}

// isGone reports whether an error says that a letter of --all is missing: another process has requeued or dropped it since it was
// listed. For an id on the command line a missing letter is an error.
func (l *letterSelection) isGone(err error) bool {
	var refused *api.Error
	return l.All && errors.As(err, &refused) && refused.Code == api.CodeNotFound
}

// letterPath returns the path of a letter in the API.
func letterPath(id events.Handle) string { return api.Path("dead", string(id)) }

type deadRequeue struct {
	letterSelection
	JSON bool `help:"Print JSON lines, one for each letter."`
}

func (*deadRequeue) Help() string {
	return `Publishes each event again, unchanged and under its own id, and deletes the letter after the server has stored the event. If
the command is interrupted, repeat it: the event counts once. A letter stays if its event is undecodable or its payload
has expired.

Examples:

  debrief dead requeue 12-ab12cd34 13-98fedcba
  debrief dead requeue --all --role reflector --since 2h`
}

func (d *deadRequeue) Run(ctx context.Context, c *program.Common) error {
	a, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer a.Close()
	done, refused := 0, 0
	for _, id := range ids {
		r, err := api.Post[operate.Requeued](ctx, a.Client, letterPath(id)+"/requeue", nil, struct{}{})
		var problem *api.Error
		switch {
		case err == nil:
			done++
		case d.isGone(err):
			r = &operate.Requeued{ID: id}
		case errors.As(err, &problem) && problem.Code == api.CodeRefused: // only this letter cannot be requeued
			r = &operate.Requeued{ID: id, Refused: strings.TrimPrefix(problem.Detail, "not requeued: ")}
			refused++
		default:
			return fmt.Errorf("requeued %d of %d: %w", done, len(ids), err)
		}
		switch {
		case d.JSON:
			if err := cli.WriteJSON(term.Stdout, r); err != nil {
				return err
			}
		case r.Refused != "" && len(ids) == 1:
			return program.Exit(program.ExitRefused, fmt.Errorf("dead letter %s: not requeued: %s", id, r.Refused))
		case r.Refused != "":
			term.Printf("%s: not requeued: %s\n", id, term.Line(r.Refused))
		case r.As != "":
			kind, book, _ := events.ParseSubject(r.Subject)
			term.Printf("Requeued: the %s is now %s of playbook %q.\n", kind, r.As, book)
		}
	}
	if !d.JSON && done != 1 {
		term.Printf("Requeued %s.\n", operate.CountLetters(done))
	}
	if refused == 0 {
		return nil
	}
	code := program.ExitPartial
	if done == 0 {
		code = program.ExitRefused
	}
	return program.Exit(code, fmt.Errorf("%s not requeued; see above", operate.CountLetters(refused)))
}

type deadDrop struct {
	letterSelection
	Yes  bool `help:"Do not ask for confirmation: scripts pass --yes."`
	JSON bool `help:"Print one JSON document."`
}

func (d *deadDrop) Run(ctx context.Context, c *program.Common) error {
	a, ids, err := d.openSelected(ctx, c)
	if err != nil {
		return err
	}
	defer a.Close()
	if !d.Yes && len(ids) > 0 {
		if err := cli.Confirm(fmt.Sprintf("Drop %s? Their events are lost.", operate.CountLetters(len(ids)))); err != nil {
			return err
		}
	}
	n := 0
	for _, id := range ids {
		r, err := api.Delete[api.Dropped](ctx, a.Client, letterPath(id))
		switch {
		case d.isGone(err):
			continue
		case err != nil:
			return err
		}
		n += r.Dropped
	}
	if d.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			Dropped int `json:"dropped"`
		}{n})
	}
	term.Printf("Dropped %s.\n", operate.CountLetters(n))
	return nil
}
