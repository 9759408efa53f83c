package books

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/request"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/curator/gate"
	"debrief/playbook"
)

// about shows or sets the name and the description of a playbook.
type about struct {
	change
	Name        string `help:"New name for people, one line." placeholder:"NAME"`
	Description string `help:"New description: what the playbook is for." placeholder:"TEXT"`
	Clear       bool   `help:"Remove the name and the description before the new ones are set."`
}

func (*about) Help() string {
	return `Lists and the console show the name and the description beside the playbook. No prompt contains them.

Examples:

  debrief playbook about --book support
  debrief playbook about --book support --name "Support desk"
  debrief playbook about --book support --description "Tickets of shops."`
}

func (a *about) Run(ctx context.Context, c *program.Common) error {
	if a.Name != "" || a.Description != "" || a.Clear {
		r := &api.EditRequest{About: new(request.AboutRequest)}
		if a.Name != "" || a.Clear {
			r.About.Name = &a.Name
		}
		if a.Description != "" || a.Clear {
			r.About.Description = &a.Description
		}
		return a.edit(ctx, c, apiclient.Create, r, func(*api.EditReply) string { return "Saved the name and the description." })
	}
	return apiclient.Show(ctx, c, a.Flags, a.JSON, a.Path(), nil, printAbout)
}

func printAbout(b *api.BookState) error {
	_, err := term.Printf("Playbook %q at version %s\n  name: %s\n  description: %s\n", b.Book, b.Label, orNone(b.Name), orNone(b.Description))
	return err
}

// orNone returns a text, or "none" for an empty one.
func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return term.OneLine(text, playbook.MaxContent)
}

// control shows or sets the control share.
type control struct {
	change
	Share string `arg:"" optional:"" help:"New share, such as 5%, or off. Default: only show it." placeholder:"SHARE"`
}

func (*control) Help() string {
	return `A control share answers whether the playbook helps. A random part of the sessions gets no advice, and their outcomes
are compared with those of the other sessions: 'debrief report' has the answer. It is off by default, and at most 50%.

The price: the sessions of the control group work as if there were no playbook. They are still recorded and learned from.

A session stays in its group, with all its runs and sub-agents that name the session. Evaluation, training and calls that are only
observed have no group. Each execution records its group and the share; with the share off, it has none. Switching off ends the
control group at once.

Examples:

  debrief playbook control
  debrief playbook control 5% --book support
  debrief playbook control off --reason "the answer is known"`
}

func (s *control) Run(ctx context.Context, c *program.Common) error {
	if s.Share != "" {
		return s.edit(ctx, c, apiclient.Create, &api.EditRequest{Control: playbook.Share(s.Share)}, func(*api.EditReply) string {
			return fmt.Sprintf("The control share is %s.", s.Share)
		})
	}
	return apiclient.Show(ctx, c, s.Flags, s.JSON, s.Path("gate"), map[string]string{"limit": "1"}, printControl)
}

func printControl(g *api.GateState) error {
	_, err := term.Printf("The control share of playbook %q at version %s is %s.\n", g.Book, g.Label, g.Control)
	return err
}

// leadingScore shows or sets the leading score.
type leadingScore struct {
	change
	Name string `arg:"" optional:"" help:"Name of the score. Default: only show it." placeholder:"NAME"`
	None bool   `help:"Remove the leading score. Then the score that measures success counts, such as accuracy."`
}

func (*leadingScore) Help() string {
	return `An outcome may have several named scores, such as {"scores": {"accuracy": 1, "tone": 0.4}}. The leading score of the playbook counts, in
reports, feedback, headers of the gateway and files of 'debrief learn'. An outcome that has other named scores only is refused. Stored
outcomes stay as they are.

Examples:

  debrief playbook leading-score
  debrief playbook leading-score tone --book support
  debrief playbook leading-score --none`
}

func (l *leadingScore) Run(ctx context.Context, c *program.Common) error {
	switch {
	case l.Name != "" && l.None:
		return program.Exit(program.ExitUsage, errors.New("NAME, --none: cannot be combined"))
	case l.Name == "" && !l.None:
		return apiclient.Show(ctx, c, l.Flags, l.JSON, l.Path("gate"), map[string]string{"limit": "1"}, printLeadingScore)
	}
	return l.edit(ctx, c, apiclient.Create, &api.EditRequest{LeadingScore: &l.Name}, func(*api.EditReply) string {
		if l.None {
			return "The playbook has no leading score."
		}
		return fmt.Sprintf("The leading score is %s.", l.Name)
	})
}

func printLeadingScore(g *api.GateState) (err error) {
	if g.LeadingScore == "" {
		_, err = term.Printf("Playbook %q at version %s has no leading score.\n", g.Book, g.Label)
	} else {
		_, err = term.Printf("The leading score of playbook %q at version %s is %s.\n", g.Book, g.Label, g.LeadingScore)
	}
	return err
}

