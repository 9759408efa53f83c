package playbook

import (
	"fmt"
	"strings"
)

// Gate is the mode of a book's gate. The gate decides from outcomes which learned bullets stay. Stored; append only.
type Gate string

// The modes of a gate.
const (
	// GateGuard shows new bullets at once, withholds them from a random share of the tasks that they apply to, and retires those
	// that harm. It is the default: an empty Gate means guard.
	GateGuard Gate = "guard"
	// GateOff shows all active bullets and records nothing.
	GateOff Gate = "off"
	// GateStrict shows new bullets to a random half of the tasks, until their record is good.
	GateStrict Gate = "strict"
)

// Valid reports whether the mode is known or empty.
func (g Gate) Valid() bool { return g == "" || g == GateGuard || g == GateOff || g == GateStrict }

// Standing is the gate's opinion of a wording. It decides how often the bullet takes part in an experiment. Stored; append only.
type Standing string

// The standings. The empty standing means that the gate has no opinion, as for an imported bullet.
const (
	StandingNew     Standing = "new"     // too few outcomes
	StandingSuspect Standing = "suspect" // the outcomes with it are worse than without it
	StandingTrusted Standing = "trusted" // tasks that cite it mostly succeed
	StandingProven  Standing = "proven"  // a randomized experiment shows a benefit
	StandingKept    Standing = "kept"    // a person decided on its status; the gate does not change it
)

// Valid reports whether the standing is known or empty.
func (s Standing) Valid() bool {
	switch s {
	case "", StandingNew, StandingSuspect, StandingTrusted, StandingProven, StandingKept:
		return true
	}
	return false
}

// Established reports whether a bullet with this standing belongs to the stable part of a prompt: its record is good, or a
// person or an import brought it.
func (s Standing) Established() bool { return s != StandingNew && s != StandingSuspect }

// ExperimentShare is the percentage of the tasks to which a bullet applies that are used for an experiment with it. Half of
// them, chosen at random, do not see the bullet.
func (s Standing) ExperimentShare() int {
	switch s {
	case StandingSuspect:
		return 100 // to decide soon
	case StandingProven:
		return 2 // to notice a change
	case StandingKept:
		return 0
	}
	return 20
}

// Arm is the arm of a bullet in one task. Stored; append only.
type Arm string

// The arms.
const (
	ArmShown    Arm = "shown"    // shown by a random decision
	ArmWithheld Arm = "withheld" // withheld by a random decision
	ArmOpen     Arm = "open"     // shown without a random decision
)

// Random reports whether the arm was assigned at random.
func (a Arm) Random() bool { return a == ArmShown || a == ArmWithheld }

// Exposure is the outcome of one task for a bullet that was in an experiment or was cited.
type Exposure struct {
	Arm   Arm `msgpack:"a" json:"arm"`
	Score int `msgpack:"s" json:"score"` // in tenths, 0 to 10
	// Cited reports that the answer cited the bullet. It is always true in the open arm.
	Cited bool `msgpack:"c,omitempty" json:"cited,omitempty"`
	// Undo subtracts an outcome that was counted earlier, because feedback has corrected it.
	Undo bool `msgpack:"u,omitempty" json:"undo,omitempty"`
}

// MaxScore is the best score of an outcome, in tenths.
const MaxScore = 10

// Scores counts outcomes by their score in tenths.
type Scores [MaxScore + 1]int

// Count returns the number of outcomes.
func (s *Scores) Count() (n int) {
	for _, c := range s {
		n += c
	}
	return n
}

// Sum returns the sum of the scores, in tenths.
func (s *Scores) Sum() (sum int) {
	for score, c := range s {
		sum += score * c
	}
	return sum
}

// Mean returns the mean score from 0 to 1. Without outcomes it is 0.
func (s *Scores) Mean() float64 {
	if n := s.Count(); n > 0 {
		return float64(s.Sum()) / float64(MaxScore*n)
	}
	return 0
}

func (s *Scores) add(score int, undo bool) {
	if !undo {
		s[score]++
	} else {
		s[score] = max(0, s[score]-1)
	}
}

// Experiment is the record of one wording of a bullet. A new content starts a new one, and so does a change of the outcomes
// over time. Outcomes of tasks that began under an earlier experiment are not counted. An Experiment inside a Playbook is
// immutable.
type Experiment struct {
	Number   int      `msgpack:"n" json:"number"`
	Standing Standing `msgpack:"g,omitempty" json:"standing,omitempty"`
	// Shown and Withheld have the outcomes of the two random arms.
	Shown    Scores `msgpack:"s" json:"shown"`
	Withheld Scores `msgpack:"w" json:"withheld"`
	// Cited has the outcomes of all tasks whose answer cited the bullet.
	Cited Scores `msgpack:"o" json:"cited"`
	// Recent has one character for each of the newest outcomes in Cited, oldest first: + for a score of at least a half,
	// else -. At most MaxRecent.
	Recent string `msgpack:"r,omitempty" json:"recent,omitempty"`
	// Confirmations counts the executions whose reflection proposed the same content again.
	Confirmations int `msgpack:"e,omitempty" json:"confirmations,omitempty"`
}

