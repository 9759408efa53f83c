package books

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook/history"

	book "debrief/playbook"
)

type gateBook struct {
	change
	app.Gate
	Mode  string `arg:"" optional:"" help:"New mode: off, shadow or on. Default: only show the state." placeholder:"MODE"`
	Limit int    `help:"Maximum number of rows in each table; 0 for all." default:"50"`
}

// Help implements kong.HelpProvider.
func (*gateBook) Help() string {
	return `With the gate on, each new bullet is tested in a randomised experiment. It waits for a slot on probation. On probation it is
shown to a random share of the applicable tasks. Its lift is the mean score of tasks with the bullet minus the mean score
of tasks without it. A bullet with a proven lift becomes active and is shown to all. One that hurts, or does not help
enough, retires. Votes alone cannot show this, because they also depend on the difficulty of the tasks. An active bullet
returns to probation if outcomes get worse.

  on      new bullets are shown at random until their lift is known
  shadow  all bullets are shown, and their outcomes are recorded
  off     all bullets are shown, and outcomes are not recorded

The mode belongs to the playbook and applies to every curator and generator. The flags below only affect the table of this
command; the curator has its own settings.

Examples:

  debrief playbook gate
  debrief playbook gate --book support --limit 0
  debrief playbook gate on --reason "untrusted feedback from the forum"`
}

// Run implements the command.
func (g *gateBook) Run(ctx context.Context, c *app.Common) error {
	mode := book.Gate(g.Mode)
	if !mode.Valid() {
		return app.Exit(app.ExitUsage, fmt.Errorf("mode: want off, shadow or on, got %q", g.Mode))
	}
	if mode != "" {
		return g.setMode(ctx, c, mode)
	}
	b, err := g.OpenExisting(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.At(ctx, "")
	if err != nil {
		return err
	}
	decisions, err := gateDecisions(ctx, b)
	if err != nil {
		return err
	}
	view := newGateView(b.Name, label, p, gate.NewReport(p, g.Settings()), decisions)
	if g.JSON {
		return cli.WriteJSON(console.Stdout, view)
	}
	view.print(g.Slots, g.Limit)
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
	return g.done(b, d, "The gate is %s: %s. %s changed.", mode, describeGate(mode), cli.Plural(d.Changed, "bullet"))
}

// describeGate explains a mode in a sentence.
func describeGate(mode book.Gate) string {
	switch mode {
	case book.GateOn:
		return "new bullets are shown at random until their lift is known"
	case book.GateOff:
		return "all bullets are shown, and outcomes are not recorded"
	}
	return "all bullets are shown, and their outcomes are recorded"
}

// gateView is the output of --json.
type gateView struct {
	Book    book.Book  `json:"book"`
	Version uint64     `json:"version"`
	Label   string     `json:"label"`
	Gate    book.Gate  `json:"gate"`
	Chosen  bool       `json:"chosen"` // set explicitly, not the default
	Bullets []gateLine `json:"bullets"`
	Waiting []gateLine `json:"waiting"`
	// Decisions has the latest decision on each bullet that the gate retired or put back on probation, newest first.
	Decisions []gateDecision `json:"decisions"`
}

type gateLine struct {
	ID       book.BulletID `json:"id"`
	Status   book.Status   `json:"status"`
	Case     int           `json:"case"`
	Exposure int           `json:"exposure_percent"`
	Shown    armOutcomes   `json:"shown"` // withheld from other tasks, at random
	Withheld armOutcomes   `json:"withheld"`
	Open     armOutcomes   `json:"open"` // shown to all tasks
	Lift     *gate.Lift    `json:"lift,omitempty"`
	Helpful  int           `json:"helpful"`
	Harmful  int           `json:"harmful"`
	Seconded int           `json:"seconded"`
	Replaces book.BulletID `json:"replaces,omitempty"`
	Next     string        `json:"next"`
	Content  string        `json:"content"`
}

type armOutcomes struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
}

func (s armOutcomes) String() string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f in %d", s.Mean, s.N)
}

type gateDecision struct {
	Version uint64        `json:"version"`
	Time    time.Time     `json:"time"`
	ID      book.BulletID `json:"id"`
	Status  book.Status   `json:"status"`
	Reason  string        `json:"reason"`
}

// gateDecisions returns the latest decision of the Curator on each bullet that it retired or put back on probation.
func gateDecisions(ctx context.Context, b *cli.Playbook) ([]gateDecision, error) {
	last := map[book.BulletID]gateDecision{}
	wasShown := map[book.BulletID]bool{}
	err := b.Store.ReadLog(ctx, b.Name, func(r *deltalog.Record) error {
		for i := range r.Ops {
			op := &r.Ops[i]
			to := op.Status
			switch {
			case op.Kind == book.Put:
				to = op.PutBullet.Status
			case op.Kind != book.SetStatus && op.Kind != book.Add:
				continue
			}
			again := to == book.Probation && wasShown[op.Bullet]
			wasShown[op.Bullet] = to == book.Active || to == ""
			if r.Author == history.Curator && (to == book.Retired || again) {
				last[op.Bullet] = gateDecision{r.Version, r.Time, op.Bullet, to, op.Reason}
			} else {
				delete(last, op.Bullet)
			}
		}
		return nil
	})
	if err != nil {
		return nil, cli.LogError(err)
	}
	list := make([]gateDecision, 0, len(last))
	for _, d := range last {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b gateDecision) int {
		if a.Version != b.Version {
			return int(int64(b.Version) - int64(a.Version))
		}
		return int(int64(a.ID.Number()) - int64(b.ID.Number()))
	})
	return list, nil
}