type gateBook struct {
	change
	Mode  string `arg:"" optional:"" help:"New mode: off, guard or strict. Default: only show the state." placeholder:"MODE"`
	Limit int    `help:"Maximum number of rows in each table; 0 for 500, which is the maximum." default:"50"`
}

func (*gateBook) Help() string {
	return `The gate decides from outcomes which learned bullets stay. A bullet is withheld from a random share of the tasks that it
applies to. Its lift is the mean score of tasks with the bullet minus the mean score of tasks without it. Votes alone cannot
show this, because they also depend on the difficulty of the tasks.

  guard   new bullets are shown at once, and retire if tasks with them
          fail; the default
  strict  new bullets are shown to a random half of the tasks, until
          their record is good
  off     all bullets are shown, and outcomes are not recorded

The standing of a bullet decides how often it is withheld: suspect 50 %, proven 1 %, kept (by a person) never, all
others 10 %. A proposal cannot change the text of a bullet that outcomes support: the new text becomes a separate bullet,
which takes its place after a confirmation by another execution.

The mode belongs to the playbook and applies to every curator and generator.

Examples:

  debrief playbook gate
  debrief playbook gate --book support --limit 0
  debrief playbook gate strict --reason "untrusted feedback from the forum"`
}

func (g *gateBook) Run(ctx context.Context, c *program.Common) error {
	mode := playbook.Gate(g.Mode)
	if mode != "" {
		return g.edit(ctx, c, apiclient.Create, &api.EditRequest{Gate: mode}, func(reply *api.EditReply) string {
			return fmt.Sprintf("The gate is %s: %s. %s changed.", mode, gate.Describe(mode), term.Plural(reply.Changed, "bullet"))
		})
	}
	limit := g.Limit
	if limit == 0 || limit > api.MaxLimit {
		limit = api.MaxLimit
	}
	return apiclient.Show(ctx, c, g.Flags, g.JSON, g.Path("gate"), map[string]string{"limit": fmt.Sprint(limit)}, printGate)
}

// printGate prints the state of the gate: the bullets, their next steps, the waiting proposals and the last decisions.
func printGate(v *api.GateState) error {
	origin := ""
	if !v.Chosen {
		origin = " (default)"
	}
	term.Printf("The gate of playbook %q at version %s is %s%s: %s.\n", v.Book, v.Label, v.Mode, origin, gate.Describe(v.Mode))
	if v.Mode == playbook.GateOff {
		term.Printf("No bullet is withheld, so the lift of new bullets is unknown: the means below also depend on the difficulty of the tasks.\n")
	}
	if err := printGateBullets(v); err != nil {
		return err
	}
	w := term.NewTable(term.Stdout)
	if len(v.Waiting) > 0 {
		term.Fprintf(w, "\nwaiting\tconfirmations\tagainst\tnext\ttext\n")
	}
	for _, l := range v.Waiting {
		term.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.ID, l.Requests, cmp.Or(l.Replaces, l.Contests, "-"), l.Next, term.OneLine(l.Content, 80))
	}
	if more := v.TotalWaiting - len(v.Waiting); more > 0 {
		term.Fprintf(w, "%d more\n", more)
	}
	if len(v.Decisions) > 0 {
		term.Fprintf(w, "\nversion\tbullet\tstatus\treason\n")
	}
	for _, d := range v.Decisions {
		status := string(d.Status)
		if d.Status == playbook.Probation {
			status = "on probation again"
		}
		term.Fprintf(w, "%d\t%s\t%s\t%s\n", d.Version, d.ID, status, d.Reason)
	}
	return w.Flush()
}

// printGateBullets prints the bullets with their outcomes, and their next steps.
func printGateBullets(v *api.GateState) error {
	if len(v.Bullets) == 0 {
		return nil
	}
	w := term.NewTable(term.Stdout)
	term.Fprintf(w, "\nbullet\tstate\tcited\tshown\twithheld\tlift in points\n")
	next := make(map[string][]playbook.BulletID) // bullets with the same next step
	for _, l := range v.Bullets {
		state := string(l.Status)
		lift := "-"
		if l.Status == playbook.Active && l.Standing != "" {
			state = string(l.Standing)
		}
		if l.Lift.IsMeasured() {
			lift = fmt.Sprintf("%+.0f (%+.0f to %+.0f)", 100*l.Lift.Estimate, 100*l.Lift.Low, 100*l.Lift.High)
		}
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, state, l.Cited, l.Shown, l.Withheld, lift)
		next[l.Next] = append(next[l.Next], l.ID)
	}
	term.Fprintf(w, "\nnext\tbullets\n")
	for _, text := range slices.Sorted(maps.Keys(next)) {
		term.Fprintf(w, "%s\t%s\n", term.OneLine(text, 160), term.Join(next[text]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more := v.Total - len(v.Bullets); more > 0 {
		term.Printf("%d more bullets: a larger --limit lists them.\n", more)
	}
	term.Printf("Cited, shown, withheld: mean score, and the number of tasks. Lift: the difference of shown and withheld, with its interval. The state is the standing of an active bullet.\n")
	return nil
}
