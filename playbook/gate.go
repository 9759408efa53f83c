package playbook

import "fmt"

// Gate is the mode of a book's gate. The gate tests whether new bullets help. Stored; append only.
type Gate string

// The modes of a gate.
const (
	// GateShadow shows all active bullets and records outcomes. It is the default: an empty Gate means shadow.
	GateShadow Gate = "shadow"
	// GateOff shows all active bullets and records nothing.
	GateOff Gate = "off"
	// GateOn shows a new bullet for a random share of the tasks until its effect is known.
	GateOn Gate = "on"
)

// Valid reports whether the mode is known or empty.
func (g Gate) Valid() bool { return g == "" || g == GateShadow || g == GateOff || g == GateOn }

// Arm is the experiment arm of a bullet in one task that the bullet applies to. Stored; append only.
type Arm string

// The arms.
const (
	ArmShown    Arm = "shown"
	ArmWithheld Arm = "withheld"
	// ArmOpen marks a bullet that was shown without a random decision.
	ArmOpen Arm = "open"
)

// Exposure is the outcome of one task that a bullet applies to.
type Exposure struct {
	Arm   Arm `msgpack:"a" json:"arm"`
	Score int `msgpack:"s" json:"score"` // in tenths, 0 to 10
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

// Experiment has the measurements of one experiment with a bullet. A new content, or a decision to test the bullet again, opens
// a new case. Outcomes of tasks that began under an earlier case are not counted. A Case inside a Playbook is immutable.
type Experiment struct {
	Number int `msgpack:"n" json:"number"`
	// Share is the percentage of tasks in which a bullet on probation is shown.
	Share int `msgpack:"p,omitempty" json:"share,omitempty"`
	// Outcomes by arm.
	Shown    Scores `msgpack:"s" json:"shown"`
	Withheld Scores `msgpack:"w" json:"withheld"`
	Open     Scores `msgpack:"o" json:"open"`
	// Recent are the newest outcomes of tasks in which the bullet was shown, oldest first. The last block may be incomplete.
	Recent []Block `msgpack:"r,omitempty" json:"recent,omitempty"`
	// Confirmations counts the executions whose reflection proposed the same content again.
	Confirmations int `msgpack:"e,omitempty" json:"seconded,omitempty"`
}

// Block summarizes consecutive outcomes.
type Block struct {
	N   int `msgpack:"n" json:"n"`
	Sum int `msgpack:"s" json:"sum"` // of the scores, in tenths
}

// A case keeps the newest outcomes in up to Blocks full blocks of BlockSize outcomes and one incomplete block.
const (
	BlockSize = 50
	Blocks    = 4
)

// SourceSupport is the support of a bullet from one source.
type SourceSupport struct {
	Source string `msgpack:"o" json:"source"`
	Count  int    `msgpack:"n" json:"n"` // number of supporting executions
}

// maxBackings is the maximum length of a bullet's Backing, the entry of OtherSources included.
const maxBackings = 16

// OtherSources is the entry that counts the support of all sources beyond the first ones.
const OtherSources = "(others)"

// CurrentExperiment returns the bullet's case, an empty one if the bullet has none.
func (b *Bullet) CurrentExperiment() Experiment {
	if b.Experiment == nil {
		return Experiment{}
	}
	return *b.Experiment
}

// newCase returns a new case with the next number. It keeps Seconded if the content is unchanged.
func (b *Bullet) newCase(share int, sameContent bool) *Experiment {
	was := b.CurrentExperiment()
	c := &Experiment{Number: was.Number + 1, Share: share}
	if sameContent {
		c.Confirmations = was.Confirmations
	}
	return c
}

// addOutcomes returns a copy of the bullet's case with more outcomes.
func (b *Bullet) addOutcomes(seen []Exposure) *Experiment {
	c := b.CurrentExperiment()
	c.Recent = append([]Block(nil), c.Recent...)
	for _, s := range seen {
		arm := &c.Open
		switch s.Arm {
		case ArmShown:
			arm = &c.Shown
		case ArmWithheld:
			arm = &c.Withheld
		}
		if s.Undo {
			arm[s.Score] = max(0, arm[s.Score]-1) // Recent keeps the outcome: its block is unknown
			continue
		}
		arm[s.Score]++
		if s.Arm != ArmWithheld {
			c.addRecent(s.Score)
		}
	}
	return &c
}

func (c *Experiment) addRecent(score int) {
	if n := len(c.Recent); n == 0 || c.Recent[n-1].N == BlockSize {
		if n > Blocks {
			c.Recent = c.Recent[1:]
		}
		c.Recent = append(c.Recent, Block{})
	}
	last := &c.Recent[len(c.Recent)-1]
	last.N++
	last.Sum += score
}

// addSupport returns the bullet's Backing after it adds by for each supporting execution of an operation. It copies the
// list before a change.
func (b *Bullet) addSupport(covers []Cover, support []int, by int) []SourceSupport {
	list := b.SupportBySource
	copied := false
	for _, i := range support {
		if i >= len(covers) || covers[i].Evidence == nil || covers[i].Evidence.Source == "" {
			continue
		}
		if !copied {
			list, copied = append([]SourceSupport(nil), list...), true
		}
		list = addToSource(list, covers[i].Evidence.Source, by)
	}
	return list
}

// mergeSupport returns the bullet's Backing with that of another bullet added.
func (b *Bullet) mergeSupport(other []SourceSupport) []SourceSupport {
	if len(other) == 0 {
		return b.SupportBySource
	}
	list := append([]SourceSupport(nil), b.SupportBySource...)
	for _, o := range other {
		list = addToSource(list, o.Source, o.Count)
	}
	return list
}

func addToSource(list []SourceSupport, source string, by int) []SourceSupport {
	for i := range list {
		if list[i].Source == source {
			list[i].Count = max(0, list[i].Count+by)
			return list
		}
	}
	switch {
	case by < 0:
		return list
	case source != OtherSources && len(list) >= maxBackings-1:
		return addToSource(list, OtherSources, by)
	}
	return append(list, SourceSupport{source, by})
}

func (s *Exposure) validate() error {
	if s.Arm != ArmShown && s.Arm != ArmWithheld && s.Arm != ArmOpen {
		return fmt.Errorf("seen: unknown arm %q: use shown, withheld or open", s.Arm)
	}
	if s.Score < 0 || s.Score > MaxScore {
		return fmt.Errorf("seen: score must be from 0 to %d, got %d", MaxScore, s.Score)
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
