package explain

import (
	"fmt"
	"time"

	"debrief/curator/gate"
	"debrief/playbook"
	"debrief/playbook/history"
)

// Experiment is the development of the evidence on a bullet.
type Experiment struct {
	Bullet    playbook.BulletID `json:"bullet_id"`
	Threshold float64           `json:"threshold" doc:"E-value at which the gate decides: 1 divided by the error probability."`
	Outcomes  int               `json:"max_outcomes" doc:"Number of outcomes after which a bullet on probation retires without a result."`
	Points    []EvidencePoint   `json:"points" doc:"Oldest first. If there are more than limit, some in between are left out."`
}

// EvidencePoint is the evidence on a bullet at a version.
type EvidencePoint struct {
	Version    uint64          `json:"version"`
	Time       time.Time       `json:"time"`
	Experiment int             `json:"experiment" doc:"Number of the experiment; a new wording starts a new one."`
	State      playbook.Status `json:"state"`
	Shown      gate.ArmScores  `json:"shown"`
	Withheld   gate.ArmScores  `json:"withheld"`
	Lift       gate.Lift       `json:"lift"`
	Helps      float64         `json:"e_helps" doc:"E-value against the hypothesis that the bullet does not help."`
	Harms      float64         `json:"e_harms" doc:"E-value against the hypothesis that the bullet does no harm."`

	outcomes playbook.Experiment // the fields from Shown on are computed from it
}

// ExperimentOf returns the development of the evidence on a bullet in at most limit points. It returns history.ErrBulletNotFound if
// the log does not have the bullet.
func ExperimentOf(log history.Log, id playbook.BulletID, limit int) (*Experiment, error) {
	cfg := gate.Config{}.WithDefaults()
	out := &Experiment{Bullet: id, Threshold: 1 / cfg.Alpha, Outcomes: cfg.MaxOutcomes, Points: []EvidencePoint{}}
	found := false
	err := history.StatesOf(log, id, func(d *playbook.Delta, bullet *playbook.Bullet) {
		if bullet == nil {
			return
		}
		found = true
		e := bullet.CurrentExperiment()
		p := EvidencePoint{Version: d.Version, Time: d.Time, Experiment: e.Number, State: Status(bullet), outcomes: e}
		if n := len(out.Points); n == 0 || !p.equals(&out.Points[n-1]) {
			out.Points = append(out.Points, p)
		}
	})
	if err != nil {
		return nil, LogError(err)
	}
	if !found {
		return nil, fmt.Errorf("bullet %q: %w", id, history.ErrBulletNotFound)
	}
	out.Points = thinOut(out.Points, limit)
	for i := range out.Points {
		p := &out.Points[i]
		p.Shown = gate.ArmScores{N: p.outcomes.Shown.Count(), Mean: p.outcomes.Shown.Mean()}
		p.Withheld = gate.ArmScores{N: p.outcomes.Withheld.Count(), Mean: p.outcomes.Withheld.Mean()}
		p.Lift = cfg.Lift(&p.outcomes)
		p.Harms, p.Helps = cfg.Evidence(&p.outcomes)
	}
	return out, nil
}

// equals reports whether two points have the same evidence, at two versions.
func (p *EvidencePoint) equals(o *EvidencePoint) bool {
	return p.Experiment == o.Experiment && p.State == o.State && p.outcomes.Shown == o.outcomes.Shown && p.outcomes.Withheld == o.outcomes.Withheld
}

// thinOut returns at most limit items of a list, evenly spaced, with the first and the last.
func thinOut[T any](all []T, limit int) []T {
	if len(all) <= limit {
		return all
	}
	if limit == 1 {
		return all[len(all)-1:]
	}
	out := make([]T, 0, limit)
	for i := range limit {
		out = append(out, all[i*(len(all)-1)/(limit-1)])
	}
	return out
}
