package auditor

import (
	"time"
)

// The types of this file repeat those parts of the wire format of playbooks that the audit and the pages need.

// change is a delta with everything that a page says about it.
type change struct {
	Version   uint64     `msgpack:"v"`
	PrevSeq   uint64     `msgpack:"q"`
	PrevChain []byte     `msgpack:"x"`
	Covers    []support  `msgpack:"c"`
	Ops       []changeOp `msgpack:"o"`
	Refused   []struct {
		Op     changeOp `msgpack:"o"`
		Code   string   `msgpack:"c"`
		Reason string   `msgpack:"r"`
		Of     string   `msgpack:"b"`
	} `msgpack:"j"`
	Change string `msgpack:"g"`
	More   bool   `msgpack:"m"`
	Names  []struct {
		Name    string `msgpack:"n"`
		Version uint64 `msgpack:"v"`
	} `msgpack:"n"`
	Restores *uint64   `msgpack:"b"`
	Forgets  *selector `msgpack:"d"`
	Before   uint64    `msgpack:"h"`
	Erased   []any     `msgpack:"e"`
	Control  string    `msgpack:"cs"`
	Author   string    `msgpack:"a"`
	Reason   string    `msgpack:"r"`
	Time     time.Time `msgpack:"t"`
}

type selector struct {
	Source    string `msgpack:"o"`
	User      string `msgpack:"u"`
	Session   string `msgpack:"n"`
	Execution string `msgpack:"x"`
	Sample    string `msgpack:"i"`
}

// support names an event whose whole effect is in the delta, with its evidence.
type support struct {
	ID       string    `msgpack:"i"`
	Seq      uint64    `msgpack:"s"` // of the reflection or edit, in REFLECTIONS
	Evidence *evidence `msgpack:"e"`
}

type evidence struct {
	Execution string  `msgpack:"x"`
	Sample    string  `msgpack:"i"`
	User      string  `msgpack:"u"`
	Session   string  `msgpack:"n"`
	Source    string  `msgpack:"o"`
	Outcome   string  `msgpack:"l"`
	Score     float64 `msgpack:"s"`
}

type changeOp struct {
	Kind     string     `msgpack:"k"`
	Bullet   string     `msgpack:"b"`
	Section  string     `msgpack:"s"`
	When     string     `msgpack:"i"`
	Content  string     `msgpack:"c"`
	Status   string     `msgpack:"u"`
	Pinned   bool       `msgpack:"p"`
	Sources  []string   `msgpack:"z"`
	Whole    *record    `msgpack:"w"`
	Helpful  int        `msgpack:"h"`
	Harmful  int        `msgpack:"m"`
	Neutral  int        `msgpack:"n"`
	Was      string     `msgpack:"q"`
	Number   int        `msgpack:"e"`
	Seen     []exposure `msgpack:"v"`
	Standing string     `msgpack:"g"`
	Restart  bool       `msgpack:"j"`
	Replaces string     `msgpack:"x"`
	Contests string     `msgpack:"t"`
	Support  []int      `msgpack:"f"`
	Code     string     `msgpack:"d"`
	Reason   string     `msgpack:"r"`
}

// votes is the number of votes that the operation adds.
func (o *changeOp) votes() int { return o.Helpful + o.Harmful + o.Neutral }

// newStatus is the status that the operation sets.
func (o *changeOp) newStatus() string {
	if o.Whole != nil {
		return o.Whole.Status
	}
	return o.Status
}

// exposure is an outcome in an experiment.
type exposure struct {
	Arm   string `msgpack:"a"`
	Score int    `msgpack:"s"` // tenths
	Cited bool   `msgpack:"c"`
	Undo  bool   `msgpack:"u"`
}

// record is a bullet with its experiment.
type record struct {
	ID         string     `msgpack:"id"`
	Section    string     `msgpack:"section"`
	When       string     `msgpack:"when"`
	Content    string     `msgpack:"content"`
	Helpful    int        `msgpack:"helpful"`
	Harmful    int        `msgpack:"harmful"`
	Neutral    int        `msgpack:"neutral"`
	Status     string     `msgpack:"status"`
	Pinned     bool       `msgpack:"pinned"`
	Experiment experiment `msgpack:"experiment"`
	Contests   string     `msgpack:"contests"`
	Inferred   bool       `msgpack:"only_inferred"`
	Created    time.Time  `msgpack:"created"`
}

// experiment is the experiment of a bullet: the numbers of outcomes of each arm, by score in tenths.
type experiment struct {
	Number   int     `msgpack:"n"`
	Standing string  `msgpack:"g"`
	Shown    [11]int `msgpack:"s"`
	Withheld [11]int `msgpack:"w"`
	Cited    [11]int `msgpack:"o"`
}

// stated returns the fields that a version states, without those that follow from outcomes and from other bullets.
func (b record) stated() record {
	b.Experiment = experiment{}
	b.Contests = ""
	b.Inferred = false
	b.Created = time.Time{}
	if b.active() {
		b.Status = "active"
	}
	return b
}

func (b *record) active() bool { return b.Status == "" || b.Status == "active" }

func (b *record) inPrompts() bool { return b.active() || b.Status == "probation" }

func (b *record) measured() bool { return b.inPrompts() || b.Status == "candidate" }

// waits reports whether the bullet waits for a person.
func (b *record) waits() bool {
	return b.Status == "quarantined" || b.Status == "candidate" && b.Inferred
}

// count returns the number of outcomes.
func count(s [11]int) (n int) {
	for _, c := range s {
		n += c
	}
	return n
}

// mean returns the mean score, 0 without outcomes.
func mean(s [11]int) float64 {
	sum := 0
	for score, c := range s {
		sum += score * c
	}
	return float64(sum) / 10 / max(1, float64(count(s)))
}

// add counts an exposure, or takes it back.
func (e *experiment) add(x exposure) {
	by := 1
	if x.Undo {
		by = -1
	}
	switch x.Arm {
	case "shown":
		e.Shown[x.Score] = max(0, e.Shown[x.Score]+by)
	case "withheld":
		e.Withheld[x.Score] = max(0, e.Withheld[x.Score]+by)
	}
	if x.Cited {
		e.Cited[x.Score] = max(0, e.Cited[x.Score]+by)
	}
}
