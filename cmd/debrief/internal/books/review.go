package books

import (
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/edits"
	"debrief/cmd/internal/explain"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/playbook/history"

	book "debrief/playbook"
)

// review lists and decides on bullets that the Curator does not trust.
type review struct {
	List    reviewList    `cmd:"" default:"withargs" help:"List the bullets in quarantine with their reasons."`
	Approve reviewApprove `cmd:"" help:"Approve bullets: use them in prompts."`
	Mode    reviewMode    `cmd:"" help:"Show the review mode, or set it to first or off."`
	Reject  reviewReject  `cmd:"" help:"Retire bullets. The Curator rejects the same text from then on."`
}

// Help implements kong.HelpProvider.
func (*review) Help() string {
	return `List and decide on bullets in quarantine: bullets from a source that is not trusted, bullets that arrive in a burst,
bullets that contradict a bullet supported by outcomes, and bullets whose evidence is partly forgotten. They are not in
any prompt until a person approves them. Each has the reason, such as the sentence and the pattern that it matches. With the
mode first, every new text waits here.

Examples:

  debrief playbook review list
  debrief playbook review approve misc-00012
  debrief playbook review mode first --reason "a person reads all advice"
  debrief playbook review reject misc-00013 misc-00014 --reason "not ours"`
}

// reviewMode shows or sets the review mode.
type reviewMode struct {
	change
	Mode string `arg:"" optional:"" help:"New mode: first or off. Default: only show the mode." placeholder:"MODE"`
}

// Help implements kong.HelpProvider.
func (*reviewMode) Help() string {
	return `  first  a new text of any source waits in quarantine until a person
         approves exactly this text; a changed text waits again
  off    the gate decides which new bullets are shown; the default

Bullets that are active when the mode becomes first stay in prompts. The command lists those that nobody approved. The gate
goes on to measure all bullets.

Examples:

  debrief playbook review mode
  debrief playbook review mode first --book support
  debrief playbook review mode off --reason "the pilot is over"`
}

// Run implements the command.
func (m *reviewMode) Run(ctx context.Context, c *app.Common) error {
	mode := book.Review(m.Mode)
	if !mode.Valid() {
		return app.Exit(app.ExitUsage, fmt.Errorf("mode: want first or off, got %q", m.Mode))
	}
	if mode == "" {
		return m.show(ctx, c)
	}
	b, err := m.Open(ctx, c) // the mode can be set before the playbook has a version
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := m.ask(ctx, b, &events.Edit{Review: mode})
	if err != nil {
		return err
	}
	if err := m.done(b, d, "The review mode is %s.", mode); err != nil || m.JSON || mode == book.ReviewOff {
		return err
	}
	p, _, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	_, ids := explain.ReviewOf(p)
	printUnapproved(ids)
	return nil
}

func (m *reviewMode) show(ctx context.Context, c *app.Common) error {
	b, err := m.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	mode, ids := explain.ReviewOf(p)
	if m.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			Book       book.Book       `json:"book"`
			Label      string          `json:"label"`
			Review     book.Review     `json:"review"`
			Unapproved []book.BulletID `json:"unapproved,omitempty"`
		}{b.Name, label, mode, ids})
	}
	console.Printf("The review mode of playbook %q at version %s is %s.\n", b.Name, label, mode)
	if mode == book.ReviewFirst {
		printUnapproved(ids)
	}
	return nil
}

// printUnapproved lists the shown bullets that nobody approved.
func printUnapproved(ids []book.BulletID) {
	if len(ids) > 0 {
		console.Printf("%s in prompts without an approval: %s.\n", console.Plural(len(ids), "bullet"), explain.JoinIDs(ids))
	}
}

