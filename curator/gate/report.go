package gate

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/playbook"
)

// Report is a report on the records of one playbook's bullets.
type Report struct {
	// Tested lists the bullets on probation, then the suspect, new and other bullets that are shown. In each group the bullet
	// with the most outcomes comes first.
	Tested []BulletReport
	// Waiting lists the candidates, the one with the most confirmations first.
	Waiting []BulletReport
}

// BulletReport is a bullet with the state of its record.
type BulletReport struct {
	*playbook.Bullet
	Lift Lift
	// NextStep describes the gate's next step for the bullet on the present evidence, without a final period.
	NextStep string
	// Remaining is the largest number of outcomes until the decision on a bullet on probation.
	Remaining int
}

// Describe explains a mode in a sentence, without a final period. An empty mode means guard.
func Describe(mode playbook.Gate) string {
	switch mode {
	case playbook.GateStrict:
		return "new bullets are shown to a random half of the tasks, until their record is good"
	case playbook.GateOff:
		return "all bullets are shown, and outcomes are not recorded"
	}
	return "new bullets are shown at once, and retire if tasks with them fail"
}

// NewReport returns the report on p with the configuration cfg. If the gate is off, the report describes the decisions that a
// gate would make. Only the first limit bullets of each list are assessed, because that takes time: the others have no lift and no next
// step. A limit of 0 assesses all.
func NewReport(p *playbook.Playbook, cfg Config, limit int) Report {
	cfg = cfg.WithDefaults()
	var out Report
	for b := range p.All() {
		switch {
		case b.Shown() || b.Status == playbook.Probation:
			out.Tested = append(out.Tested, BulletReport{Bullet: b})
		case b.Status == playbook.Candidate:
			out.Waiting = append(out.Waiting, BulletReport{Bullet: b})
		}
	}
	slices.SortFunc(out.Tested, func(a, b BulletReport) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(out.Waiting, func(a, b BulletReport) int { return compareWaiting(a.Bullet, b.Bullet) })
	for _, list := range [][]BulletReport{out.Tested, out.Waiting} {
		for i := range list {
			if limit > 0 && i >= limit {
				break
			}
			list[i] = cfg.assessed(p, list[i].Bullet)
		}
	}
	return out
}

// assessed returns the report on a bullet that is shown, on probation or a candidate.
func (c Config) assessed(p *playbook.Playbook, b *playbook.Bullet) BulletReport {
	e := b.CurrentExperiment()
	r := BulletReport{Bullet: b, Lift: c.Lift(&e)}
	if b.Status == playbook.Candidate {
		r.NextStep = waitsFor(confirmationsNeeded(p, b, p.Typical(b.ID))-e.Confirmations, cmp.Or(b.Replaces, b.Contests))
		return r
	}
	if b.Status == playbook.Probation {
		r.Remaining = max(0, c.MaxOutcomes-e.Shown.Count()-e.Withheld.Count())
	}
	r.NextStep = c.nextStep(b, p.Typical(b.ID))
	return r
}

// RowOf returns the row of a bullet of p in a report with the default configuration. It returns nil for a retired bullet and one in
// quarantine.
func RowOf(p *playbook.Playbook, b *playbook.Bullet) *Row {
	if !b.Shown() && b.Status != playbook.Probation && b.Status != playbook.Candidate {
		return nil
	}
	row := newRow(Config{}.WithDefaults().assessed(p, b))
	mode, _ := p.Gate()
	row.Next = cmp.Or(stepOf(mode, b.Status == playbook.Candidate), row.Next)
	return &row
}

// waitsFor returns the value of BulletReport.NextStep for a candidate that needs more confirmations, or worse outcomes of the bullet
// that it contradicts, if any.
func waitsFor(confirmations int, against playbook.BulletID) string {
	worse := fmt.Sprintf("until outcomes of %s become worse", against)
	if confirmations > never/2 { // never, less the confirmations so far; only a candidate against a bullet needs so many
		return "waits " + worse
	}
	next := "waits for a request by " + otherExecutions(max(1, confirmations))
	if against != "" {
		next += ", or " + worse
	}
	return next
}

// rank orders bullets by their records, those without a good one first.
func rank(r BulletReport) int {
	switch s := r.CurrentExperiment().Standing; {
	case r.Status == playbook.Probation:
		return 0
	case s == playbook.StandingSuspect:
		return 1
	case s == playbook.StandingNew:
		return 2
	}
	return 3
}

func outcomes(r BulletReport) int {
	e := r.CurrentExperiment()
	return e.Outcomes()
}

// nextStep returns the value of BulletReport.NextStep for a bullet that is shown or on probation.
func (c Config) nextStep(b *playbook.Bullet, typical playbook.Typical) string {
	a := c.Assess(b, typical)
	switch {
	case IsKept(b):
		return "stays by a person's decision"
	case a.Retire:
		return "will retire: " + a.Reason
	case a.Suspend:
		return "will be suspended: " + a.Reason
	case a.Standing != "":
		return fmt.Sprintf("becomes %s: %s", a.Standing, a.Reason)
	case b.Status == playbook.Probation:
		e := b.CurrentExperiment()
		return fmt.Sprintf("experiment continues, at most %d more outcomes", max(0, c.MaxOutcomes-e.Shown.Count()-e.Withheld.Count()))
	}
	return "stays"
}

// Row is one bullet of a report, with the numbers that people compare.
type Row struct {
	ID       playbook.BulletID `json:"id"`
	Status   playbook.Status   `json:"status"` // Active for every bullet that is shown
	Standing playbook.Standing `json:"standing,omitempty"`
	Shown    ArmScores         `json:"shown"` // at random
	Withheld ArmScores         `json:"withheld"`
	Cited    ArmScores         `json:"cited"`
	Lift     *Lift             `json:"lift,omitempty"` // nil if the bullet was never withheld
	Helpful  int               `json:"helpful"`
	Harmful  int               `json:"harmful"`
	Requests int               `json:"confirmations"`
	Replaces playbook.BulletID `json:"replaces,omitempty"`
	Contests playbook.BulletID `json:"contests,omitempty"`
	Next     string            `json:"next"`
	// Remaining is the largest number of outcomes until the decision. It is 0 unless the bullet is on probation.
	Remaining int    `json:"remaining,omitempty"`
	Content   string `json:"content"`
}

// ArmScores has the number and the mean of the scores in one arm of an experiment.
type ArmScores struct {
	N    int     `json:"n"`
	Mean float64 `json:"mean"`
}

// String returns the mean and the number, or "-" without scores.
func (s ArmScores) String() string {
	if s.N == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f in %d", s.Mean, s.N)
}

func newArmScores(s *playbook.Scores) ArmScores { return ArmScores{s.Count(), s.Mean()} }

// Rows returns the tested and the waiting bullets of the report as rows, in the same order. With GateOff the next step of a
// row is the effect of that mode instead of a decision.
func (r Report) Rows(mode playbook.Gate) (tested, waiting []Row) {
	return rows(r.Tested, stepOf(mode, false)), rows(r.Waiting, stepOf(mode, true))
}

// stepOf returns the effect of a mode that makes no decisions, "" for the others.
func stepOf(mode playbook.Gate, waiting bool) string {
	switch {
	case mode != playbook.GateOff:
		return ""
	case waiting:
		return "waits"
	}
	return "is shown"
}

// rows returns a row for each bullet. A next step other than "" replaces those of the bullets.
func rows(list []BulletReport, next string) []Row {
	var out []Row
	for _, b := range list {
		row := newRow(b)
		row.Next = cmp.Or(next, row.Next)
		out = append(out, row)
	}
	return out
}

func newRow(b BulletReport) Row {
	e := b.CurrentExperiment()
	row := Row{
		ID: b.ID, Status: b.Status, Standing: e.Standing,
		Shown: newArmScores(&e.Shown), Withheld: newArmScores(&e.Withheld), Cited: newArmScores(&e.Cited),
		Helpful: b.Helpful, Harmful: b.Harmful, Requests: e.Confirmations, Replaces: b.Replaces, Contests: b.Contests,
		Next: b.NextStep, Remaining: b.Remaining, Content: b.Content,
	}
	if b.Bullet.Shown() {
		row.Status = playbook.Active
	}
	if e.Withheld.Count() > 0 {
		row.Lift = &b.Lift
	}
	return row
}
