package main

import (
	"encoding/json"
	"io"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/guptarohit/asciigraph"

	"debrief/cmd/internal/console"
	book "debrief/playbook"
)

// screen shows how a demo goes: to a person, or as JSON lines.
type screen struct {
	out  io.Writer
	json bool
	live bool // a terminal, where a line can be written over
}

func newScreen(out *console.Writer, asJSON bool) *screen {
	return &screen{out: out, json: asJSON, live: !asJSON && out.IsTerminal()}
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// progress is a line that is written over while tasks are worked on; nil where nobody watches.
func (s *screen) progress(label, what string, total int) func(int) {
	if !s.live {
		return nil
	}
	return func(done int) {
		if done == total {
			console.Control(s.out, console.ClearLine)
			return
		}
		console.Control(s.out, console.Return)
		console.Fprintf(s.out, "%-9s %s %d of %d", label, what, done, total)
	}
}

func (s *screen) begin(d *demo, r *result) {
	if s.json {
		return
	}
	model := "the simulated model"
	if !r.Simulated {
		model = "model " + r.Model
	}
	console.Fprintf(s.out, `An invoice desk has house rules that nobody tells the model: discounts, taxes, surcharges, rounding.
Generator, Reflector and Curator work over JetStream, with %s. Each epoch answers %d training tasks with
the playbook of its beginning; what is learned from them is used from the next epoch on. The %d held-out tasks are
never learned from.

           training   held-out   bullets   playbook   seconds
before                %7.1f %%
`, model, d.Train, d.HeldOut, 100*r.Baseline)
}

func (s *screen) epoch(e epoch) {
	if s.json {
		_ = writeJSON(s.out, e)
		return
	}
	console.Fprintf(s.out, "epoch %-2d %8.1f %% %8.1f %% %9d   %-10s %6.1f\n", e.Epoch, 100*e.Train, 100*e.HeldOut, e.Bullets, e.Playbook, e.Seconds)
}

func (s *screen) result(d *demo, r *result, bullets []*book.Bullet) error {
	if s.json {
		return writeJSON(s.out, r)
	}
	held, train := []float64{100 * r.Baseline}, []float64{}
	for _, e := range r.Epochs {
		held, train = append(held, 100*e.HeldOut), append(train, 100*e.Train)
	}
	console.Fprintf(s.out, "\n%s\n", console.Block(beside(curve("training accuracy, % by epoch", train), curve("held-out accuracy, % before and after each epoch", held))))
	console.Fprintf(s.out, "\n%s\n", console.Block(showBullets(bullets)))
	console.Fprintf(s.out, "Held-out accuracy went from %.1f %% to %.1f %% with %d bullets, %d model calls and %d tokens in %.1f s.",
		100*r.Baseline, 100*r.Final, r.Bullets, r.Calls, r.Tokens, r.Seconds)
	if r.Lost > 0 {
		console.Fprintf(s.out, " %d messages ended as dead letters.", r.Lost)
	}
	if r.Simulated {
		console.Fprintf(s.out, "\nThe model was simulated: it sees nothing but its prompt, and follows the bullets in it to the letter.")
	}
	if d.Data != "" {
		console.Fprintf(s.out, "\nThe streams are kept in %s. To look into the playbook: debrief playbook log --data %s --book %s", d.Data, d.Data, r.Book)
	}
	console.Fprintln(s.out)
	return nil
}

// curve draws percentages over epochs.
func curve(caption string, points []float64) string {
	if len(points) == 1 {
		points = append(points, points[0])
	}
	return caption + "\n" + asciigraph.Plot(points, asciigraph.Height(8), asciigraph.Width(42),
		asciigraph.LowerBound(0), asciigraph.UpperBound(100), asciigraph.Precision(0))
}

// beside puts two blocks of text next to each other.
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

// showBullets is bullets as a table, by section.
func showBullets(bullets []*book.Bullet) string {
	if len(bullets) == 0 {
		return "The playbook is empty.\n"
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	section := ""
	for _, b := range bySection(bullets) {
		if b.Section != section {
			section = b.Section
			console.Fprintf(w, "%s\thelpful\tharmful\t\n", book.Title(section))
		}
		lines := strings.Split(wrap(b.Content, 88), "\n")
		console.Fprintf(w, "  %s%s\t%d\t%d\t%s\n", b.ID, mark(b), b.Helpful, b.Harmful, lines[0])
		for _, l := range lines[1:] {
			console.Fprintf(w, "\t\t\t%s\n", l)
		}
	}
	_ = w.Flush()
	return out.String()
}

func mark(b *book.Bullet) string {
	switch {
	case b.Pinned:
		return " (pinned)"
	case !b.Shown():
		return " (" + string(b.Status) + ")"
	}
	return ""
}
