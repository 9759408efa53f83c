package books

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/playbook"
)

// change has the flags of the commands that change a playbook over the API. A Curator makes the change.
type change struct {
	apiclient.BookFlags
	Author string `help:"Author of the change, for the log. Default: $USER; with --url the token." placeholder:"NAME"`
	Reason string `help:"Reason of the change, for the log." placeholder:"TEXT"`
	JSON   bool   `help:"Print one JSON document."`
}

// edit sends an edit to the API and prints its result: JSON, or the text for the reply and the new version. A dry run has no new
// version. After a conflict with newer changes, edit also prints the bullets of the conflict as they are now.
func (ch *change) edit(ctx context.Context, c *program.Common, access apiclient.Access, r *api.EditRequest, text func(*api.EditReply) string) error {
	r.Reason = ch.Reason
	reply, err := apiclient.Send[api.EditReply](ctx, c, ch.Flags, access, ch.Author, ch.Path("edits"), r)
	var refused *api.Error
	if errors.As(err, &refused) {
		for _, conflict := range refused.Conflicts {
			if conflict.Read != nil {
				term.Fprintf(term.Stderr, "%s", term.Block(explain.Conflict(*conflict.Read, conflict.Expectation)))
			}
		}
	}
	switch {
	case err != nil:
		return err
	case ch.JSON:
		return cli.WriteJSON(term.Stdout, reply)
	}
	term.Printf("%s\n", term.Block(text(reply)))
	if !reply.DryRun {
		term.Printf("Playbook %q is at version %s.\n", reply.Book, reply.Label)
	}
	return nil
}

// fixedText returns a function for the parameter text of edit. The function formats a sentence, and does not use the reply.
func fixedText(format string, args ...any) func(*api.EditReply) string {
	return func(*api.EditReply) string { return fmt.Sprintf(format, args...) }
}

// bulletArg is a bullet id on the command line. It may have brackets, because prompts show ids in brackets.
type bulletArg string

func (a bulletArg) id() playbook.BulletID { return playbook.BulletID(strings.Trim(string(a), "[] ")) }

// ids returns the ids of arguments.
func ids(args []bulletArg) []playbook.BulletID {
	out := make([]playbook.BulletID, len(args))
	for i, a := range args {
		out[i] = a.id()
	}
	return out
}

type addBullet struct {
	change
	Content string `arg:"" help:"Text of the bullet."`
	When    string `help:"Condition under which the text holds; prompts show it first. Default: always." placeholder:"CONDITION"`
	Section string `help:"Section of the bullet." default:"others"`
}

func (a *addBullet) Run(ctx context.Context, c *program.Common) error {
	r := &api.EditRequest{Add: []request.NewBullet{{Content: a.Content, When: a.When, Section: a.Section}}}
	return a.edit(ctx, c, apiclient.Create, r, func(reply *api.EditReply) string { return fmt.Sprintf("Added %v.", reply.Added) })
}

type editBullet struct {
	change
	Bullet  bulletArg `arg:"" help:"Id of the bullet."`
	Content string    `help:"New text of the bullet, without its condition." placeholder:"TEXT"`
	When    string    `help:"New condition of the bullet; 'always' removes it. Default: unchanged." placeholder:"CONDITION"`
	Section string    `help:"New section of the bullet." placeholder:"NAME"`
	Read    string    `help:"Version that you read: refuse the edit if the bullet changed since. Default: newest." placeholder:"VERSION"`
}

func (ed *editBullet) Run(ctx context.Context, c *program.Common) error {
	id := ed.Bullet.id()
	r := &api.EditRequest{Change: []request.ChangedBullet{{ID: id, Content: ed.Content, When: ed.When, Section: ed.Section}}, Read: ed.Read}
	return ed.edit(ctx, c, apiclient.Change, r, fixedText("Changed %s.", id))
}

type removeBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Read    string      `help:"Version that you read: refuse if a bullet changed since. Default: newest." placeholder:"VERSION"`
}

func (r *removeBullet) Run(ctx context.Context, c *program.Common) error {
	list := ids(r.Bullets)
	return r.edit(ctx, c, apiclient.Change, &api.EditRequest{Remove: list, Read: r.Read}, fixedText("Removed %s.", term.Join(list)))
}

type pinBullet struct {
	change
	Bullets []bulletArg `arg:"" help:"Ids of the bullets."`
	Off     bool        `help:"Unpin the bullets."`
}

func (p *pinBullet) Run(ctx context.Context, c *program.Common) error {
	list := ids(p.Bullets)
	if p.Off {
		return p.edit(ctx, c, apiclient.Change, &api.EditRequest{Unpin: list}, fixedText("Unpinned %s.", term.Join(list)))
	}
	return p.edit(ctx, c, apiclient.Change, &api.EditRequest{Pin: list}, fixedText("Pinned %s.", term.Join(list)))
}

type mergeBullets struct {
	change
	Keep    bulletArg   `arg:"" help:"Id of the bullet that remains."`
	Others  []bulletArg `arg:"" help:"Ids of the bullets to merge into the first, with their votes."`
	Content string      `help:"New text of the merged bullet. Default: unchanged." placeholder:"TEXT"`
	When    string      `help:"New condition of the merged bullet. Default: that of the first." placeholder:"CONDITION"`
	Read    string      `help:"Version that you read: refuse if a bullet changed since. Default: newest." placeholder:"VERSION"`
}

