package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"unicode"

	"github.com/guptarohit/asciigraph"
)

// maxListed limits the losses that a summary lists.
const maxListed = 5

// Text writes the report as a summary for a terminal.
func (r *Report) Text(w io.Writer) error {
	fingerprint, err := r.fingerprint()
	if err != nil {
		return err
	}
	r = r.tidy()
	var out strings.Builder
	r.writeEpochs(&out)
	r.writeCurve(&out)
	h := r.headline()
	if h.From != "" {
		h.To = h.From + " → " + h.To
	}
	fmt.Fprintf(&out, "%s %s.\n", h.To, h.What)
	for _, d := range h.Detail {
		fmt.Fprintln(&out, d)
	}
	if r.Best != (Book{}) {
		fmt.Fprintf(&out, "Best playbook: version %d of %s, %s and some %s.\n", r.Best.Version, plain(r.Run.Book), plural(r.Best.Bullets, "bullet"), plural(r.Best.Tokens, "token"))
	}
	if c := r.Against; c != nil {
		fmt.Fprintf(&out, "Against playbook %s, version %d with %s: %s the same, %s nearly, %s only here, %s only there.\n", plain(c.Book), c.Version,
			plural(c.Bullets, "bullet"), thousands(c.Same), thousands(c.Alike), thousands(c.OnlyHere), thousands(c.OnlyThere))
	}
	if r.Stopped != "" {
		fmt.Fprintf(&out, "The run ended before its last epoch: %s.\n", plain(r.Stopped))
	}
	r.writeLosses(&out)
	if r.Unlearned > 0 {
		fmt.Fprintf(&out, "%s not learned from: no reply of the Curator's model was usable. The run keeps them.\n", plural(r.Unlearned, "reflection"))
	}
	all := r.Cost.total()
	fmt.Fprintf(&out, "The run took %s of models, %s and %s", plural(all.Calls, "call"), plural(all.InputTokens+all.OutputTokens, "token"), seconds(r.Timing.Seconds))
	if all.Dollars > 0 {
		fmt.Fprintf(&out, ", %s", dollars(all.Dollars))
	}
	fmt.Fprintf(&out, ".\nFingerprint of the result: %s\n", fingerprint)
	if r.Run.simulated() {
		fmt.Fprintln(&out, "The model was simulated: the figures say nothing about a real one.")
	}
	_, err = io.WriteString(w, out.String())
	return err
}

func (r *Report) writeEpochs(out io.Writer) {
	if len(r.Epochs) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "epoch\ttraining\tvalidation\tlost\tbullets\ttokens\tversion\t\n")
	for _, e := range r.Epochs[:min(len(r.Epochs), maxEpochs)] {
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%d\t%d\t%d\t\n", e.Epoch, e.Train.share(), e.Validation.share(), e.Train.Lost, e.Book.Bullets, e.Book.Tokens, e.Book.Version)
	}
	_ = w.Flush()
	fmt.Fprintln(out)
}

// share formats the accuracy, "–" without one.
func (s *Score) share() string {
	if s == nil || s.N == 0 {
		return "–"
	}
	return percent(s.Accuracy)
}

// writeCurve plots the accuracy of the validation set, or of the training samples without one.
func (r *Report) writeCurve(out io.Writer) {
	c := newCurve(r)
	what, marks := "validation accuracy", c.Validation
	if len(marks) < 2 {
		what, marks = "training accuracy", c.Train
	}
	if len(marks) < 2 {
		return
	}
	first, last := marks[0].Step, marks[len(marks)-1].Step
	fmt.Fprintf(out, "%s, %% after %d to %d training samples\n%s\n\n", what, first, last, asciigraph.Plot(spread(marks, 64),
		asciigraph.Height(10), asciigraph.LowerBound(0), asciigraph.UpperBound(100), asciigraph.Precision(0)))
}

// spread interpolates a line into columns at equal distances of samples.
func spread(marks []mark, columns int) []float64 {
	out := make([]float64, columns)
	first, last := marks[0].Step, marks[len(marks)-1].Step
	at := 0
	for i := range out {
		step := float64(first) + float64(last-first)*float64(i)/float64(columns-1)
		for at < len(marks)-2 && float64(marks[at+1].Step) <= step {
			at++
		}
		a, b := marks[at], marks[at+1]
		out[i] = b.Value
		if a.Step != b.Step {
			share := min(max((step-float64(a.Step))/float64(b.Step-a.Step), 0), 1)
			out[i] = a.Value + share*(b.Value-a.Value)
		}
	}
	return out
}

func (r *Report) writeLosses(out io.Writer) {
	if len(r.Losses) == 0 {
		return
	}
	fmt.Fprintf(out, "Lost %s:\n", plural(len(r.Losses), "sample"))
	for _, l := range r.Losses[:min(len(r.Losses), maxListed)] {
		fmt.Fprintf(out, "  %s of %s, epoch %d: %s\n", plain(l.Sample), plain(l.Set), l.Epoch, plain(l.Reason))
	}
	if more := len(r.Losses) - maxListed; more > 0 {
		fmt.Fprintf(out, "  and %d more, listed in %s\n", more, reportFile)
	}
}

// plain returns a text on one line without control characters.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, s)
}
