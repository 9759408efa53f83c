package worth

import (
	"fmt"
	"math"
)

// String formats an effect in points.
func (e *Effect) String() string {
	return fmt.Sprintf("%+.1f points, interval %+.1f to %+.1f", e.Mean, e.Low, e.High)
}

// explain sets the sentences of a report. The command, the console and the API show the same ones.
func (r *Report) explain() {
	switch r.Status {
	case Off:
		r.Summary = "No control share: the effect cannot be measured."
	case Collecting:
		r.Summary = fmt.Sprintf("Not known yet: about %d outcomes are missing, among them those of %d sessions without the playbook.", r.Missing.Outcomes, r.Missing.Sessions)
	case Unclear:
		r.Summary = fmt.Sprintf("Not decided yet: %v. About %d outcomes are missing to tell an effect of %.1f points from none, among them those of %d sessions without the playbook.", r.Points, r.Missing.Outcomes, r.Missing.Effect, r.Missing.Sessions)
	case Helps:
		r.Summary = fmt.Sprintf("The playbook helps: %v.", r.Points)
	case Harms:
		r.Summary = fmt.Sprintf("The playbook harms: %v.", r.Points)
	case NoEffect:
		r.Summary = fmt.Sprintf("The playbook makes no difference of %d points or more: %v.", SmallEffect, r.Points)
	}
	share := r.Share.PerMille()
	switch {
	case r.Status == Harms:
		r.Next = "Let a person approve each new text, and retire the bullets with a negative lift."
		r.command("review mode first")
	case share == 0 && (r.Status == Helps || r.Status == NoEffect):
		r.Next = "The control share is off. Measure again after large changes of the playbook, the tasks or the model."
	case share == 0:
		r.Next = "Leave 5 % of the sessions without advice, at random."
		r.command("control 5%")
	case r.Status == NoEffect:
		r.Next = "The question is answered: end the control group."
		r.command("control off")
	case r.Status == Helps && share > 10:
		r.Next = "The question is answered: shrink the control share, so that fewer sessions work without advice."
		r.command("control 1%")
	case r.Status == Helps:
		r.Next = "The question is answered: end the control group, or keep it to notice a change."
		r.command("control off")
	default:
		r.Next = "Keep the control share."
	}
}

// command sets the command for a change of the playbook's settings.
func (r *Report) command(change string) {
	r.Command = fmt.Sprintf("debrief playbook %s --book %s", change, r.Book)
}

// warn sets the warnings: signs that the two arms differ in more than the advice.
func (r *Report) warn(s *Sums) {
	if d, ok := s.difference(rated); ok && (d.low > 0 || d.high < 0) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("Outcomes are missing more often in one arm: %s of the runs with the playbook have one, and %s of those without it. The comparison is fair only if they are missing at random.", r.With.rate(), r.Without.rate()))
	}
	var inControl, expected, variance, n float64
	for i := range s.shares {
		part := &s.shares[i]
		p := float64(part.share) / 1000
		all := float64(part.arms[with].sessions + part.arms[without].sessions)
		inControl += float64(part.arms[without].sessions)
		expected += p * all
		variance += p * (1 - p) * all
		n += all
	}
	if n > 0 && math.Abs(inControl-expected)/n > radius(variance/(n*n), unlikely) {
		r.Warnings = append(r.Warnings, fmt.Sprintf("The control group has %.0f sessions and should have about %.0f: sessions of one arm are not recorded, so the comparison is not fair.", inControl, expected))
	}
}

// unlikely is the probability of a false warning about the size of the control group.
const unlikely = 0.001

// rate returns the share of the runs that have an outcome.
func (a *Arm) rate() string {
	return fmt.Sprintf("%.0f %%", 100*float64(a.Outcomes)/max(1, float64(a.Runs)))
}

// Row is a row of the table of a report, as text.
type Row struct {
	Name          string
	With, Without string // means of the arms
	Effect        string
	Interval      string
}

// Rows returns the table of a report.
func (r *Report) Rows() []Row {
	rated := [2]bool{r.With.Outcomes > 0, r.Without.Outcomes > 0}
	known := func(with, without float64) [2]bool { return [2]bool{with > 0, without > 0} } // 0 is not measured
	return []Row{
		newRow("Score, 0 to 100", "%.1f", r.With.Score, r.Without.Score, rated, r.Points, " points"),
		newRow("Failures per 100 tasks", "%.1f", r.With.Failures, r.Without.Failures, rated, r.Avoided, " avoided"),
		newRow("Tokens per run", "%.0f", r.With.Tokens, r.Without.Tokens, known(r.With.Tokens, r.Without.Tokens), r.Tokens, " %"),
		newRow("Cost per run", "$%.4f", r.With.Cost, r.Without.Cost, known(r.With.Cost, r.Without.Cost), r.Cost, " %"),
		newRow("Time per run", "%.2f s", r.With.Seconds, r.Without.Seconds, known(r.With.Seconds, r.Without.Seconds), r.Time, " %"),
	}
}

func newRow(name, format string, with, without float64, known [2]bool, e *Effect, unit string) Row {
	row := Row{Name: name, With: "–", Without: "–", Effect: "not known yet", Interval: "–"}
	if known[0] {
		row.With = fmt.Sprintf(format, with)
	}
	if known[1] {
		row.Without = fmt.Sprintf(format, without)
	}
	if e != nil {
		row.Effect = fmt.Sprintf("%+.1f%s", e.Mean, unit)
		row.Interval = fmt.Sprintf("%+.1f to %+.1f", e.Low, e.High)
	}
	return row
}