func (m *mergeBullets) Run(ctx context.Context, c *program.Common) error {
	all := append([]playbook.BulletID{m.Keep.id()}, ids(m.Others)...)
	r := &api.EditRequest{Merge: &request.MergedBullet{IDs: all, Content: m.Content, When: m.When}, Read: m.Read}
	return m.edit(ctx, c, apiclient.Change, r, fixedText("Merged %s into %s.", term.Join(all[1:]), all[0]))
}

type tagBook struct {
	change
	Name    string `arg:"" help:"Name for the version. An existing name moves to this version."`
	Version string `arg:"" optional:"" help:"Version to name. Default: the newest." default:"newest" placeholder:"POINT"`
}

func (*tagBook) Help() string {
	return explain.VersionHelp + `

Examples:

  debrief playbook tag before-import
  debrief playbook tag release-3 17`
}

func (t *tagBook) Run(ctx context.Context, c *program.Common) error {
	r := &api.EditRequest{Tag: &request.NewTag{Name: t.Name, Version: t.Version}}
	return t.edit(ctx, c, apiclient.Change, r, func(reply *api.EditReply) string { return fmt.Sprintf("Version %s is %q.", reply.Of, t.Name) })
}

type restoreBook struct {
	change
	Version string `arg:"" help:"Version to restore." placeholder:"POINT"`
	Read    string `help:"Newest version that you read: refuse the restore if there is a newer one. Default: any." placeholder:"VERSION"`
}

func (*restoreBook) Help() string {
	return `Restores the bullets with a new change at the end of the log. The log is not rewritten: restore the version before to undo
it. Content removed by 'debrief playbook forget' stays removed, and ids are not reused.

` + explain.VersionHelp + `

Examples:

  debrief playbook restore 17
  debrief playbook restore release-3 --reason "bad feedback since"
  debrief playbook restore 36h --read 42`
}

func (r *restoreBook) Run(ctx context.Context, c *program.Common) error {
	return r.edit(ctx, c, apiclient.Change, &api.EditRequest{Restore: r.Version, Read: r.Read}, func(reply *api.EditReply) string {
		return fmt.Sprintf("Restored the bullets of version %s; %d of them changed.", reply.Of, reply.Changed)
	})
}

type rebuildBook struct{ change }

func (*rebuildBook) Help() string {
	return `Generators read the view: one key for each bullet, and a head. The view is derived from the log of changes. A rebuild writes
every key again from the log. The result depends only on the log, and the state hash is the same.

Examples:

  debrief playbook rebuild
  debrief playbook rebuild --book support --reason "after damage"`
}

func (r *rebuildBook) Run(ctx context.Context, c *program.Common) error {
	return r.edit(ctx, c, apiclient.Change, &api.EditRequest{Rebuild: true}, func(reply *api.EditReply) string {
		return fmt.Sprintf("Rebuilt the view: %s, state %s.", term.Plural(reply.Bullets, "bullet"), reply.StateHash)
	})
}

type forgetExecutions struct {
	change
	Source    string `help:"Forget the executions from this source, such as 'tau-bench'." placeholder:"NAME"`
	Owner     string `help:"Forget the executions of this token, by its id; see 'debrief token list'." placeholder:"ID"`
	User      string `name:"end-user" help:"Forget the executions that name this end user." placeholder:"NAME"`
	Session   string `help:"Forget the executions of this session." placeholder:"NAME"`
	Execution string `help:"Forget this execution." placeholder:"HANDLE"`
	DryRun    bool   `help:"Only show the changes."`
}

func (*forgetExecutions) Help() string {
	return `Removes bullets, changes of bullets and votes whose only evidence are the matching executions. A bullet with other evidence
as well goes into quarantine until a person reviews it. The executions leave sessions, summaries and recall too, and nothing is
learned from them later. Executions that are published after this change count again, except with --execution. This is one change
in the log, and a later restore does not undo it. Nothing is erased physically: the log keeps the old entries.
'debrief playbook erase' also removes the texts.

If several selectors are given, all must match. A playbook remembers the newest 128 selectors. When it drops an older one, all
executions before that forget change count as forgotten. So forget a session or a user at once, not each execution.

Examples:

  debrief playbook forget --source scraped-forum --dry-run
  debrief playbook forget --end-user ann
  debrief playbook forget --execution 1234-ab12cd34 --reason "a prank"`
}

func (f *forgetExecutions) Run(ctx context.Context, c *program.Common) error {
	selected := &request.Forgotten{Source: f.Source, Owner: f.Owner, User: f.User, Session: f.Session, Execution: f.Execution}
	return f.edit(ctx, c, apiclient.Change, &api.EditRequest{Forget: selected, DryRun: f.DryRun}, func(reply *api.EditReply) string {
		if reply.DryRun {
			return fmt.Sprintf("Version %s of the playbook learned from %s of %s. Changes:\n\n%s", reply.Label, term.Plural(reply.Matched, "reflection"), reply.Of,
				term.Block(explain.Differences(reply.Changes, "Nothing was changed.")))
		}
		return fmt.Sprintf("Forgot %s; %s changed.", reply.Of, term.Plural(reply.Changed, "bullet"))
	})
}
