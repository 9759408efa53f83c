package books

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/curator/gate"
	"debrief/playbook"
)

// Playbook has the commands on playbooks.
type Playbook struct {
	Show    showBook    `cmd:"" help:"Show a playbook at its newest or an older version." example:"--book support --at 36h --hidden"`
	Log     logBook     `cmd:"" help:"List the changes of a playbook, newest first." example:"--book support --limit 3"`
	Diff    diffBook    `cmd:"" help:"Compare two versions."`
	Tag     tagBook     `cmd:"" help:"Name a version."`
	Restore restoreBook `cmd:"" help:"Restore the bullets of an older version."`

	Add    addBullet    `cmd:"" help:"Add a bullet." example:"'Round at the end.' --section formulas --reason bank"`
	Edit   editBullet   `cmd:"" help:"Change the text or section of a bullet." example:"misc-00001 --content 'Round at the end.' --read 17"`
	Remove removeBullet `cmd:"" help:"Remove bullets." example:"misc-00001 misc-00002 --read 17 --reason outdated"`
	Pin    pinBullet    `cmd:"" help:"Pin bullets: they are not pruned, and edits cannot remove them or merge them away." example:"misc-00001 misc-00002"`
	Merge  mergeBullets `cmd:"" help:"Merge several bullets into one." example:"misc-00001 misc-00002 --content 'Round to cents.'"`
	Refine refineBook   `cmd:"" help:"Merge duplicate bullets and retire harmful ones; shows the plan first."`

	Import importBook `cmd:"" help:"Import a playbook from a file."`
	Export exportBook `cmd:"" help:"Export a playbook for another system."`

	Fork    forkBook    `cmd:"" help:"Copy a version of a playbook into a new playbook."`
	Promote promoteBook `cmd:"" help:"Copy the bullets that a training run learned into a playbook."`

	Gate   gateBook `cmd:"" help:"Show the records of bullets, or set the gate to off, guard or strict."`
	Review review   `cmd:"" help:"List, approve and reject bullets in quarantine."`

	Control      control      `cmd:"" help:"Show or set the random share of sessions without advice."`
	LeadingScore leadingScore `cmd:"" help:"Show or set the score that counts if an outcome has several."`
	About        about        `cmd:"" help:"Show or set the name and the description."`
	Judge        judge        `cmd:"" help:"Measure the error of a judge by feedback, and store it."`

	Why      whyBook          `cmd:"" help:"Explain a bullet, or the effect of an execution."`
	Forget   forgetExecutions `cmd:"" help:"Remove the content that was learned from given executions."`
	Erase    eraseData        `cmd:"" help:"Erase what a user, a session, a task or a playbook has left."`
	Rejected rejectedBook     `cmd:"" help:"List rejected, merged and dropped proposals with reasons."`
	Doubts   doubtsBook       `cmd:"" help:"List outcomes that the Reflector doubts, with reasons."`
	Verify   verifyBook       `cmd:"" help:"Verify every hash of the log and of the view."`
	Rebuild  rebuildBook      `cmd:"" help:"Rebuild the view from the log."`
}

func (*Playbook) Help() string {
	return `Changes go through a curator. If no server runs on the data directory, the command runs one itself.

Examples:

  debrief playbook show --book support
  debrief playbook log --limit 10
  debrief playbook add "Ask for the invoice number first."
  debrief playbook why 412-ab12cd34`
}

type showBook struct {
	apiclient.BookFlags
	At     string `help:"Version to show: number, label, time or tag; see 'debrief playbook diff --help'." placeholder:"POINT"`
	Hidden bool   `help:"Include bullets that generators do not show: candidate, retired, quarantined."`
	Prompt bool   `help:"Print the text as in a prompt, without a limit of tokens." xor:"form"`
	Stats  bool   `help:"Print counts of bullets, their health, and success with and without earlier turns." xor:"form"`
	JSON   bool   `help:"Print one JSON document."`
}

func (sh *showBook) Run(ctx context.Context, c *program.Common) error {
	a, err := sh.Open(ctx, c, apiclient.Read, "")
	if err != nil {
		return err
	}
	defer a.Close()
	query := map[string]string{"at": sh.At}
	if sh.Stats {
		query["outcomes"] = "true"
	}
	b, err := api.Get[api.BookState](ctx, a.Client, sh.Path(), query)
	if err != nil {
		return err
	}
	if sh.Stats {
		h, err := api.Get[explain.Health](ctx, a.Client, sh.Path("health"), map[string]string{"limit": "30"})
		if err != nil {
			return err
		}
		return sh.printStats(b, h)
	}
	query = map[string]string{"at": fmt.Sprint(b.Version)} // the bullets of the same version, even if a newer one follows now
	if !sh.Hidden {
		query["state"] = "shown"
	}
	items, _, err := api.List[index.BulletItem](ctx, a.Client, sh.Path("bullets"), query, 0)
	if err != nil {
		return err
	}
	bullets := make([]*playbook.Bullet, len(items))
	for i := range items {
		bullets[i] = items[i].Bullet
	}
	switch {
	case sh.JSON:
		return cli.WriteJSON(term.Stdout, struct {
			*api.BookState
			Bullets []*playbook.Bullet `json:"bullets"`
		}{b, bullets})
	case sh.Prompt:
		_, err = term.Fprintf(term.Stdout, "%s", term.Block(playbook.Render(bullets)))
	default:
		if !sh.Hidden {
			slices.SortFunc(bullets, playbook.CompareScores)
		}
		if len(bullets) == 0 && b.Bullets > 0 {
			term.Println("No bullet is shown by generators; --hidden lists the others.")
		} else if err := cli.PrintBullets(term.Stdout, bullets); err != nil {
			return err
		}
		_, err = term.Printf("%s\nPlaybook %q at version %s: %s, %d shown by generators. State %s.\n", term.Block(waitingText(items)),
			b.Book, b.Label, term.Plural(b.Bullets, "bullet"), b.Shown, b.StateHash)
	}
	return err
}

// waitingText lists the bullets that wait, with the reason of each. It is "" without any.
func waitingText(items []index.BulletItem) string {
	var out strings.Builder
	for i := range items {
		waits := gate.Waits(items[i].State, items[i].Record)
		if waits == "" {
			continue
		}
		if out.Len() == 0 {
			out.WriteString("\nWaiting:\n")
		}
		term.Fprintf(&out, "  %s %s\n", items[i].ID, waits)
	}
	return out.String()
}

// printStats prints the statistics of a version, with the outcomes of the stored runs, and the health of the newest version.
func (sh *showBook) printStats(b *api.BookState, h *explain.Health) error {
	if sh.JSON {
		return cli.WriteJSON(term.Stdout, struct {
			*api.BookState
			Health *explain.Health `json:"health"`
		}{b, h})
	}
	term.Printf("Playbook %q at version %s:\n%s\n", b.Book, b.Label, term.Block(cli.FormatStats(b.Stats)))
	if err := h.Write(term.Stdout); err != nil {
		return err
	}
	return b.Outcomes.Write(term.Stdout)
}

// newPlaybook returns a playbook in memory with these bullets.
func newPlaybook(bullets []*playbook.Bullet) (*playbook.Playbook, error) {
	d := &playbook.Delta{Version: 1}
	for _, b := range bullets {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Put, Bullet: b.ID, PutBullet: b})
	}
	p := new(playbook.Playbook)
	_, err := p.Apply(d)
	return p, err
}
