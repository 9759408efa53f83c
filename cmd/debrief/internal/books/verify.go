package books

import (
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events/deltalog"
	"debrief/playbook/history"
)

// verifyBook checks the log and the view of a playbook.
type verifyBook struct {
	cli.BookFlags
	JSON bool `help:"Print one JSON document."`
}

func (*verifyBook) Help() string {
	return `Check a playbook without a model:

  - each change follows the previous one, by number, sequence and hash;
  - the changes can be applied in order, and the view has the same bullets as the result;
  - each shown bullet can be traced to an execution or to a person;
  - the streams still have the reflections and executions that the playbook was learned from.

Readers skip messages that are not part of the log. Damage ends the command with exit code 3 and advice.

Examples:

  debrief playbook verify
  debrief playbook verify --book support --json`
}

// verifyOutput is the output of --json.
type verifyOutput struct {
	*deltalog.Verification
	Traced   int `json:"traced"` // shown bullets with a known execution or person
	Untraced int `json:"untraced"`
}

func (v *verifyBook) Run(ctx context.Context, c *program.Common) error {
	name, err := cli.ParseBook(v.Book)
	if err != nil {
		return err
	}
	s, err := v.ConnectReading(ctx, c.Logger())
	if err != nil {
		return err
	}
	defer s.Close()
	store := deltalog.New(s.JetStream())
	known, err := store.AllBooks(ctx)
	switch {
	case err != nil:
		return err
	case !slices.Contains(known, name):
		return program.Exit(program.ExitRefused, cli.NotFoundError(name, known))
	}
	out := verifyOutput{}
	if out.Verification, err = store.Verify(ctx, name); err != nil {
		return err
	}
	streams, err := v.Damage(ctx, s.Conn, 0) // 0: without reading the messages. The playbook was learned from all streams.
	if err != nil {
		return err
	}
	out.Findings = append(out.Findings, doctor.DamageFindings(streams)...)
	damaged := out.Damaged()
	if !damaged { // the bullets of a damaged log cannot be traced
		if err := out.trace(ctx, store); err != nil {
			return err
		}
	}
	if v.JSON {
		err = cli.WriteJSON(term.Stdout, out)
	} else {
		out.print()
	}
	if err == nil && damaged {
		err = program.Exit(program.ExitRefused, fmt.Errorf("playbook %q is damaged; see above", name))
	}
	return err
}

// trace counts the shown bullets with and without a known origin.
func (v *verifyOutput) trace(ctx context.Context, store *deltalog.Store) error {
	p, err := store.PlaybookAt(ctx, v.Book, v.Version)
	if err != nil {
		return explain.LogError(err)
	}
	v.Traced, v.Untraced, err = history.CountTraced(store.History(ctx, v.Book), p)
	return explain.LogError(err)
}

// print prints the hashes, the traced bullets and the findings.
func (v *verifyOutput) print() {
	term.Printf("Playbook %q at version %s: %s, %d bytes, %s.\n", v.Book, v.Label, term.Plural(v.Deltas, "delta"), v.Bytes, term.Plural(v.Bullets, "bullet"))
	term.Printf("  chain hash  %s\n  state hash  %s\n  view        version %d\n", v.ChainHash, v.StateHash, v.View)
	for _, r := range v.Redacted {
		term.Printf("  erased      texts of version %d, by %s at %s\n", r.Version, r.Author, r.Time.Local().Format(time.DateTime))
	}
	if v.Traced+v.Untraced > 0 {
		term.Printf("  traced      %d of %d shown bullets lead to an execution or a person\n", v.Traced, v.Traced+v.Untraced)
	}
	for _, f := range v.Findings {
		term.Printf("%s: %s\n", f.Severity, f.Text)
	}
	if len(v.Findings) == 0 {
		term.Printf("All hashes are correct.\n")
	}
}
