package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/events"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

// quarantine is where advice waits that the Curator has doubts about.
type quarantine struct {
	List    quarantineList    `cmd:"" default:"withargs" help:"List what waits, and why."`
	Approve quarantineApprove `cmd:"" help:"Have bullets shown; with the gate on they are tried first."`
	Reject  quarantineReject  `cmd:"" help:"Retire bullets. Who asks for the same words again is told so."`
}

// Help implements kong.HelpProvider.
func (*quarantine) Help() string {
	return `In quarantine is what a source says that is not trusted, what comes in a burst, what contradicts a bullet that outcomes
support, and what rests in part on something that was forgotten. Nobody is shown it until a person approves.

Examples:

  debrief playbook quarantine list
  debrief playbook quarantine approve misc-00012
  debrief playbook quarantine reject misc-00013 misc-00014 --reason "not ours"`
}

type quarantineList struct {
	onBook
	JSON bool `help:"Print JSON lines."`
}

// detained is a bullet in quarantine, and how it came there.
type detained struct {
	*book.Bullet
	Version uint64    `json:"version"`
	Time    time.Time `json:"time"`
	Reason  string    `json:"reason,omitempty"`
	From    []string  `json:"from,omitempty"` // executions, with their sources
}

// take notes an operation on the bullet, of a change that took effect with r, if that is what put it in quarantine.
func (d *detained) take(op *book.Op, r *natskv.Record) {
	to := op.Status
	if op.Whole != nil {
		to = op.Whole.Status
	}
	if to != book.Quarantined {
		return
	}
	d.Version, d.Time, d.Reason = r.Version, r.Time, cmp.Or(op.Reason, r.Reason)
	for _, s := range op.Support {
		if s >= len(r.Covers) {
			continue
		}
		if e := r.Covers[s].Evidence; e != nil {
			d.From = append(d.From, strings.TrimSuffix(e.Execution+" "+e.Source, " "))
		}
	}
}

// Run implements the command.
func (l *quarantineList) Run(ctx context.Context, c *app.Common) error {
	b, err := l.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, _, err := b.at(ctx, "")
	if err != nil {
		return err
	}
	held := map[book.BulletID]*detained{}
	for bullet := range p.All() {
		if bullet.Status == book.Quarantined {
			held[bullet.ID] = &detained{Bullet: bullet}
		}
	}
	var parts book.Parts
	err = b.store.Log(ctx, b.name, func(r *natskv.Record) error {
		for _, part := range parts.Take(&r.Delta) {
			for i := range part.Ops {
				if h := held[part.Ops[i].Bullet]; h != nil {
					h.take(&part.Ops[i], r)
				}
			}
		}
		return nil
	})
	if err != nil {
		return broken(err)
	}
	list := make([]*detained, 0, len(held))
	for _, h := range held {
		list = append(list, h)
	}
	slices.SortFunc(list, func(a, b *detained) int { return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.ID, b.ID)) })
	if l.JSON {
		for _, h := range list {
			if err := writeJSON(console.Stdout, h); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		console.Printf("Nothing is in quarantine.\n")
		return nil
	}
	for _, h := range list {
		console.Printf("%s [%s] since version %d, %s", h.ID, h.Section, h.Version, h.Time.Local().Format(time.DateTime))
		if len(h.From) > 0 {
			console.Printf(", from %s", strings.Join(h.From, ", "))
		}
		console.Println()
		if h.Reason != "" {
			console.Printf("  because: %s\n", h.Reason)
		}
		if old := p.Bullet(h.Replaces); old != nil {
			console.Printf("  in place of %s: %s\n", old.ID, inLine(old.Content, 160))
		}
		console.Printf("%s", console.Block(marked("  > ", h.Content)))
	}
	console.Printf("%s in quarantine.\n", plural(len(list), "bullet"))
	return nil
}

