package train

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/guptarohit/asciigraph"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
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
	console.Fprintf(s.out, `An invoice desk has hidden rules for discounts, taxes, surcharges and rounding. The model must learn them.
Generator, Reflector and Curator communicate over JetStream and use %s. Each epoch answers %d training
tasks with the playbook version at its start; new lessons are used from the next epoch on. The %d held-out tasks
are only for measurement.
`, model, d.Train, d.HeldOut)
}

// begin prints the head of the table.
func (s *demoScreen) begin(r *demoResult) {
	if s.json {
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
	console.Fprintf(s.out, "epoch %-2d %8.1f %% %8.1f %% %9d   %-10s %6.1f\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets, e.Playbook, e.Seconds)
}

func (s *demoScreen) result(d *Demo, r *demoResult, bullets []*book.Bullet) error {
	if s.json {
		return cli.WriteJSON(s.out, r)
	}
	held, train := []float64{100 * r.Baseline}, []float64{}
	for _, e := range r.Epochs {
		held, train = append(held, 100*e.HeldOut), append(train, 100*e.Train)
	}
	console.Fprintf(s.out, "\n%s\n", console.Block(beside(curve("training accuracy, % by epoch", train), curve("held-out accuracy, % before and after each epoch", held))))
	console.Fprintf(s.out, "\n%s\n", console.Block(cli.FormatBullets(bullets, console.Width(s.out))))
	console.Fprintf(s.out, "Held-out accuracy went from %.1f %% to %.1f %% with %s, %d model calls and %d tokens in %.1f s.",
		100*r.Baseline, 100*r.Final, cli.Plural(r.Bullets, "bullet"), r.Calls, r.Tokens, r.Seconds)
	if r.Lost > 0 {
		console.Fprintf(s.out, " %d messages ended as dead letters.", r.Lost)
	}
	if r.Simulated {
		console.Fprintf(s.out, "\nThe model was simulated: it sees only its prompt and follows the bullets in it exactly.")
	}
	if d.Data != "" {
		console.Fprintf(s.out, "\nThe streams are kept in %s. To read the playbook: debrief playbook log --data %s --book %s", d.Data, d.Data, r.Book)
	}
	console.Fprintln(s.out)
	return nil
}

// curve draws percentages by epoch.
func curve(caption string, points []float64) string {
	if len(points) == 1 {
		points = append(points, points[0])
	}
	return caption + "\n" + asciigraph.Plot(points, asciigraph.Height(8), asciigraph.Width(42),
		asciigraph.LowerBound(0), asciigraph.UpperBound(100), asciigraph.Precision(0))
}

// beside joins two blocks of text side by side.
func beside(left, right string) string {
	l, r := strings.Split(left, "\n"), strings.Split(right, "\n")
	var out strings.Builder
	for i := range max(len(l), len(r)) {
		line := ""
		if i < len(l) {
			line = l[i]
		}
		if i < len(r) {
			line += strings.Repeat(" ", max(52-utf8.RuneCountInString(line), 1)) + r[i]
		}
		out.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return out.String()
}
