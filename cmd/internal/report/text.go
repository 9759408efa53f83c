package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"

	"debrief/cmd/internal/components"
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
	switch {
	case r.learned():
		fmt.Fprintf(&out, "Best playbook: version %d of %s, %s and some %s.\n", r.Best.Version, plain(r.Run.Book), components.Plural(r.Best.Bullets, "bullet"), components.Plural(r.Best.Tokens, "token"))
	case r.Best != (Book{}):
		fmt.Fprintf(&out, "Nothing was learned that the best playbook contains. It has %s.\n", components.Plural(r.Best.Bullets, "bullet"))
	}
	if c := r.Against; c != nil {
		fmt.Fprintf(&out, "Against playbook %s, version %d with %s: %s the same, %s nearly, %s only here, %s only there.\n", plain(c.Book), c.Version,
			components.Plural(c.Bullets, "bullet"), components.Thousands(c.Same), components.Thousands(c.Alike), components.Thousands(c.OnlyHere), components.Thousands(c.OnlyThere))
	}
	if r.Stopped != "" {
		fmt.Fprintf(&out, "The run ended before its last epoch: %s.\n", plain(r.Stopped))
	}
	if w := r.Wrong; w.Wrong > 0 {
		fmt.Fprintf(&out, "Wrong: %s of %s. The first %d with their bullets are in %s.\n", components.Thousands(w.Wrong), components.Plural(w.Of, "answer"), len(w.First), pageFile)
	}
	r.writeLosses(&out)
	if r.Unlearned > 0 {
		fmt.Fprintf(&out, "%s not learned from: no reply of the Curator's model was usable. The run keeps them.\n", components.Plural(r.Unlearned, "reflection"))
	}
	all := r.Cost.total()
	fmt.Fprintf(&out, "The run took %s of models, %s and %s", components.Plural(all.Calls, "call"), components.Plural(all.InputTokens+all.OutputTokens, "token"), components.Seconds(r.Timing.Seconds))
	if all.Dollars > 0 {
		fmt.Fprintf(&out, ", %s", dollars(all.Dollars))
	}
	fmt.Fprint(&out, ".\n")
	r.writeTimes(&out)
	if c := r.Cost.PerBullet; c != nil {
		fmt.Fprintln(&out, c)
	}
	fmt.Fprintf(&out, "Fingerprint of the result: %s\n", fingerprint)
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

// writeTimes lists the time of each role in each epoch.
func (r *Report) writeTimes(out io.Writer) {
	times := r.Timing.Epochs[:min(len(r.Timing.Epochs), maxEpochs)]
	if len(times) == 0 {
		return
	}
	fmt.Fprint(out, "Time of the roles at work, and of their model calls (concurrent calls add up):\n")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(w, "epoch\tgenerator\tmodel\treflector\tmodel\tcurator\tmodel\t\n")
	for i := range times {
		e := &times[i]
		epoch := strconv.Itoa(e.Epoch)
		if e.Epoch == 0 {
			epoch = "before"
		}
		fmt.Fprint(w, epoch, "\t")
		for _, role := range []RoleTime{e.Generator, e.Reflector, e.Curator} {
			fmt.Fprintf(w, "%s\t%s\t", roleTime(role.Wall), roleTime(role.Model))
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush()
}

// share formats the accuracy, "–" without one.
func (s *Score) share() string {
	if s == nil || s.N == 0 {
		return "–"
	}
	return components.Percent(s.Accuracy)
}

// shareInterval formats the interval of the accuracy, empty without one.
func (s *Score) shareInterval() string {
	if s.N == 0 {
		return ""
	}
	low, high := s.interval()
	return fmt.Sprintf("%.1f–%.1f", 100*low, 100*high)
}

// maxRows limits the measurements that a summary lists.
const maxRows = 12

// writeCurve lists measurements of the validation set, or of the training samples without one, with their intervals.
func (r *Report) writeCurve(out io.Writer) {
	c := newCurve(r)
	what, marks := "validation", c.Validation
	if len(marks) < 2 {
		what, marks = "training", c.Train
	}
	if len(marks) < 2 {
		return
	}
	left := 0
	if len(marks) > maxRows {
		left = len(marks) - maxRows
		some := make([]components.Mark, maxRows)
		for i := range some {
			some[i] = marks[i*(len(marks)-1)/(maxRows-1)]
		}
		marks = some
	}
	fmt.Fprintf(out, "Accuracy on %s samples, with the 95 %% interval. Scale: 0 to 100 %%.\n", what)
	for _, m := range marks {
		fmt.Fprintf(out, "after %*d  %5.1f %%  |%s|\n", len(strconv.Itoa(marks[len(marks)-1].Step)), m.Step, m.Value, bar(m, 40))
	}
	if left > 0 {
		fmt.Fprintf(out, "%d other measurements: see report.html.\n", left)
	}
	fmt.Fprintln(out)
}

// bar draws an accuracy as "o" and its interval as "-".
func bar(m components.Mark, width int) string {
	at := func(percent float64) int { return min(max(int(percent/100*float64(width)), 0), width-1) }
	cells := []byte(strings.Repeat(" ", width))
	for i := at(m.Low); i <= at(m.High); i++ {
		cells[i] = '-'
	}
	cells[at(m.Value)] = 'o'
	return string(cells)
}

func (r *Report) writeLosses(out io.Writer) {
	if len(r.Losses) == 0 {
		return
	}
	fmt.Fprintf(out, "Lost %s:\n", components.Plural(len(r.Losses), "sample"))
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
