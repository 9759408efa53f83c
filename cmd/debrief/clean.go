package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/playbook/natskv"
)

type cleanBook struct {
	onBook
	Sequence []uint64 `help:"Only the messages at these sequences; needed for one that verify cannot tell from a lost delta." placeholder:"N,…"`
	Yes      bool     `help:"Do not ask."`
	JSON     bool     `help:"Print JSON; removes nothing without --yes."`
}

// Help implements kong.HelpProvider.
func (*cleanBook) Help() string {
	return `A stray is a message on the playbook's subject in the stream DELTAS that is not part of its log. Readers skip it, and
'debrief playbook verify' lists it. This command lists the strays and removes them after a question. It removes no change
of the playbook. Where the log is broken, nothing is certain to be a stray: restore a backup, or name the messages with
--sequence and lose what they may have been.

Examples:

  debrief playbook clean
  debrief playbook clean --book support --yes
  debrief playbook clean --sequence 17,18 --yes`
}

// cleaned is the output of --json.
type cleaned struct {
	Book    string         `json:"book"`
	Strays  []natskv.Stray `json:"strays"`
	Removed bool           `json:"removed"`
}

// Run implements the command.
func (cl *cleanBook) Run(ctx context.Context, c *app.Common) error {
	b, err := cl.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	strays, undecided, err := b.store.Strays(ctx, b.name)
	undecidable := errors.Is(err, natskv.ErrBrokenLog) || errors.Is(err, events.ErrNewerSchema)
	if err != nil && !(undecidable && len(cl.Sequence) > 0) {
		return broken(err)
	}
	if len(cl.Sequence) > 0 {
		strays = slices.DeleteFunc(append(strays, undecided...), func(s natskv.Stray) bool { return !slices.Contains(cl.Sequence, s.Seq) })
		if len(strays) < len(cl.Sequence) {
			return app.Exit(app.ExitRefused, fmt.Errorf("--sequence: %d of the messages are not strays of playbook %q", len(cl.Sequence)-len(strays), b.name))
		}
	}
	out := cleaned{Book: string(b.name), Strays: strays}
	if !cl.JSON {
		if err := printStrays(strays); err != nil || len(strays) == 0 {
			return err
		}
	}
	if !cl.Yes && !cl.JSON {
		if err := confirmed(fmt.Sprintf("Remove %s of playbook %q from stream %s?", plural(len(strays), "message"), b.name, events.StreamDeltas)); err != nil {
			return err
		}
	}
	if cl.Yes || !cl.JSON {
		seqs := make([]uint64, len(strays))
		for i, s := range strays {
			seqs[i] = s.Seq
		}
		if err := b.store.RemoveStrays(ctx, b.name, seqs); err != nil {
			return err
		}
		out.Removed = true
	}
	if cl.JSON {
		return writeJSON(console.Stdout, out)
	}
	console.Printf("Removed %s.\n", plural(len(strays), "message"))
	return nil
}

func printStrays(strays []natskv.Stray) error {
	if len(strays) == 0 {
		console.Println("There are no strays.")
		return nil
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "sequence\tbytes\tstored\twhy")
	for _, s := range strays {
		console.Fprintf(w, "%d\t%d\t%s\t%s\n", s.Seq, s.Size, s.Time.Local().Format(time.DateTime), console.Line(s.Why))
	}
	return w.Flush()
}
