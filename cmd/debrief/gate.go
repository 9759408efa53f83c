package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/curator"
	"debrief/curator/gate"
	"debrief/events"
	"debrief/playbook/history"
	"debrief/playbook/natskv"

	book "debrief/playbook"
)

type gateBook struct {
	change
	gate.Config `embed:""`
	Mode        string `arg:"" optional:"" help:"off, shadow or on. Default: only show." placeholder:"MODE"`
	Limit       int    `help:"Most bullets to list in each table; 0 is all." default:"50"`
}

// Help implements kong.HelpProvider.
func (*gateBook) Help() string {
	return `With the gate on, new advice waits for one of a few places on probation. There chance shows it to a share of the tasks
that it bears on, and the difference between those and the others is its lift: nothing but the bullet makes it. A bullet
that surely helps is shown to all; one that hurts, or does not help enough, retires. Votes cannot say that: they also
count how hard the tasks are. Proven bullets go back on probation when tasks come out worse.

  on      chance decides who sees new advice, until its lift is known
  shadow  everything is shown, and what came of it is recorded
  off     everything is shown, and nothing is recorded

The mode is the book's own and holds for every curator and generator. The settings below are for the table; the curator
that decides has its own.

Examples:

  debrief playbook gate
  debrief playbook gate on --reason "the forum feeds us now"`
}

// Run implements the command.
func (g *gateBook) Run(ctx context.Context, c *app.Common) error {
	mode := book.Gate(g.Mode)
	if !mode.Valid() {
		return app.Exit(app.ExitUsage, fmt.Errorf("mode %q is none of off, shadow, on", g.Mode))
	}
	if err := g.Config.Validate(); err != nil {
		return app.Exit(app.ExitUsage, err)
	}
	if mode != "" {
		return g.turn(ctx, c, mode)
	}
	b, err := g.existing(ctx, c)
	if err != nil {
		return err
	}
	defer b.Close()
	p, label, err := b.at(ctx, "")
	if err != nil {
		return err
	}
	decisions, err := gateDecisions(ctx, b)
	if err != nil {
		return err
	}
	view := newGateView(b.name, label, p, curator.Look(p, g.Config), decisions)
	if g.JSON {
		return writeJSON(console.Stdout, view)
	}
	view.print(g.Config.WithDefaults().Slots, g.Limit)
	return nil
}

func (g *gateBook) turn(ctx context.Context, c *app.Common, mode book.Gate) error {
	b, err := g.openBook(ctx, c) // it may be set before anything is learned
	if err != nil {
		return err
	}
	defer b.Close()
	d, err := g.ask(ctx, b, &events.Edit{Gate: mode})
	if err != nil {
		return err
	}
	return g.done(b, d, "The gate is %s: %s. %s changed.", mode, gateMeans(mode), plural(d.Changed, "bullet"))
}

func gateMeans(mode book.Gate) string {
	switch mode {
	case book.GateOn:
		return "chance decides which tasks see new advice, until the difference that it makes is known"
	case book.GateOff:
		return "everything is shown, and what comes of it is not recorded"
	}
	return "everything is shown, and what comes of it is recorded"
}

// gateView is the output of --json.
type gateView struct {
	Book    book.Book  `json:"book"`
	Version uint64     `json:"version"`
	Label   string     `json:"label"`
	Gate    book.Gate  `json:"gate"`
	Chosen  bool       `json:"chosen"` // by somebody, and not by default
	Bullets []gateLine `json:"bullets"`
	Waiting []gateLine `json:"waiting"`
	// Decisions are the newest on each bullet that the gate has taken back or retired, newest first.
	Decisions []gateDecision `json:"decisions"`
}

type gateLine struct {
	ID       book.BulletID `json:"id"`
	Status   book.Status   `json:"status"`
	Case     int           `json:"case"`
	Exposure int           `json:"exposure_percent"`
	Shown    seenOutcomes  `json:"shown"` // withheld from others, by chance
	Withheld seenOutcomes  `json:"withheld"`
	Open     seenOutcomes  `json:"open"` // shown because all is
	Lift     *gate.Lift    `json:"lift,omitempty"`
	Helpful  int           `json:"helpful"`
	Harmful  int           `json:"harmful"`
	Seconded int           `json:"seconded"`
	Replaces book.BulletID `json:"replaces,omitempty"`
	Next     string        `json:"next"`
	Content  string        `json:"content"`
}

type seenOutcomes struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
}

