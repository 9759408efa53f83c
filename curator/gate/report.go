package gate

import (
	"cmp"
	"fmt"
	"slices"

	"debrief/playbook"
)

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

// Row is one bullet of a report, with the numbers that people compare.
type Row struct {
	ID       playbook.BulletID `json:"id"`
	Status   playbook.Status   `json:"status"` // Active for every bullet that is shown
	Standing playbook.Standing `json:"standing,omitempty"`
	Shown    ArmScores         `json:"shown"` // at random
	Withheld ArmScores         `json:"withheld"`
	Cited    ArmScores         `json:"cited"`
	Lift     *Lift             `json:"lift,omitempty"` // nil if the bullet was never withheld or is not assessed
	Helpful  int               `json:"helpful"`
	Harmful  int               `json:"harmful"`
	Requests int               `json:"confirmations"`
	Replaces playbook.BulletID `json:"replaces,omitempty"`
	Contests playbook.BulletID `json:"contests,omitempty"`
	Next     string            `json:"next"` // the next step of the gate on the present evidence, without a final period; "" if not assessed
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

// Rows returns a report on the bullets of p with the configuration cfg. Only the first limit bullets of each list are assessed, because
// that takes time: the others have no lift and no decision. A limit of 0 assesses all.
//
// The tested bullets are those on probation, then the suspect, new and other bullets that are shown. In each group the one with the most
// outcomes comes first. The waiting bullets are the candidates, the one with the most confirmations first.
func Rows(p *playbook.Playbook, cfg Config, limit int) (tested, waiting []Row) {
	cfg = cfg.WithDefaults()
	var shown, candidates []*playbook.Bullet
	for b := range p.All() {
		switch {
		case b.Shown() || b.Status == playbook.Probation:
			shown = append(shown, b)
		case b.Status == playbook.Candidate:
			candidates = append(candidates, b)
		}
	}
	slices.SortFunc(shown, func(a, b *playbook.Bullet) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(outcomes(b), outcomes(a)), cmp.Compare(a.ID, b.ID))
	})
	slices.SortFunc(candidates, compareWaiting)
	return cfg.rows(p, shown, limit), cfg.rows(p, candidates, limit)
}

// rows returns the rows of the listed bullets, of which the first limit are assessed.
func (c Config) rows(p *playbook.Playbook, list []*playbook.Bullet, limit int) (rows []Row) {
	for i, b := range list {
		row := newRow(p, b)
		if limit <= 0 || i < limit {
			c.assessRow(p, b, &row)
		}
		rows = append(rows, row)
	}
	return rows
}

// assessRow sets the fields of a row that need an assessment of the bullet.
func (c Config) assessRow(p *playbook.Playbook, b *playbook.Bullet, row *Row) {
	e := b.CurrentExperiment()
	if e.Withheld.Count() > 0 {
		lift := c.Lift(&e)
		row.Lift = &lift
	}
	if b.Status == playbook.Probation {
		row.Remaining = c.remaining(&e)
	}
	switch mode, _ := p.Gate(); {
	case mode == playbook.GateOff: // newRow has set the next step
	case b.Status == playbook.Candidate:
		row.Next = candidateStep(p, b)
	default:
		row.Next = c.nextStep(b, p.Typical(b.ID))
	}
}

// remaining returns the largest number of outcomes until the decision on a bullet on probation.
func (c Config) remaining(e *playbook.Experiment) int {
	return max(0, c.MaxOutcomes-e.Shown.Count()-e.Withheld.Count())
}

// RowOf returns the row of a bullet of p in a report with the default configuration. It returns nil for a retired bullet and one in
// quarantine.
func RowOf(p *playbook.Playbook, b *playbook.Bullet) *Row {
	if !b.Shown() && b.Status != playbook.Probation && b.Status != playbook.Candidate {
		return nil
	}
	row := newRow(p, b)
	Config{}.WithDefaults().assessRow(p, b, &row)
	return &row
}

// Waits returns the event for which a bullet with a status and a row waits before it is shown to every task, such as a request. The text has
// no final period. It is "" for a bullet that is shown or retired.
func Waits(status playbook.Status, row *Row) string {
	switch {
	case status == playbook.Quarantined:
		return "waits for a person, see 'debrief playbook review'"
	case row != nil && (status == playbook.Candidate || status == playbook.Probation):
		return row.Next
	}
	return ""
}

// candidateStep returns the value of Row.Next for a candidate.
func candidateStep(p *playbook.Playbook, b *playbook.Bullet) string {
	against := cmp.Or(b.Replaces, b.Contests) // the bullet that b contradicts, or ""
	needed := confirmationsNeeded(p, b, p.Typical(b.ID))
	next := "waits for a request by " + otherExecutions(max(1, needed-b.CurrentExperiment().Confirmations))
	if against != "" {
		next += fmt.Sprintf(", or until outcomes of %s become worse", against)
	}
	return next
}

// rank returns the position of a bullet's group in a report: 0 for probation, then suspect, new and other bullets.
func rank(b *playbook.Bullet) int {
	switch s := b.CurrentExperiment().Standing; {
	case b.Status == playbook.Probation:
		return 0
	case s == playbook.StandingSuspect:
		return 1
	case s == playbook.StandingNew:
		return 2
	}
	return 3
}

// outcomes returns the number of outcomes in the current experiment of a bullet.
func outcomes(b *playbook.Bullet) int {
	e := b.CurrentExperiment()
	return e.Outcomes()
}

// nextStep returns the value of Row.Next for a bullet that is shown or on probation.
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
		return fmt.Sprintf("experiment continues, at most %d more outcomes", c.remaining(&e))
	}
	return "stays"
}

// newRow returns the row of a bullet of p without the fields that assessRow sets. If the gate is off, it decides nothing, so newRow sets the
// next step.
func newRow(p *playbook.Playbook, b *playbook.Bullet) Row {
	e := b.CurrentExperiment()
	row := Row{
		ID: b.ID, Status: b.Status, Standing: e.Standing,
		Shown: newArmScores(&e.Shown), Withheld: newArmScores(&e.Withheld), Cited: newArmScores(&e.Cited),
		Helpful: b.Helpful, Harmful: b.Harmful, Requests: e.Confirmations, Replaces: b.Replaces, Contests: b.Contests, Content: b.Content,
	}
	if b.Shown() {
		row.Status = playbook.Active
	}
	if mode, _ := p.Gate(); mode == playbook.GateOff {
		row.Next = "is shown"
		if b.Status == playbook.Candidate {
			row.Next = "waits"
		}
	}
	return row
}
