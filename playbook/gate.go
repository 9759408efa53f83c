package playbook

import "fmt"

// Gate says how new advice of a book earns its place. Stored; append only.
type Gate string

// The modes of a gate.
const (
	// GateShadow shows everything and records what came of it. The empty gate means shadow.
	GateShadow Gate = "shadow"
	// GateOff shows everything and records nothing.
	GateOff Gate = "off"
	// GateOn shows new advice to a share of the tasks that chance picks, until the difference that it makes is known.
	GateOn Gate = "on"
)

// Valid reports whether it is one of the modes, or none.
func (g Gate) Valid() bool { return g == "" || g == GateShadow || g == GateOff || g == GateOn }

// Arm is what chance decided about a bullet and one task that it bears on. Stored; append only.
type Arm string

// The arms.
const (
	ArmShown    Arm = "shown"
	ArmWithheld Arm = "withheld"
	// ArmOpen is a bullet that was shown because all are: chance decided nothing.
	ArmOpen Arm = "open"
)

// Seen is the outcome of one task that a bullet bears on.
type Seen struct {
	Arm   Arm `msgpack:"a" json:"arm"`
	Score int `msgpack:"s" json:"score"` // in tenths, 0 to 10
	// Undo takes back an outcome that was counted before: a judgement was corrected.
	Undo bool `msgpack:"u,omitempty" json:"undo,omitempty"`
}

// MaxScore is the best score of an outcome, which counts in tenths.
const MaxScore = 10

// Scores counts outcomes by their score in tenths.
type Scores [MaxScore + 1]int

// N is how many outcomes there are, and Sum their scores together, in tenths.
func (s *Scores) N() (n int) {
	for _, c := range s {
		n += c
	}
	return n
}

// Sum is the scores together, in tenths.
func (s *Scores) Sum() (sum int) {
	for score, c := range s {
		sum += score * c
	}
	return sum
}

// Mean is the mean score from 0 to 1, 0 of none.
func (s *Scores) Mean() float64 {
	if n := s.N(); n > 0 {
		return float64(s.Sum()) / float64(MaxScore*n)
	}
	return 0
}

// Case is the evidence on whether a bullet helps. New words, and a decision to look again, open a new case; outcomes
// of tasks that were begun under another case do not count in it. A Case inside a Playbook is immutable.
type Case struct {
	Number int `msgpack:"n" json:"number"`
	// Share is the part of the tasks that chance shows the bullet while it is on probation, in percent.
	Share int `msgpack:"p,omitempty" json:"share,omitempty"`
	// Outcomes by arm.
	Shown    Scores `msgpack:"s" json:"shown"`
	Withheld Scores `msgpack:"w" json:"withheld"`
	Open     Scores `msgpack:"o" json:"open"`
	// Recent are the newest outcomes of tasks that it was shown in, oldest first: whole blocks and the one being filled.
	Recent []Block `msgpack:"r,omitempty" json:"recent,omitempty"`
	// Seconded counts the executions that asked for the same words again.
	Seconded int `msgpack:"e,omitempty" json:"seconded,omitempty"`
}

// Block is a run of outcomes.
type Block struct {
	N   int `msgpack:"n" json:"n"`
	Sum int `msgpack:"s" json:"sum"` // of the scores, in tenths
}

// The newest outcomes of a bullet are kept as this many blocks of this many.
const (
	BlockSize = 50
	Blocks    = 4
)

// Backing counts what of a bullet's support came from one source.
type Backing struct {
	Source string `msgpack:"o" json:"source"`
	N      int    `msgpack:"n" json:"n"`
}

// maxBackings bounds the sources that a bullet keeps apart; the rest is counted under OtherSources.
const maxBackings = 16

// OtherSources stands for the sources of a bullet beyond the first sixteen.
const OtherSources = "(others)"

// TheCase is the bullet's case; a bullet that nothing is known about has an empty one.
func (b *Bullet) TheCase() Case {
	if b.Case == nil {
		return Case{}
	}
	return *b.Case
}

// open is a new case after the bullet's last one. Of the same words it keeps who asked for them.
func (b *Bullet) open(share int, sameWords bool) *Case {
	was := b.TheCase()
	c := &Case{Number: was.Number + 1, Share: share}
	if sameWords {
		c.Seconded = was.Seconded
	}
	return c
}

// saw is the bullet's case with more outcomes.
func (b *Bullet) saw(seen []Seen) *Case {
	c := b.TheCase()
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
			arm[s.Score] = max(0, arm[s.Score]-1) // blocks move on, and keep it
			continue
		}
		arm[s.Score]++
		if s.Arm != ArmWithheld {
			c.recent(s.Score)
		}
	}
	return &c
}

func (c *Case) recent(score int) {
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

// backed is the bullet's backing with the support of an operation, counted up or down.
func (b *Bullet) backed(covers []Cover, support []int, by int) []Backing {
	list := b.Backing
	copied := false
	for _, i := range support {
		if i >= len(covers) || covers[i].Evidence == nil || covers[i].Evidence.Source == "" {
			continue
		}
		if !copied {
			list, copied = append([]Backing(nil), list...), true
		}
		list = count(list, covers[i].Evidence.Source, by)
	}
	return list
}

// joined is the bullet's backing with that of another.
func (b *Bullet) joined(other []Backing) []Backing {
	if len(other) == 0 {
		return b.Backing
	}
	list := append([]Backing(nil), b.Backing...)
	for _, o := range other {
		list = count(list, o.Source, o.N)
	}
	return list
}

func count(list []Backing, source string, by int) []Backing {
	for i := range list {
		if list[i].Source == source {
			list[i].N = max(0, list[i].N+by)
			return list
		}
	}
	switch {
	case by < 0:
		return list
	case source != OtherSources && len(list) >= maxBackings-1:
		return count(list, OtherSources, by)
	}
	return append(list, Backing{source, by})
}

func (s *Seen) validate() error {
	if s.Arm != ArmShown && s.Arm != ArmWithheld && s.Arm != ArmOpen {
		return fmt.Errorf("seen: arm %q is none of shown, withheld, open", s.Arm)
	}
	if s.Score < 0 || s.Score > MaxScore {
		return fmt.Errorf("seen: score %d is not from 0 to %d", s.Score, MaxScore)
	}
	return nil
}

// Vote is a judgement of a bullet by what came of one sample. Stored; append only.
type Vote string

// The votes.
const (
	Helpful Vote = "helpful"
	Harmful Vote = "harmful"
	Neutral Vote = "neutral"
)

// Valid reports whether it is one of the votes.
func (v Vote) Valid() bool { return v == Helpful || v == Harmful || v == Neutral }

// count adds to the counter of a vote.
func (b *Bullet) count(v Vote, by int) {
	switch v {
	case Helpful:
		b.Helpful = max(0, b.Helpful+by)
	case Harmful:
		b.Harmful = max(0, b.Harmful+by)
	case Neutral:
		b.Neutral = max(0, b.Neutral+by)
	}
}
