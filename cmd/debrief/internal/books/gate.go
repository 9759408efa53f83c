package books

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/explain"
	"debrief/curator/gate"
	"debrief/events"

	book "debrief/playbook"
)

type gateBook struct {
	change
	app.Gate
	Mode  string `arg:"" optional:"" help:"New mode: off, guard or strict. Default: only show the state." placeholder:"MODE"`
	Limit int    `help:"Maximum number of rows in each table; 0 for all." default:"50"`
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

The mode belongs to the playbook and applies to every curator and generator. The flags below only affect the table of this
command; the curator has its own settings.

Examples:

  debrief playbook gate
  debrief playbook gate --book support --limit 0
  debrief playbook gate strict --reason "untrusted feedback from the forum"`
}

// Run implements the command.
func (g *gateBook) Run(ctx context.Context, c *app.Common) error {
	mode := book.Gate(g.Mode)
	if !mode.Valid() {
		return app.Exit(app.ExitUsage, fmt.Errorf("mode: want off, guard or strict, got %q", g.Mode))
	}
	if mode != "" {
		return g.setMode(ctx, c, mode)
	}
	b, err := g.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	state, err := explain.GateOf(ctx, b.Book, g.Settings())
	if err != nil {
		return err
	}
	view := gateView{state}
	if g.JSON {
		return cli.WriteJSON(console.Stdout, state)
	}
	view.print(g.Limit)
	return nil
}

func (g *gateBook) setMode(ctx context.Context, c *app.Common, mode book.Gate) error {
	b, err := g.Open(ctx, c) // the mode can be set before the playbook has a version
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := g.ask(ctx, b, &events.Edit{Gate: mode})
	if err != nil {
		return err
	}
	return g.done(b, d, "The gate is %s: %s. %s changed.", mode, gate.Describe(mode), console.Plural(d.Changed, "bullet"))
}

// gateView prints the state of the gate.
type gateView struct{ *explain.Gate }

func (v *gateView) print(limit int) {
	chosen := ""
	if !v.Chosen {
		chosen = " (default)"
	}
	console.Printf("The gate of playbook %q at version %s is %s%s: %s.\n", v.Book, v.Label, v.Mode, chosen, gate.Describe(v.Mode))
	if v.Mode == book.GateOff {
		console.Printf("No bullet is withheld, so the lift of new bullets is unknown: the means below also depend on the difficulty of the tasks.\n")
	}
	shown, more := cli.First(v.Bullets, limit)
	w := console.NewTable(console.Stdout)
	if len(shown) > 0 {
		console.Fprintf(w, "\nbullet\tstate\tcited\tshown\twithheld\tlift in points\n")
	}
	next := make(map[string][]book.BulletID)
	for _, l := range shown {
		state, lift := string(l.Status), "-"
		if l.Status == book.Active && l.Standing != "" {
			state = string(l.Standing)
		}
		if l.Lift != nil {
			lift = fmt.Sprintf("%+.0f (%+.0f to %+.0f)", 100*l.Lift.Estimate, 100*l.Lift.Low, 100*l.Lift.High)
		}
		console.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, state, l.Cited, l.Shown, l.Withheld, lift)
		next[l.Next] = append(next[l.Next], l.ID)
	}
	if len(shown) > 0 {
		console.Fprintf(w, "\nnext\tbullets\n")
	}
	for _, text := range slices.Sorted(maps.Keys(next)) {
		console.Fprintf(w, "%s\t%s\n", console.OneLine(text, 160), explain.JoinIDs(next[text]))
	}
	w.Flush()
	if more > 0 {
		console.Printf("%d more bullets: --limit 0 lists them.\n", more)
	}
	if len(shown) > 0 {
		console.Printf("Cited, shown, withheld: mean score in the number of tasks. Lift: the difference of shown and withheld, with its interval. The state is the standing of an active bullet.\n")
	}
	if len(v.Waiting) > 0 {
		console.Fprintf(w, "\nwaiting\tconfirmations\tagainst\tnext\ttext\n")
	}
	waiting, more := cli.First(v.Waiting, limit)
	for _, l := range waiting {
		console.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.ID, l.Requests, orDash(cmp.Or(l.Replaces, l.Contests)), l.Next, console.OneLine(l.Content, 80))
	}
	printMore(w, more)
	w.Flush()
	if len(v.Decisions) > 0 {
		console.Fprintf(w, "\nversion\tbullet\tstatus\treason\n")
	}
	decisions, more := cli.First(v.Decisions, limit)
	for _, d := range decisions {
		status := string(d.Status)
		if d.Status == book.Probation {
			status = "on probation again"
		}
		console.Fprintf(w, "%d\t%s\t%s\t%s\n", d.Version, d.ID, status, d.Reason)
	}
	printMore(w, more)
	w.Flush()
}

// printMore prints the number of rows beyond the limit.
func printMore(w io.Writer, more int) {
	if more > 0 {
		console.Fprintf(w, "%d more\n", more)
	}
}

// orDash returns the id, or "-" if it is empty.
func orDash(id book.BulletID) string {
	if id == "" {
		return "-"
	}
	return string(id)
}