func (s seenOutcomes) String() string {
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

// gateDecisions are what the Curator has decided last on each bullet that it put back on probation or retired.
func gateDecisions(ctx context.Context, b *openBook) ([]gateDecision, error) {
	last := map[book.BulletID]gateDecision{}
	wasShown := map[book.BulletID]bool{}
	err := b.store.Log(ctx, b.name, func(r *natskv.Record) error {
		for i := range r.Ops {
			op := &r.Ops[i]
			to := op.Status
			switch {
			case op.Kind == book.Put:
				to = op.Whole.Status
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
		return nil, broken(err)
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

func newGateView(name book.Book, label string, p *book.Playbook, look curator.Outlook, decisions []gateDecision) gateView {
	v := gateView{Book: name, Version: p.Version(), Label: label, Decisions: decisions}
	v.Gate, v.Chosen = p.Gate()
	line := func(b curator.Prospect) gateLine {
		k := b.TheCase()
		l := gateLine{
			ID: b.ID, Status: book.Status(shownStatus(b.Bullet)), Case: k.Number, Exposure: 100,
			Shown: seenOutcomes{k.Shown.N(), k.Shown.Mean()}, Withheld: seenOutcomes{k.Withheld.N(), k.Withheld.Mean()}, Open: seenOutcomes{k.Open.N(), k.Open.Mean()},
			Helpful: b.Helpful, Harmful: b.Harmful, Seconded: k.Seconded, Replaces: b.Replaces, Next: b.Next, Content: b.Content,
		}
		switch b.Status {
		case book.Probation:
			l.Exposure = k.Share
		case book.Candidate:
			l.Exposure = 0
		}
		if k.Withheld.N() > 0 {
			l.Lift = &b.Lift
		}
		if v.Gate != book.GateOn {
			l.Next = "is shown"
		}
		return l
	}
	for _, b := range look.Tried {
		v.Bullets = append(v.Bullets, line(b))
	}
	for _, b := range look.Waiting {
		l := line(b)
		if v.Gate != book.GateOn {
			l.Next = "waits for the gate to be on"
		}
		v.Waiting = append(v.Waiting, l)
	}
	return v
}

func (v *gateView) print(places, limit int) {
	console.Printf("The gate of playbook %q at version %s is %s", v.Book, v.Label, v.Gate)
	if !v.Chosen {
		console.Printf(", as long as nobody says otherwise")
	}
	console.Printf(": %s.\n", gateMeans(v.Gate))
	if v.Gate != book.GateOn {
		console.Printf("Nothing is withheld, so no lift is known of what is new: the means below also depend on how hard the tasks were.\n")
	}
	shown, more := v.Bullets, 0
	if limit > 0 && len(shown) > limit {
		shown, more = shown[:limit], len(shown)-limit
	}
	w := tabwriter.NewWriter(console.Stdout, 0, 0, 2, ' ', 0)
	if len(shown) > 0 {
		console.Fprintf(w, "\nbullet\tstatus\tcase\texposure\tshown\twithheld\topen\tlift\thelpful/harmful\tnext\n")
	}
	for _, l := range shown {
		lift := "-"
		if l.Lift != nil {
			lift = strings.TrimPrefix(l.Lift.String(), "lift ")
		}
		console.Fprintf(w, "%s\t%s\t%d\t%d %%\t%s\t%s\t%s\t%s\t%d/%d\t%s\n",
			l.ID, l.Status, l.Case, l.Exposure, l.Shown, l.Withheld, l.Open, lift, l.Helpful, l.Harmful, inLine(l.Next, 160))
	}
	w.Flush()
	if more > 0 {
		console.Printf("%d more are shown to all; --limit 0 lists them.\n", more)
	}
	if v.Gate == book.GateOn {
		trying := 0
		for _, l := range v.Bullets {
			if l.Status == book.Probation {
				trying++
			}
		}
		console.Printf("\n%d on probation, of %s.\n", trying, plural(places, "place"))
	}
	if len(v.Waiting) > 0 {
		console.Fprintf(w, "\nwaiting\tseconded\treplaces\tnext\tsays\n")
	}
	for i, l := range v.Waiting {
		if limit > 0 && i == limit {
			console.Fprintf(w, "%d more\n", len(v.Waiting)-limit)
			break
		}
		console.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", l.ID, l.Seconded, orDash(l.Replaces), l.Next, inLine(l.Content, 80))
	}
	w.Flush()
	if len(v.Decisions) > 0 {
		console.Fprintf(w, "\nversion\tbullet\tis\tbecause\n")
	}
	for i, d := range v.Decisions {
		if limit > 0 && i == limit {
			console.Fprintf(w, "%d more\n", len(v.Decisions)-limit)
			break
		}
		what := string(d.Status)
		if d.Status == book.Probation {
			what = "on probation again"
		}
		console.Fprintf(w, "%d\t%s\t%s\t%s\n", d.Version, d.ID, what, d.Reason)
	}
	w.Flush()
}

func orDash(id book.BulletID) string {
	if id == "" {
		return "-"
	}
	return string(id)
}
