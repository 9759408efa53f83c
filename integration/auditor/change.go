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
	Kind     string   `msgpack:"k"`
	Bullet   string   `msgpack:"b"`
	Section  string   `msgpack:"s"`
	When     string   `msgpack:"i"`
	Content  string   `msgpack:"c"`
	Status   string   `msgpack:"u"`
	Pinned   bool     `msgpack:"p"`
	Sources  []string `msgpack:"z"`
	Whole    *record  `msgpack:"w"`
	Helpful  int      `msgpack:"h"`
	Harmful  int      `msgpack:"m"`
	Neutral  int      `msgpack:"n"`
	Was      string   `msgpack:"q"`
	Number   int      `msgpack:"e"`
	Seen     []seen   `msgpack:"v"`
	Standing string   `msgpack:"g"`
	Restart  bool     `msgpack:"j"`
	Replaces string   `msgpack:"x"`
	Contests string   `msgpack:"t"`
	Support  []int    `msgpack:"f"`
	Code     string   `msgpack:"d"`
	Reason   string   `msgpack:"r"`
}

// votes is the number of votes that the operation adds.
func (o *changeOp) votes() int { return o.Helpful + o.Harmful + o.Neutral }

// seen is an outcome in an experiment.
type seen struct {
	Arm   string `msgpack:"a"`
	Score int    `msgpack:"s"` // tenths
	Cited bool   `msgpack:"c"`
	Undo  bool   `msgpack:"u"`
}

// record is a bullet with its experiment.
type record struct {
	ID         string    `msgpack:"id"`
	Section    string    `msgpack:"section"`
	When       string    `msgpack:"when"`
	Content    string    `msgpack:"content"`
	Helpful    int       `msgpack:"helpful"`
	Harmful    int       `msgpack:"harmful"`
	Neutral    int       `msgpack:"neutral"`
	Status     string    `msgpack:"status"`
	Pinned     bool      `msgpack:"pinned"`
	Experiment trial     `msgpack:"experiment"`
	Contests   string    `msgpack:"contests"`
	Inferred   bool      `msgpack:"only_inferred"`
	Created    time.Time `msgpack:"created"`
}

// trial is the experiment of a bullet: the number of outcomes by score in tenths.
type trial struct {
	Number   int     `msgpack:"n"`
	Standing string  `msgpack:"g"`
	Shown    [11]int `msgpack:"s"`
	Withheld [11]int `msgpack:"w"`
	Cited    [11]int `msgpack:"o"`
}

// stated returns the fields of a bullet that a version states, without its experiment and what follows from other bullets.
func (b record) stated() record {
	b.Experiment, b.Contests, b.Inferred, b.Created = trial{}, "", false, time.Time{}
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

// count and mean of scores in tenths.
func count(s [11]int) (n int) {
	for _, c := range s {
		n += c
	}
	return n
}

func mean(s [11]int) float64 {
	sum := 0
	for score, c := range s {
		sum += score * c
	}
	return float64(sum) / 10 / max(1, float64(count(s)))
}

func (t *trial) see(x seen) {
	by := 1
	if x.Undo {
		by = -1
	}
	switch x.Arm {
	case "shown":
		t.Shown[x.Score] = max(0, t.Shown[x.Score]+by)
	case "withheld":
		t.Withheld[x.Score] = max(0, t.Withheld[x.Score]+by)
	}
	if x.Cited {
		t.Cited[x.Score] = max(0, t.Cited[x.Score]+by)
	}
}
