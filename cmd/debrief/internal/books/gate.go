package books

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apiclient"
	"debrief/cmd/internal/api/explain"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/curator/gate"

	book "debrief/playbook"
)

type gateBook struct {
	change
	Mode  string `arg:"" optional:"" help:"New mode: off, guard or strict. Default: only show the state." placeholder:"MODE"`
	Limit int    `help:"Maximum number of rows in each table; 0 for 500, which is the maximum." default:"50"`
}

// Help implements kong.HelpProvider.
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

// Run implements the command.
func (g *gateBook) Run(ctx context.Context, c *program.Common) error {
	mode := book.Gate(g.Mode)
	if mode != "" {
		return g.edit(ctx, c, apiclient.Create, &api.EditRequest{Gate: mode}, func(d *api.EditReply) string {
			return fmt.Sprintf("The gate is %s: %s. %s changed.", mode, gate.Describe(mode), term.Plural(d.Changed, "bullet"))
		})
	}
	limit := g.Limit
	if limit == 0 || limit > api.MaxLimit {
		limit = api.MaxLimit
	}
	state, err := apiclient.Get[api.GateState](ctx, c, g.Flags, g.Path("gate"), map[string]string{"limit": fmt.Sprint(limit)})
	if err != nil {
		return err
	}
	if g.JSON {
		return cli.WriteJSON(term.Stdout, state)
	}
	return printGate(state)
}

// printGate prints the state of the gate: the bullets, their next steps, the waiting proposals and the last decisions.
func printGate(v *api.GateState) error {
	origin := ""
	if !v.Chosen {
		origin = " (default)"
	}
	term.Printf("The gate of playbook %q at version %s is %s%s: %s.\n", v.Book, v.Label, v.Mode, origin, gate.Describe(v.Mode))
	if v.Mode == book.GateOff {
		term.Printf("No bullet is withheld, so the lift of new bullets is unknown: the means below also depend on the difficulty of the tasks.\n")
	}
	w := term.NewTable(term.Stdout)
	if len(v.Bullets) > 0 {
		term.Fprintf(w, "\nbullet\tstate\tcited\tshown\twithheld\tlift in points\n")
	}
	next := make(map[string][]book.BulletID) // bullets with the same next step
	for _, l := range v.Bullets {
		state := string(l.Status)
		lift := "-"
		if l.Status == book.Active && l.Standing != "" {
			state = string(l.Standing)
		}
		if l.Lift != nil {
			lift = fmt.Sprintf("%+.0f (%+.0f to %+.0f)", 100*l.Lift.Estimate, 100*l.Lift.Low, 100*l.Lift.High)
		}
		term.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, state, l.Cited, l.Shown, l.Withheld, lift)
		next[l.Next] = append(next[l.Next], l.ID)
	}
	if len(v.Bullets) > 0 {
		term.Fprintf(w, "\nnext\tbullets\n")
	}
	for _, text := range slices.Sorted(maps.Keys(next)) {
		term.Fprintf(w, "%s\t%s\n", term.OneLine(text, 160), explain.JoinIDs(next[text]))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if more := v.Total - len(v.Bullets); more > 0 {
		term.Printf("%d more bullets: a larger --limit lists them.\n", more)
	}
	if len(v.Bullets) > 0 {
		term.Printf("Cited, shown, withheld: mean score in the number of tasks. Lift: the difference of shown and withheld, with its interval. The state is the standing of an active bullet.\n")
	}
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
		if d.Status == book.Probation {
			status = "on probation again"
		}
		term.Fprintf(w, "%d\t%s\t%s\t%s\n", d.Version, d.ID, status, d.Reason)
	}
	return w.Flush()
}