func newGateView(name book.Book, label string, p *book.Playbook, look gate.Report, decisions []gateDecision) gateView {
	v := gateView{Book: name, Version: p.Version(), Label: label, Decisions: decisions}
	v.Gate, v.Chosen = p.Gate()
	line := func(b gate.BulletReport) gateLine {
		k := b.CurrentExperiment()
		l := gateLine{
			ID: b.ID, Status: book.Status(shownStatus(b.Bullet)), Case: k.Number, Exposure: 100,
			Shown: armOutcomes{k.Shown.Count(), k.Shown.Mean()}, Withheld: armOutcomes{k.Withheld.Count(), k.Withheld.Mean()}, Open: armOutcomes{k.Open.Count(), k.Open.Mean()},
			Helpful: b.Helpful, Harmful: b.Harmful, Seconded: k.Confirmations, Replaces: b.Replaces, Next: b.NextStep, Content: b.Content,
		}
		switch b.Status {
		case book.Probation:
			l.Exposure = k.Share
		case book.Candidate:
			l.Exposure = 0
		}
		if k.Withheld.Count() > 0 {
			l.Lift = &b.Lift
		}
		if v.Gate != book.GateOn {
			l.Next = "is shown"
		}
		return l
	}
	for _, b := range look.Tested {
		v.Bullets = append(v.Bullets, line(b))
	}
	for _, b := range look.Waiting {
		l := line(b)
		if v.Gate != book.GateOn {
			l.Next = "waits until the gate is on"
		}
		v.Waiting = append(v.Waiting, l)
	}
	return v
}

func (v *gateView) print(slots, limit int) {
	console.Printf("The gate of playbook %q at version %s is %s", v.Book, v.Label, v.Gate)
	if !v.Chosen {
		console.Printf(" (default)")
	}
	console.Printf(": %s.\n", describeGate(v.Gate))
	if v.Gate != book.GateOn {
		console.Printf("No bullet is withheld, so the lift of new bullets is unknown: the means below also depend on the difficulty of the tasks.\n")
	}
	shown, more := v.Bullets, 0
	if limit > 0 && len(shown) > limit {
		shown, more = shown[:limit], len(shown)-limit
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	if len(shown) > 0 {
		console.Fprintf(w, "\nbullet\tstatus\texperiment\texposure\tshown\twithheld\topen\tlift\thelpful/harmful\tnext\n")
	}
	for _, l := range shown {
		lift := "-"
		if l.Lift != nil {
			lift = strings.TrimPrefix(l.Lift.String(), "lift ")
		}
		console.Fprintf(w, "%s\t%s\t%d\t%d %%\t%s\t%s\t%s\t%s\t%d/%d\t%s\n",
			l.ID, l.Status, l.Case, l.Exposure, l.Shown, l.Withheld, l.Open, lift, l.Helpful, l.Harmful, cli.OneLine(l.Next, 160))
	}
	w.Flush()
	if more > 0 {
		console.Printf("%d more bullets: --limit 0 lists them.\n", more)
	}
	if v.Gate == book.GateOn {
		onProbation := 0
		for _, l := range v.Bullets {
			if l.Status == book.Probation {
				onProbation++
			}
		}
		console.Printf("\n%d of %s in use by bullets on probation.\n", onProbation, cli.Plural(slots, "slot"))
	}
	if len(v.Waiting) > 0 {
		console.Fprintf(w, "\nwaiting\trequests\treplaces\tnext\ttext\n")
	}
	for i, l := range v.Waiting {
		if limit > 0 && i == limit {
			console.Fprintf(w, "%d more\n", len(v.Waiting)-limit)
			break
		}
		console.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.ID, l.Seconded, orDash(l.Replaces), l.Next, cli.OneLine(l.Content, 80))
	}
	w.Flush()
	if len(v.Decisions) > 0 {
		console.Fprintf(w, "\nversion\tbullet\tstatus\treason\n")
	}
	for i, d := range v.Decisions {
		if limit > 0 && i == limit {
			console.Fprintf(w, "%d more\n", len(v.Decisions)-limit)
			break
		}
		status := string(d.Status)
		if d.Status == book.Probation {
			status = "on probation again"
		}
		console.Fprintf(w, "%d\t%s\t%s\t%s\n", d.Version, d.ID, status, d.Reason)
	}
	w.Flush()
}

// orDash returns the id, or "-" if it is empty.
func orDash(id book.BulletID) string {
	if id == "" {
		return "-"
	}
	return string(id)
}
