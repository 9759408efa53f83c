package main

import (
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/playbook/history"
	"debrief/playbook/natskv"
)

type verifyBook struct {
	onBook
	JSON bool `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*verifyBook) Help() string {
	return `Checks everything that can be checked without a model: that every change follows the one before it, by number, place
and hash; that the changes fold; that the view is what they fold to, bullet by bullet; that every bullet that generators
are shown can be traced to an execution or to a person; that the streams hold what the playbook was learned from.
Messages that are not part of the log are listed; see 'debrief playbook clean'. Damage ends it with exit code 3 and what
to do about it.`
}

// verified is the output of --json.
type verified struct {
	*natskv.Verification
	Traced   int `json:"traced"` // shown bullets that lead to an execution or a person
	Untraced int `json:"untraced"`
}

// Run implements the command.
func (v *verifyBook) Run(ctx context.Context, c *app.Common) error {
	b, err := v.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	found, err := b.store.Verify(ctx, b.name)
	if err != nil {
		return err
	}
	out := verified{Verification: found}
	if err := out.stored(ctx, &v.onBook, b.Conn); err != nil {
		return err
	}
	damaged := slices.ContainsFunc(found.Findings, func(f natskv.Finding) bool { return f.Severity == natskv.Broken })
	if !damaged {
		if err := out.trace(ctx, b); err != nil {
			return err
		}
	}
	if v.JSON {
		err = writeJSON(console.Stdout, out)
	} else {
		out.print()
	}
	if err == nil && damaged {
		err = app.Exit(app.ExitRefused, fmt.Errorf("playbook %q is damaged; see above", b.name))
	}
	return err
}

// trace counts the shown bullets that can be explained.
func (v *verified) trace(ctx context.Context, b *openBook) error {
	p, err := b.store.At(ctx, b.name, v.Version)
	if err != nil {
		return broken(err)
	}
	origins, err := history.Origins(b.store.History(ctx, b.name), p)
	if err != nil {
		return broken(err)
	}
	for _, o := range origins {
		if o.Resolves() {
			v.Traced++
		} else {
			v.Untraced++
		}
	}
	return nil
}

func (v *verified) print() {
	console.Printf("Playbook %q at version %s: %d deltas, %d bytes, %d bullets.\n", v.Book, v.Label, v.Deltas, v.Bytes, v.Bullets)
	console.Printf("  chain hash  %s\n  state hash  %s\n  view        version %d\n", v.ChainHash, v.StateHash, v.View)
	if v.Traced+v.Untraced > 0 {
		console.Printf("  traced      %d of %d bullets that are shown lead to an execution or a person\n", v.Traced, v.Traced+v.Untraced)
	}
	for _, f := range v.Findings {
		console.Printf("%s: %s\n", f.Severity, f.Text)
	}
	if len(v.Findings) == 0 {
		console.Printf("Every hash is as it should be.\n")
	}
}
