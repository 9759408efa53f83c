package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/simulated"
)

// learningBench measures what is learned.
type learningBench struct {
	Seeds   int      `help:"Houses, each with rules and tasks of its own." default:"20"`
	HeldOut int      `help:"Tasks a seed that are never learned from." default:"500"`
	Train   int      `help:"Tasks a seed to learn from. A gate takes thousands to tell 21 rules from what 1 verdict in 5 says wrongly." default:"16000"`
	Passes  int      `help:"Times that they are gone through." default:"1"`
	Step    int      `help:"Tasks answered before what they teach is used." default:"200"`
	Wrong   float64  `help:"Share of verdicts that are wrong, where some are." default:"0.2"`
	Parts   []string `help:"What to measure: ${enum}." enum:"feedback,gate,retention,growth,cost,trust" default:"feedback,gate,retention,growth,cost,trust"`
	Quick   bool     `help:"Few seeds and tasks: a minute, and wide intervals. Goals are those of the whole."`
	Check   bool     `help:"Fail if a goal is missed."`
	JSON    bool     `help:"Print JSON lines."`
}

// Help implements kong.HelpProvider.
func (*learningBench) Help() string {
	return `Everything runs in this process, over the embedded server, with the simulated model: an invoice desk whose rules nobody
tells. The tasks to learn from are answered by an agent outside, whose own evaluator is told how often to be wrong.

  feedback   accuracy on tasks that were never learned from, after clean feedback and after wrong, by what the gate does;
             seeds are paired
  gate       the gate alone: bullets of known effect, outcomes drawn directly
  retention  distinct lessons that are left of 100 reflections, by how many are curated at once, with a model that takes in
             24 of them in one call
  growth     the playbook and the prompt as more tasks of one family come
  cost       model calls and tokens a sample, beside those of the usual loop of generating, reflecting and curating
  trust      operations out of transcripts that give orders, or that repeat the playbook; the model is gullible

Intervals are of 95 %, over seeds, by Student's t. All of it takes some ten minutes for every five seeds on two cores, and
a minute with --quick, which does not train for as long as a gate needs: expect that goal to be missed.`
}

// part is one of the measurements.
type part struct {
	name string
	run  func(*learningBench, context.Context, zerolog.Logger) (*sheet, error)
}

// learningParts are in the order in which they are shown.
var learningParts = []part{
	{"feedback", (*learningBench).feedback},
	{"gate", (*learningBench).gate},
	{"retention", (*learningBench).retention},
	{"growth", (*learningBench).growth},
	{"cost", (*learningBench).cost},
	{"trust", (*learningBench).trust},
}

// Validate implements kong's check.
func (b *learningBench) Validate() error {
	var errs []error
	for _, n := range []struct {
		flag             string
		got, least, most int
	}{
		{"seeds", b.Seeds, 2, 1000},
		{"held-out", b.HeldOut, 1, simulated.MaxHeldOutTasks},
		{"train", b.Train, 1, simulated.MaxTrainTasks},
		{"passes", b.Passes, 1, 1000},
		{"step", b.Step, 1, simulated.MaxTrainTasks},
	} {
		if n.got < n.least || n.got > n.most {
			errs = append(errs, fmt.Errorf("--%s: must be %d to %d, got %d", n.flag, n.least, n.most, n.got))
		}
	}
	if !(b.Wrong >= 0 && b.Wrong <= 1) {
		errs = append(errs, fmt.Errorf("--wrong: must be between 0 and 1, got %v", b.Wrong))
	}
	return errors.Join(errs...)
}

// Run implements the command.
func (b *learningBench) Run(ctx context.Context, c *app.Common) error {
	if b.Quick {
		b.Seeds, b.HeldOut, b.Train, b.Passes = min(b.Seeds, 3), min(b.HeldOut, 100), min(b.Train, 600), 1
	}
	var missed []string
	for _, p := range learningParts {
		if !slices.Contains(b.Parts, p.name) {
			continue
		}
		began := time.Now()
		s, err := p.run(b, ctx, c.Logger())
		if err != nil {
			return fmt.Errorf("measure %s: %w", p.name, err)
		}
		b.say("%s: %.1f s", p.name, time.Since(began).Seconds())
		if err := s.print(console.Stdout, b.JSON); err != nil {
			return err
		}
		for _, g := range s.goals {
			if !g.Met {
				missed = append(missed, g.Goal)
			}
		}
	}
	if b.Check && len(missed) > 0 {
		return app.Exit(app.ExitFailed, fmt.Errorf("missed: %s", strings.Join(missed, "; ")))
	}
	return nil
}

// gate measures the gate alone.
func (b *learningBench) gate(ctx context.Context, _ zerolog.Logger) (*sheet, error) {
	bullets := 100
	if b.Quick {
		bullets = 50
	}
	rows, err := gateRows(ctx, b.Seeds, bullets)
	if err != nil {
		return nil, err
	}
	order, err := rankRows(ctx, b.Seeds, bullets)
	if err != nil {
		return nil, err
	}
	s := &sheet{tell: func(w io.Writer) error { return tellGate(w, rows, order) }}
	for i := range rows {
		s.all = append(s.all, rows[i])
		if strings.HasPrefix(rows[i].Goal, "(") {
			continue // told beside the others
		}
		s.goals = append(s.goals, goal{"gate", rows[i].Case + ": " + rows[i].Goal, fmt.Sprintf("%.1f %%", 100*rows[i].Rate.Mean), rows[i].Met})
	}
	for i := range order {
		s.all = append(s.all, order[i])
	}
	return s, nil
}

// say tells somebody who waits how far it is.
func (b *learningBench) say(format string, args ...any) {
	console.Fprintf(console.Stderr, format+"\n", args...)
}

// sheet is what one part came to: a table, the same as values, and the goals with what they were held against.
type sheet struct {
	title string
	head  string // columns, each ended by a tab
	rows  []string
	all   []any
	goals []goal
	tell  func(io.Writer) error // in place of title, head and rows
}

// goal is something that was set out to be reached.
type goal struct {
	Part string `json:"part"`
	Goal string `json:"goal"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

func (s *sheet) row(v any, format string, args ...any) {
	s.all = append(s.all, v)
	s.rows = append(s.rows, fmt.Sprintf(format, args...))
}

func (s *sheet) goal(met bool, text, format string, args ...any) {
	part, _, _ := strings.Cut(s.title, ":")
	s.goals = append(s.goals, goal{strings.ToLower(part), text, fmt.Sprintf(format, args...), met})
}

func (s *sheet) print(out io.Writer, asJSON bool) error {
	if asJSON {
		for _, v := range s.all {
			if err := writeJSON(out, v); err != nil {
				return err
			}
		}
		for _, g := range s.goals {
			if err := writeJSON(out, g); err != nil {
				return err
			}
		}
		return nil
	}
	if s.tell != nil {
		console.Fprintln(out)
		if err := s.tell(out); err != nil {
			return err
		}
		return s.printGoals(out)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	console.Fprintf(out, "\n%s\n", s.title)
	console.Fprintln(w, console.Block(s.head))
	for _, r := range s.rows {
		console.Fprintln(w, console.Block(r))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return s.printGoals(out)
}

func (s *sheet) printGoals(out io.Writer) error {
	for _, g := range s.goals {
		verdict := "met"
		if !g.Met {
			verdict = "MISSED"
		}
		if _, err := console.Fprintf(out, "  goal: %s: %s, %s\n", g.Goal, g.Got, verdict); err != nil {
			return err
		}
	}
	return nil
}
