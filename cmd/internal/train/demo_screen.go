package train

import (
	"cmp"
	"fmt"
	"io"
	"math"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/stats"
	"debrief/events"

	book "debrief/playbook"
)

// demoScreen prints the progress and the result of a demo as text or as JSON lines.
type demoScreen struct {
	out  io.Writer
	json bool
	live bool // a terminal, where a line can be overwritten
}

func newDemoScreen(out *console.Writer, asJSON bool) *demoScreen {
	return &demoScreen{out: out, json: asJSON, live: !asJSON && out.IsTerminal()}
}

// progress returns a function that overwrites a line with the number of finished tasks; nil if the output is not a
// terminal.
func (s *demoScreen) progress(label, set string, total int) func(int) {
	if !s.live {
		return nil
	}
	return cli.ProgressLine(s.out, label, set, total)
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
		"version at its start; new lessons are used from the next epoch on. The %d held-out tasks are only for measurement.", console.Line(model), d.Train, d.HeldOut)
}

// begin prints the head of the table.
func (s *demoScreen) begin(r *demoResult) {
	if s.json {
		return
	}
	if s.isNarrow() {
		console.Fprintf(s.out, "\n         training  held-out  bullets\nbefore             %7.1f %%\n", 100*r.Baseline)
		return
	}
	console.Fprintf(s.out, `
           training   held-out   bullets   playbook   seconds
before                %7.1f %%
`, 100*r.Baseline)
}

func (s *demoScreen) epoch(e demoEpoch) {
	if s.json {
		_ = cli.WriteJSON(s.out, e)
		return
	}
	if s.isNarrow() {
		console.Fprintf(s.out, "epoch %-2d%7.1f %% %7.1f %% %8d\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets)
		return
	}
	console.Fprintf(s.out, "epoch %-2d %8.1f %% %8.1f %% %9d   %-10s %6.1f\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets, e.Playbook, e.Seconds)
}

func (s *demoScreen) result(d *Demo, r *demoResult, bullets []*book.Bullet) error {
	if s.json {
		return cli.WriteJSON(s.out, r)
	}
	held, train := []measured{{0, share(r.Baseline, d.HeldOut)}}, []measured{}
	for _, e := range r.Epochs {
		held, train = append(held, measured{e.Epoch, share(e.HeldOut, d.HeldOut)}), append(train, measured{e.Epoch, share(e.Train, d.Train)})
	}
	console.Fprintf(s.out, "\n%s\n", console.Block(beside(console.Width(s.out),
		plot("Training, % by epoch (o), 95 % interval (|)", train), plot("Held-out, % after each epoch (o)", held))))
	console.Fprintf(s.out, "\n%s\n", console.Block(cli.FormatBullets(bullets, console.Width(s.out))))
	s.sentences("Held-out accuracy went from %.1f %% to %.1f %% with %s, %d model calls and %d tokens in %.1f s.",
		100*r.Baseline, 100*r.Final, console.Plural(r.Bullets, "bullet"), r.Calls, r.Tokens, r.Seconds)
	if r.Lost > 0 {
		s.sentences("%d messages ended as dead letters.", r.Lost)
	}
	if r.Simulated {
		s.sentences("The model was simulated: it sees only its prompt and follows the bullets in it exactly.")
	}
	if d.Data != "" {
		console.Fprintf(s.out, "The streams are kept in %s. To read the playbook: debrief playbook log --data %s --book %s\n", d.Data, d.Data, r.Book)
	}
	return nil
}

// share returns a measured accuracy of n tasks with its interval.
func share(accuracy float64, n int) stats.Estimate {
	return stats.Share(int(math.Round(accuracy*float64(n))), n)
}

// isNarrow reports whether the table is too wide for the terminal.
func (s *demoScreen) isNarrow() bool {
	width := console.Width(s.out)
	return width > 0 && width < 58
}

// sentences prints a text that is broken to fit the terminal, or into lines of 110 columns without one.
func (s *demoScreen) sentences(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	console.Fprintf(s.out, "%s\n", console.Block(console.Reflow(text, min(cmp.Or(console.Width(s.out), 110), 110))))
}