// detainees are bullets that a person decides on. One that is not in quarantine is an error.
func (ch *change) detainees(ctx context.Context, c *app.Common, args []bulletArg) (*openBook, *book.Playbook, []book.BulletID, error) {
	b, err := ch.existing(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	p, _, err := b.at(ctx, "")
	list := ids(args)
	slices.Sort(list)
	list = slices.Compact(list)
	for _, id := range list {
		if err != nil {
			break
		}
		switch is := p.Bullet(id); {
		case is == nil:
			err = app.Exit(app.ExitRefused, fmt.Errorf("bullet %q is not in the playbook", id))
		case is.Status != book.Quarantined:
			err = app.Exit(app.ExitRefused, fmt.Errorf("bullet %q is not in quarantine, it is %s", id, shownStatus(is)))
		}
	}
	if err != nil {
		b.Close()
		return nil, nil, nil, err
	}
	return b, p, list, nil
}

type quarantineApprove struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

// Run implements the command.
func (a *quarantineApprove) Run(ctx context.Context, c *app.Common) error {
	b, p, list, err := a.detainees(ctx, c, a.Bullets)
	if err != nil {
		return err
	}
	defer b.Close()
	e := new(events.Edit)
	expect := func(is *book.Bullet) {
		e.Expect = append(e.Expect, events.Expectation{Bullet: is.ID, Section: is.Section, Content: is.Content})
	}
	to, what := book.Active, "Approved %s: it is shown from now on."
	mode, _ := p.Gate()
	if mode == book.GateOn {
		to, what = book.Candidate, "Approved %s: the gate tries it when there is a place."
	}
	var gone []book.BulletID
	places := map[book.BulletID]book.BulletID{}
	for _, id := range list {
		is := p.Bullet(id)
		expect(is)
		if other := places[is.Replaces]; is.Replaces != "" && other != "" {
			return app.Exit(app.ExitRefused, fmt.Errorf("bullets %q and %q would both replace %q: approve one of them", other, id, is.Replaces))
		}
		places[is.Replaces] = id
		e.Ops = append(e.Ops, book.Op{Kind: book.SetStatus, Bullet: id, Status: to, Reason: cmp.Or(a.Reason, "approved")})
		if is.Replaces == "" || to != book.Active {
			continue
		}
		for _, old := range p.Sorted() {
			if (old.ID != is.Replaces && old.Replaces != is.Replaces) || !old.Shown() || slices.Contains(gone, old.ID) {
				continue
			}
			if old.Pinned {
				return app.Exit(app.ExitRefused, fmt.Errorf("bullet %q would replace %q, which is pinned; unpin that first", id, old.ID))
			}
			expect(old)
			gone = append(gone, old.ID)
			e.Ops = append(e.Ops, book.Op{Kind: book.SetStatus, Bullet: old.ID, Status: book.Retired, Reason: fmt.Sprintf("bullet %q, approved by a person, takes its place", id)})
		}
	}
	d, err := a.ask(ctx, b, e)
	if err != nil {
		return err
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		return a.done(b, d, what+" Retired in its place: %s.", joined(list), joined(gone))
	}
	return a.done(b, d, what, joined(list))
}

type quarantineReject struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

// Run implements the command.
func (r *quarantineReject) Run(ctx context.Context, c *app.Common) error {
	b, p, list, err := r.detainees(ctx, c, r.Bullets)
	if err != nil {
		return err
	}
	defer b.Close()
	e := new(events.Edit)
	for _, id := range list {
		is := p.Bullet(id)
		e.Expect = append(e.Expect, events.Expectation{Bullet: id, Section: is.Section, Content: is.Content})
		e.Ops = append(e.Ops, book.Op{Kind: book.SetStatus, Bullet: id, Status: book.Retired, Reason: cmp.Or(r.Reason, "rejected")})
	}
	d, err := r.ask(ctx, b, e)
	if err != nil {
		return err
	}
	return r.done(b, d, "Rejected %s.", joined(list))
}
