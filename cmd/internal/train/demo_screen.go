package train

import (
	"fmt"
	"io"
	"strings"
	"time"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/train/replay"
	"debrief/events"
)

// demoScreen prints the progress and the result of a demo as text or as JSON lines.
type demoScreen struct {
	out  io.Writer
	json bool
	bar  *progressLine
}

func newDemoScreen(out *term.Writer, asJSON bool) *demoScreen {
	s := &demoScreen{out: out, json: asJSON, bar: newProgressLine(out)}
	s.bar.every = 100 * time.Millisecond // the demo has short phases
	return s
}

// progress shows the number of finished tasks of a phase on a terminal, until the phase ends.
func (s *demoScreen) progress(p replay.Progress) {
	if s.json || p.Done == p.Total {
		return
	}
	s.bar.report(func(_ float64) (asJSON any, text string) {
		return nil, fmt.Sprintf("%-9s %d of %d", p.Phase, p.Done, p.Total)
	})
}

// introduce prints the task of the demo, before anything that takes time.
func (s *demoScreen) introduce(d *Demo) {
	if s.json {
		return
	}
	model := "the simulated model"
	if d.Named() {
		model = d.Describe(events.RoleGenerator)
	}
	s.sentences("An invoice desk has hidden rules for discounts, taxes, surcharges and rounding. The model must learn them. "+
		"Generator, Reflector and Curator communicate over JetStream and use %s. Each epoch answers %d training tasks with the playbook "+
		"version at its start; new lessons are used from the next epoch on. The %d held-out tasks are only for measurement.", term.Line(model), d.Train, d.HeldOut)
}

// begin prints the head of the table and the accuracy before the first epoch.
func (s *demoScreen) begin(r *demoResult) {
	if s.json {
		return
	}
	s.bar.clear()
	if s.isNarrow() {
		term.Fprintf(s.out, "\n         training  held-out  bullets\nbefore             %7.1f %%\n", 100*r.Baseline)
		return
	}
	term.Fprintf(s.out, `
           training   held-out   bullets   version    seconds
before                %7.1f %%
`, 100*r.Baseline)
}

// epoch prints a row of the table.
func (s *demoScreen) epoch(e demoEpoch) {
	if s.json {
		_ = cli.WriteJSON(s.out, e)
		return
	}
	s.bar.clear()
	if s.isNarrow() {
		term.Fprintf(s.out, "epoch %-2d%7.1f %% %7.1f %% %8d\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets)
		return
	}
	term.Fprintf(s.out, "epoch %-2d %8.1f %% %8.1f %% %9d   %-10d %6.1f\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets, e.Version, e.Seconds)
}

// result prints the bullets and the accuracy.
func (s *demoScreen) result(d *Demo, r *demoResult) error {
	if s.json {
		return cli.WriteJSON(s.out, r)
	}
	term.Fprintln(s.out)
	if err := cli.PrintBullets(s.out, r.bullets); err != nil {
		return err
	}
	term.Fprintln(s.out)
	s.sentences("Held-out accuracy went from %.1f %% to %.1f %% with %s, %d model calls and %d tokens in %.1f s.",
		100*r.Baseline, 100*r.Final, term.Plural(r.Bullets, "bullet"), r.Calls, r.Tokens, r.Seconds)
	if r.Lost > 0 {
		s.sentences("%d tasks had no outcome or no effect.", r.Lost)
	}
	if r.Simulated {
		s.sentences("The model was simulated: it sees only its prompt and follows the bullets in it exactly.")
	}
	if d.Data != "" {
		term.Fprintf(s.out, "The streams are kept in %s. To read the playbook: debrief playbook log --data %s --book %s\n", d.Data, d.Data, r.Book)
	}
	return nil
}

// tableWidth is the width of the table with all columns.
const tableWidth = 61

// isNarrow reports whether the terminal is narrower than the table with all columns. Then the table has only the most important ones.
func (s *demoScreen) isNarrow() bool {
	width := term.Width(s.out)
	return width > 0 && width < tableWidth
}

// sentences prints a text in lines that fit the terminal, of at most 110 columns.
func (s *demoScreen) sentences(format string, args ...any) {
	width := 110
	if w := term.Width(s.out); w > 0 { // 0 without a terminal
		width = min(w, width)
	}
	lines := term.Wrap(fmt.Sprintf(format, args...), width)
	term.Fprintf(s.out, "%s\n", term.Block(strings.Join(lines, "\n")))
}
