// Package books has the commands on playbooks, feedback and contexts. The flags of a command are the fields of a struct; Run
// is the command. Changes go through a Curator: no command writes to a playbook.
package books

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"

	book "debrief/playbook"
)

// Playbook has the commands on playbooks.
type Playbook struct {
	Show    showBook    `cmd:"" help:"Show a playbook at its newest or an older version."`
	Log     logBook     `cmd:"" help:"List the changes of a playbook, newest first."`
	Diff    diffBook    `cmd:"" help:"Compare two versions."`
	Tag     tagBook     `cmd:"" help:"Name a version."`
	Restore restoreBook `cmd:"" help:"Restore the bullets of an older version."`

	Add    addBullet    `cmd:"" help:"Add a bullet."`
	Edit   editBullet   `cmd:"" help:"Change the text or section of a bullet."`
	Remove removeBullet `cmd:"" help:"Remove bullets."`
	Pin    pinBullet    `cmd:"" help:"Pin bullets, so that they are not pruned."`
	Merge  mergeBullets `cmd:"" help:"Merge several bullets into one."`
	Refine refineBook   `cmd:"" help:"Merge duplicate bullets and retire harmful ones; shows the plan first."`

	Import importBook `cmd:"" help:"Import a playbook from a file."`
	Export exportBook `cmd:"" help:"Export a playbook for another system."`

	Fork    forkBook    `cmd:"" help:"Copy a version of a playbook into a new playbook."`
	Promote promoteBook `cmd:"" help:"Copy the bullets that a training run learned into a playbook."`

	Gate   gateBook `cmd:"" help:"Show the records of bullets, or set the gate to off, guard or strict."`
	Review review   `cmd:"" help:"List, approve and reject bullets in quarantine."`

	Why      whyBook          `cmd:"" help:"Explain a bullet, or the effect of an execution."`
	Forget   forgetExecutions `cmd:"" help:"Remove the content that was learned from given executions."`
	Rejected rejectedBook     `cmd:"" help:"List rejected, merged and dropped proposals with reasons."`
	Verify   verifyBook       `cmd:"" help:"Verify every hash of the log and of the view."`
	Clean    cleanBook        `cmd:"" help:"Remove stray messages, which are not part of the log, from its stream."`
	Rebuild  rebuildBook      `cmd:"" help:"Rebuild the view from the log."`
}

// Help implements kong.HelpProvider.
func (*Playbook) Help() string {
	return `Changes go through a curator. If no server runs on the data directory, the command runs one itself.

Examples:

  debrief playbook show --book support
  debrief playbook log --limit 10
  debrief playbook add "Ask for the invoice number first."
  debrief playbook why 412-ab12cd34`
}

type showBook struct {
	cli.BookFlags
	At     string `help:"Version to show: number, label, time or tag; see 'debrief playbook diff --help'." placeholder:"POINT"`
	Hidden bool   `help:"Include bullets that generators do not show: candidate, retired, quarantined."`
	Prompt bool   `help:"Print the text as in a prompt, without a limit of tokens." xor:"form"`
	Stats  bool   `help:"Print counts of bullets, and success with and without each bullet and earlier turns of the session." xor:"form"`
	JSON   bool   `help:"Print one JSON document."`
}

// bookDetails is the output of --json.
type bookDetails struct {
	Book      book.Book      `json:"book"`
	Version   uint64         `json:"version"`
	Label     string         `json:"label"`
	StateHash string         `json:"state_hash"`
	Bullets   []*book.Bullet `json:"bullets"`
}

// bookStats is the output of --stats --json.
type bookStats struct {
	Book    book.Book  `json:"book"`
	Version uint64     `json:"version"`
	Label   string     `json:"label"`
	Stats   book.Stats `json:"stats"`
	// Outcomes compares the stored runs with each bullet and without it.
	Outcomes *explain.Outcomes `json:"outcomes"`
}

// Help implements kong.HelpProvider.
func (*showBook) Help() string {
	return `Examples:

  debrief playbook show
  debrief playbook show --book support --at 36h --hidden
  debrief playbook show --stats
  debrief playbook show --prompt`
}

// stats prints the statistics of a version, with the outcomes of the stored runs.
func (sh *showBook) stats(ctx context.Context, b *cli.Playbook, p *book.Playbook, label string) error {
	outcomes, err := explain.ReadOutcomes(ctx, b.Session, b.Name)
	if err != nil {
		return err
	}
	outcomes.Of(p)
	if sh.JSON {
		return cli.WriteJSON(console.Stdout, bookStats{b.Name, p.Version(), label, p.Stats(), outcomes})
	}
	console.Printf("Playbook %q at version %s:\n%s\n", b.Name, label, console.Block(cli.FormatStats(p.Stats())))
	return outcomes.Write(console.Stdout)
}

// Run implements the command.
func (sh *showBook) Run(ctx context.Context, c *app.Common) error {
	b, err := sh.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.At(ctx, sh.At)
	if err != nil {
		return err
	}
	bullets := p.Top(p.Len())
	if sh.Hidden {
		bullets = p.Sorted()
	}
	switch {
	case sh.Stats:
		return sh.stats(ctx, b, p, label)
	case sh.JSON:
		return cli.WriteJSON(console.Stdout, bookDetails{b.Name, p.Version(), label, fmt.Sprintf("%x", p.StateHash()), bullets})
	case sh.Prompt:
		active := p.Top(p.Len())
		slices.SortFunc(active, func(a, b *book.Bullet) int { return strings.Compare(string(a.ID), string(b.ID)) })
		console.Fprintf(console.Stdout, "%s", console.Block(book.Render(active)))
	default:
		console.Printf("%s\nPlaybook %q at version %s: %s, %d shown by generators. State %x.\n",
			console.Block(cli.FormatBullets(bullets, console.Width(console.Stdout))), b.Name, label, console.Plural(p.Len(), "bullet"), len(p.Top(p.Len())), p.StateHash())
	}
	return nil
}
