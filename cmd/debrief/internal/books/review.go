package books

import (
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/playbook"
)

// review groups the commands on bullets in quarantine.
type review struct {
	List    reviewList    `cmd:"" default:"withargs" help:"List the bullets in quarantine with their reasons." example:"--book support --json"`
	Approve reviewApprove `cmd:"" help:"Approve bullets: use them in prompts." example:"misc-00012 misc-00013 --reason checked"`
	Mode    reviewMode    `cmd:"" help:"Show the review mode, or set it to first or off."`
	Reject  reviewReject  `cmd:"" help:"Retire bullets. The Curator rejects the same text from then on." example:"misc-00013 misc-00014 --reason 'not ours'"`
}

func (*review) Help() string {
	return `List and decide on bullets in quarantine: bullets from a source that is not trusted, bullets that arrive in a burst,
bullets that contradict a bullet supported by outcomes, bullets whose evidence is partly forgotten, and candidates behind inferred
outcomes only, which a reported outcome also confirms. They are not in any prompt until a person approves them. Each has the reason,
such as the sentence and the pattern that it matches. With the mode first, every new text waits here.

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

func (m *reviewMode) Run(ctx context.Context, c *program.Common) error {
	if m.Mode != "" { // the mode may be the first edit of a playbook, so the access is Create
		return m.edit(ctx, c, apiclient.Create, &api.EditRequest{Review: playbook.Review(m.Mode)}, func(reply *api.EditReply) string {
			return strings.TrimSpace(fmt.Sprintf("The review mode is %s.\n%s", m.Mode, unapproved(reply.Unapproved)))
		})
	}
	return apiclient.Show(ctx, c, m.Flags, m.JSON, m.Path("gate"), map[string]string{"limit": "1"}, printReviewMode)
}

func printReviewMode(g *api.GateState) error {
	_, err := term.Printf("The review mode of playbook %q at version %s is %s.\n%s", g.Book, g.Label, g.Review, term.Block(unapproved(g.Unapproved)))
	return err
}

// unapproved returns a line, with its line break, about shown bullets that no person approved. Without any it returns "".
func unapproved(ids []playbook.BulletID) string {
	if len(ids) == 0 {
		return ""
	}
	return fmt.Sprintf("%s in prompts without an approval: %s.\n", term.Plural(len(ids), "bullet"), term.Join(ids))
}

// reviewList lists the bullets in quarantine.
type reviewList struct {
	apiclient.BookFlags
	JSON bool `help:"Print JSON lines; an empty list prints nothing."`
}

func (l *reviewList) Run(ctx context.Context, c *program.Common) error {
	list, _, err := apiclient.List[*api.Quarantined](ctx, c, l.Flags, l.Path("review"), nil, 0)
	if err != nil {
		return err
	}
	if l.JSON {
		return cli.WriteLines(term.Stdout, list)
	}
	if len(list) == 0 {
		term.Printf("No bullets in quarantine.\n")
		return nil
	}
	for _, q := range list {
		from := ""
		if len(q.From) > 0 {
			from = ", from " + strings.Join(q.From, ", ")
		}
		term.Printf("%s [%s] since version %d, %s%s\n", q.ID, q.Section, q.Version, q.Time.Local().Format(time.DateTime), from)
		if q.Reason != "" {
			term.Printf("  reason: %s\n", q.Reason)
		}
		if q.Replaced != "" {
			term.Printf("  replaces %s: %s\n", q.Replaces, term.OneLine(q.Replaced, 160))
		}
		if q.Contested != "" {
			term.Printf("  contradicts %s: %s\n", q.Contests, term.OneLine(q.Contested, 160))
		}
		if n := q.Nearest; n != nil {
			term.Printf("  similar to %s (%s, %.0f %%): %s\n", n.ID, n.State, 100*n.Similarity, term.OneLine(n.Content, 160))
		}
		if e := q.Example; e != nil {
			term.Printf("  learned in %s: %s\n", e.Execution, term.OneLine(e.Question, 160))
		}
		term.Printf("%s", term.Block(explain.Marked("  > ", q.Content)))
	}
	term.Printf("%s in quarantine.\n", term.Plural(len(list), "bullet"))
	return nil
}

// reviewApprove releases bullets from quarantine, and approves bullets in prompts.
type reviewApprove struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

func (a *reviewApprove) Run(ctx context.Context, c *program.Common) error {
	list := ids(a.Bullets)
	return a.edit(ctx, c, apiclient.Change, &api.EditRequest{Approve: list}, func(reply *api.EditReply) string {
		text := fmt.Sprintf("Approved %s: active in new prompts.", term.Join(list))
		if len(reply.Retired) > 0 {
			text += fmt.Sprintf(" Retired: %s.", term.Join(reply.Retired))
		}
		return text
	})
}

// reviewReject retires bullets in quarantine.
type reviewReject struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
}

func (r *reviewReject) Run(ctx context.Context, c *program.Common) error {
	list := ids(r.Bullets)
	return r.edit(ctx, c, apiclient.Change, &api.EditRequest{Reject: list}, fixedText("Rejected %s.", term.Join(list)))
}