// MaxRecent is the maximum length of Experiment.Recent.
const MaxRecent = 32

// The characters of Experiment.Recent.
const (
	RecentSuccess = '+'
	RecentFailure = '-'
)

// FailuresInARow returns the number of newest cited outcomes that are failures.
func (e *Experiment) FailuresInARow() int {
	return len(e.Recent) - len(strings.TrimRight(e.Recent, string(RecentFailure)))
}

// Outcomes returns the number of tasks with an outcome, of the random arms and of others that cited the bullet. It is a lower bound: the cited
// tasks are not counted by arm, so the larger of Cited and Shown stands for both.
func (e *Experiment) Outcomes() int {
	return max(e.Cited.Count(), e.Shown.Count()) + e.Withheld.Count()
}

// CurrentExperiment returns the bullet's experiment, an empty one if the bullet has none.
func (b *Bullet) CurrentExperiment() Experiment {
	if b.Experiment == nil {
		return Experiment{}
	}
	return *b.Experiment
}

// newExperiment returns the empty record of an experiment with a new wording.
func (b *Bullet) newExperiment(s Standing) *Experiment {
	return &Experiment{Number: b.CurrentExperiment().Number + 1, Standing: s}
}

// repeatExperiment returns the empty record of another experiment with the same wording. The confirmations stay, because they belong to
// the wording.
func (b *Bullet) repeatExperiment(s Standing) *Experiment {
	e := b.newExperiment(s)
	e.Confirmations = b.CurrentExperiment().Confirmations
	return e
}

// addOutcomes returns a copy of the bullet's experiment with more outcomes.
func (b *Bullet) addOutcomes(seen []Exposure) *Experiment {
	e := b.CurrentExperiment()
	for _, s := range seen {
		switch s.Arm {
		case ArmShown:
			e.Shown.add(s.Score, s.Undo)
		case ArmWithheld:
			e.Withheld.add(s.Score, s.Undo)
		}
		if s.Cited {
			e.Cited.add(s.Score, s.Undo)
			e.addRecent(s.Score, s.Undo)
		}
	}
	return &e
}

// addRecent appends an outcome to Recent. With undo it removes the newest one with the same result instead.
func (e *Experiment) addRecent(score int, undo bool) {
	mark := string(RecentFailure)
	if 2*score >= MaxScore {
		mark = string(RecentSuccess)
	}
	if undo {
		if i := strings.LastIndex(e.Recent, mark); i >= 0 {
			e.Recent = e.Recent[:i] + e.Recent[i+1:]
		}
		return
	}
	e.Recent += mark
	e.Recent = e.Recent[max(0, len(e.Recent)-MaxRecent):]
}

// validate returns an error for a record that outcomes cannot produce. It accepts nil.
func (e *Experiment) validate() error {
	if e == nil {
		return nil
	}
	if !e.Standing.Valid() {
		return fmt.Errorf("standing: unknown standing %q", e.Standing)
	}
	if e.Number < 0 || e.Confirmations < 0 {
		return fmt.Errorf("number, confirmations: must be at least 0")
	}
	for _, counts := range [...]*Scores{&e.Shown, &e.Withheld, &e.Cited} {
		for _, n := range counts {
			if n < 0 {
				return fmt.Errorf("shown, withheld, cited: must be at least 0")
			}
		}
	}
	if len(e.Recent) > MaxRecent || strings.Trim(e.Recent, string(RecentSuccess)+string(RecentFailure)) != "" {
		return fmt.Errorf("recent: must have at most %d characters, each %c or %c", MaxRecent, RecentSuccess, RecentFailure)
	}
	return nil
}

func (s *Exposure) validate() error {
	if !s.Arm.Random() && s.Arm != ArmOpen {
		return fmt.Errorf("exposures: unknown arm %q: use shown, withheld or open", s.Arm)
	}
	lacksCitation := s.Arm == ArmOpen && !s.Cited
	citesWithheld := s.Arm == ArmWithheld && s.Cited
	if lacksCitation || citesWithheld {
		return fmt.Errorf("exposures: cited: must be true in the arm open and false in the arm withheld")
	}
	if s.Score < 0 || s.Score > MaxScore {
		return fmt.Errorf("exposures: score must be from 0 to %d, got %d", MaxScore, s.Score)
	}
	return nil
}

// Vote is the rating of a bullet by the reflection on one sample. Stored; append only.
type Vote string

// The votes.
const (
	Helpful Vote = "helpful"
	Harmful Vote = "harmful"
	Neutral Vote = "neutral"
)

// Valid reports whether the vote is known.
func (v Vote) Valid() bool { return v == Helpful || v == Harmful || v == Neutral }

// addVotes adds to the counter of a vote. A counter does not go below 0.
func (b *Bullet) addVotes(v Vote, by int) {
	switch v {
	case Helpful:
		b.Helpful = max(0, b.Helpful+by)
	case Harmful:
		b.Harmful = max(0, b.Harmful+by)
	case Neutral:
		b.Neutral = max(0, b.Neutral+by)
	}
}
