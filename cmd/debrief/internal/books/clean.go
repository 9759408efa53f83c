package books

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/deltalog"
)

type cleanBook struct {
	cli.BookFlags
	Sequence []uint64 `help:"Remove only the messages with these sequences, also those that may be lost deltas." placeholder:"N"`
	Yes      bool     `help:"Do not ask for confirmation."`
	JSON     bool     `help:"Print one JSON document; without --yes only list the strays."`
}

// Help implements kong.HelpProvider.
func (*cleanBook) Help() string {
	return `A stray is a message on the playbook's subject in the stream DELTAS that is not part of its log. Readers skip it, and
'debrief playbook verify' lists it. This command lists the strays, asks for confirmation and removes them. It never
removes a delta of the log. In a broken log a stray cannot be distinguished from a lost delta: restore a backup, or
select the messages with --sequence and accept the loss.

Examples:

  debrief playbook clean
  debrief playbook clean --book support --yes
  debrief playbook clean --sequence 17,18 --yes`
}

// cleanResult is the output of --json.
type cleanResult struct {
	Book    string           `json:"book"`
	Strays  []deltalog.Stray `json:"strays"`
	Removed bool             `json:"removed"`
}

// Run implements the command.
func (cl *cleanBook) Run(ctx context.Context, c *program.Common) error {
	b, err := cl.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	strays, err := b.Store.SelectStrays(ctx, b.Name, cl.Sequence)
	if errors.As(err, new(*deltalog.NotStraysError)) {
		return program.Exit(program.ExitRefused, fmt.Errorf("--sequence: %w; see 'debrief playbook verify'", err))
	}
	if err != nil {
		return explain.LogError(err)
	}
	out := cleanResult{Book: string(b.Name), Strays: strays}
	if !cl.JSON {
		if err := printStrays(strays); err != nil || len(strays) == 0 {
			return err
		}
	}
	remove := cl.Yes || !cl.JSON // --json without --yes only lists
	if remove && !cl.Yes {
		if err := cli.Confirm(fmt.Sprintf("Remove %s of playbook %q from stream %s?", term.Plural(len(strays), "message"), b.Name, events.StreamDeltas)); err != nil {
			return err
		}
	}
	if remove {
		seqs := make([]uint64, len(strays))
		for i, s := range strays {
			seqs[i] = s.Seq
		}
		if err := b.Store.RemoveStrays(ctx, b.Name, seqs); err != nil {
			return err
		}
		out.Removed = true
	}
	if cl.JSON {
		return cli.WriteJSON(term.Stdout, out)
	}
	term.Printf("Removed %s.\n", term.Plural(len(strays), "message"))
	return nil
}

// printStrays prints the strays as a table.
func printStrays(strays []deltalog.Stray) error {
	if len(strays) == 0 {
		term.Println("No strays.")
		return nil
	}
	return term.PrintTable(term.Stdout, "sequence\tbytes\tstored\treason", strays, func(w io.Writer, s deltalog.Stray) {
		term.Fprintf(w, "%d\t%d\t%s\t%s\n", s.Seq, s.Size, s.Time.Local().Format(time.DateTime), s.Reason)
	})
}
