package gate_test

import (
	"cmp"
	"math/rand/v2"

	"debrief/curator/gate"
	"debrief/playbook"
)

// life is the simulated life of a bullet. Each task that it applies to succeeds with a probability that depends on whether the
// bullet is shown. The gate assesses the record after every outcome.
type life struct {
	rng     *rand.Rand
	cfg     gate.Config
	cites   float64 // probability that a task cites the bullet if it is shown
	typical float64

	b       playbook.Bullet
	tasks   int
	proven  bool
	retired playbook.Reason // the code of the decision to retire it, or ""
	drifts  int
	// suspensions counts how often the bullet went back to the candidates. Another execution requests it at once.
	suspensions int
}

func newLife(seed uint64, s playbook.Standing, typical float64) *life {
	l := &life{rng: rand.New(rand.NewPCG(seed, 11)), cites: 0.7, typical: typical}
	l.b = playbook.Bullet{ID: "a-1", Experiment: &playbook.Experiment{Number: 1, Standing: s}}
	return l
}

// task adds the outcome of one task with the given probabilities of success. It reports whether the bullet is still shown.
func (l *life) task(with, without float64) bool {
	l.tasks++
	e := l.b.CurrentExperiment()
	x := playbook.Exposure{Arm: playbook.ArmOpen}
	if l.rng.IntN(100) < e.Standing.ExperimentShare() {
		if x.Arm = playbook.ArmShown; l.rng.IntN(2) == 0 {
			x.Arm = playbook.ArmWithheld
		}
	}
	p := without
	if x.Arm != playbook.ArmWithheld {
		p, x.Cited = with, l.rng.Float64() < l.cites
	}
	if l.rng.Float64() < p {
		x.Score = playbook.MaxScore
	}
	if x.Arm == playbook.ArmOpen && !x.Cited {
		return true
	}
	l.b = *l.b.Apply(&playbook.Op{Kind: playbook.AddExposures, ExperimentNumber: e.Number, Exposures: []playbook.Exposure{x}}, nil)
	l.assess()
	return l.retired == ""
}

func (l *life) assess() {
	a := l.cfg.Assess(&l.b, typical(l.typical))
	if a == (gate.Assessment{}) {
		return
	}
	l.proven = l.proven || a.Standing == playbook.StandingProven
	op := playbook.Op{Kind: playbook.SetStatus, Status: cmp.Or(l.b.Status, playbook.Active), Standing: a.Standing, Restart: a.Restart}
	if a.Retire {
		op.Status, l.retired = playbook.Retired, a.Code
	}
	switch {
	case a.Suspend:
		l.suspensions++
	case a.Restart:
		l.drifts++
	}
	l.b = *l.b.Apply(&op, nil)
}