// reviewList lists the bullets in quarantine.
type reviewList struct {
	cli.BookFlags
	JSON bool `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*reviewList) Help() string {
	return `Examples:

  debrief playbook review list
  debrief playbook review list --book support --json`
}

// Run implements the command.
func (l *reviewList) Run(ctx context.Context, c *app.Common) error {
	b, err := l.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, _, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	statuses, err := history.StatusesOf(b.Store.History(ctx, b.Name))
	if err != nil {
		return versions.LogError(err)
	}
	list := statuses.Quarantine(p)
	if l.JSON {
		for _, h := range list {
			if err := cli.WriteJSON(console.Stdout, h); err != nil {
				return err
			}
		}
		return nil
	}
	if len(list) == 0 {
		console.Printf("No bullets in quarantine.\n")
		return nil
	}
	for _, h := range list {
		from := ""
		if len(h.From) > 0 {
			from = ", from " + strings.Join(h.From, ", ")
		}
		console.Printf("%s [%s] since version %d, %s%s\n", h.ID, h.Section, h.Version, h.Time.Local().Format(time.DateTime), from)
		if h.Reason != "" {
			console.Printf("  reason: %s\n", h.Reason)
		}
		if old := p.Bullet(h.Replaces); old != nil {
			console.Printf("  replaces %s: %s\n", old.ID, console.OneLine(old.Content, 160))
		}
		console.Printf("%s", console.Block(explain.Marked("  > ", h.Content)))
	}
	console.Printf("%s in quarantine.\n", console.Plural(len(list), "bullet"))
	return nil
}

// openReview opens the playbook and returns the ids in args, sorted and without duplicates. It returns an error if a
// bullet is not in quarantine. The caller closes the playbook.
func (ch *change) openReview(ctx context.Context, c *app.Common, args []bulletArg) (*cli.Playbook, *book.Playbook, []book.BulletID, error) {
	b, err := ch.OpenForChange(ctx, c)
	if err != nil {
		return nil, nil, nil, err
	}
	p, _, err := b.At(ctx, "")
	if err != nil {
		b.Close()
		return nil, nil, nil, err
	}
	list, err := edits.SelectQuarantined(p, ids(args))
	if err != nil {
		b.Close()
		return nil, nil, nil, app.Exit(app.ExitRefused, err)
	}
	return b, p, list, nil
}

// reviewApprove releases bullets from quarantine.
type reviewApprove struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

// Help implements kong.HelpProvider.
func (*reviewApprove) Help() string {
	return `Examples:

  debrief playbook review approve misc-00012
  debrief playbook review approve misc-00012 misc-00013 --reason checked`
}

// Run implements the command.
func (a *reviewApprove) Run(ctx context.Context, c *app.Common) error {
	b, p, list, err := a.openReview(ctx, c, a.Bullets)
	if err != nil {
		return err
	}
	defer b.Close()
	made, err := edits.NewApproval(p, list, a.Reason)
	if err != nil {
		return app.Exit(app.ExitRefused, err)
	}
	d, err := a.ask(ctx, b, &events.Edit{Ops: made.Ops, Expect: edits.Expectations(p, made.Ops)})
	if err != nil {
		return err
	}
	const message = "Approved %s: active in new prompts."
	if len(made.Retired) > 0 {
		return a.done(b, d, message+" Retired: %s.", explain.JoinIDs(list), explain.JoinIDs(made.Retired))
	}
	return a.done(b, d, message, explain.JoinIDs(list))
}

// reviewReject retires bullets in quarantine.
type reviewReject struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

// Help implements kong.HelpProvider.
func (*reviewReject) Help() string {
	return `Examples:

  debrief playbook review reject misc-00013
  debrief playbook review reject misc-00013 misc-00014 --reason "not ours"`
}

// Run implements the command.
func (r *reviewReject) Run(ctx context.Context, c *app.Common) error {
	b, p, list, err := r.openReview(ctx, c, r.Bullets)
	if err != nil {
		return err
	}
	defer b.Close()
	ops := edits.Reject(list, r.Reason)
	d, err := r.ask(ctx, b, &events.Edit{Ops: ops, Expect: edits.Expectations(p, ops)})
	if err != nil {
		return err
	}
	return r.done(b, d, "Rejected %s.", explain.JoinIDs(list))
}
