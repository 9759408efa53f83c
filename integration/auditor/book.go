package auditor

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The types below repeat those parts of the wire format of playbooks that the audit and the pages need.

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

// history is the log of a playbook: its deltas, and the bullets after each.
type history struct {
	changes   []*change
	states    []map[string]record    // by version
	confirmed []map[string]time.Time // by version: the last confirmation of each bullet
}

func newHistory() *history {
	return &history{states: []map[string]record{{}}, confirmed: []map[string]time.Time{{}}}
}

// now returns the bullets after the last delta.
func (h *history) now() map[string]record { return h.states[len(h.states)-1] }

// read applies the next delta, unless it is outside of the log. A large change has several deltas and takes effect with the last of them.
func (h *history) read(m Message) error {
	c, err := decode[change](m.Data)
	if err != nil || c.Version != uint64(len(h.changes))+1 {
		return err
	}
	h.changes = append(h.changes, c)
	state, confirmed := maps.Clone(h.now()), maps.Clone(h.confirmed[len(h.confirmed)-1])
	if !c.More {
		for _, part := range h.parts(c) {
			for i := range part.Ops {
				confirm(confirmed, h.now(), &part.Ops[i], c.Time)
				apply(state, &part.Ops[i], part.Time)
			}
		}
	}
	h.states, h.confirmed = append(h.states, state), append(h.confirmed, confirmed)
	return nil
}

// parts returns the deltas of the change that ends with c.
func (h *history) parts(c *change) []*change {
	first := c.Version
	for c.Change != "" && first > 1 && h.changes[first-2].More && h.changes[first-2].Change == c.Change {
		first--
	}
	return h.changes[first-1 : c.Version]
}

// apply applies an operation to the bullets.
func apply(state map[string]record, o *changeOp, at time.Time) {
	b, known := state[o.Bullet]
	switch {
	case o.Kind == "ADD":
		b = record{ID: o.Bullet, Section: o.Section, When: o.When, Content: o.Content, Status: o.Status, Contests: o.Contests, Created: at}
		if o.Standing != "" {
			b.Experiment = trial{Number: 1, Standing: o.Standing}
		}
	case o.Kind == "PUT":
		b = *o.Whole
	case !known:
		return
	}
	switch o.Kind {
	case "REMOVE":
		delete(state, o.Bullet)
		return
	case "UPDATE", "MERGE":
		if o.Content != b.Content {
			b.Experiment = trial{Number: b.Experiment.Number + 1, Standing: o.Standing}
		}
		b.When, b.Content = o.When, o.Content
		if o.Kind == "UPDATE" && o.Section != "" {
			b.Section = o.Section
		}
		for _, id := range slices.Compact(slices.Sorted(slices.Values(o.Sources))) {
			if src, ok := state[id]; ok && id != b.ID {
				b.Helpful, b.Harmful, b.Neutral, b.Pinned = b.Helpful+src.Helpful, b.Harmful+src.Harmful, b.Neutral+src.Neutral, b.Pinned || src.Pinned
				delete(state, id)
			}
		}
	case "STATUS":
		b.Status = o.Status
		switch {
		case o.Restart:
			b.Experiment = trial{Number: b.Experiment.Number + 1, Standing: o.Standing}
		case o.Standing != "":
			b.Experiment.Standing = o.Standing
		}
	case "PIN":
		b.Pinned = o.Pinned
	case "TAG", "RETAG":
		for vote, n := range map[string]*int{"helpful": &b.Helpful, "harmful": &b.Harmful, "neutral": &b.Neutral} {
			if o.Was == vote {
				*n -= len(o.Support)
			}
		}
		b.Helpful, b.Harmful, b.Neutral = b.Helpful+o.Helpful, b.Harmful+o.Harmful, b.Neutral+o.Neutral
	case "EXPOSURES":
		if o.Number == b.Experiment.Number {
			for _, x := range o.Seen {
				b.Experiment.see(x)
			}
		}
	}
	state[o.Bullet] = b
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

// confirm notes the time of an operation that confirms its bullet. before are the bullets before the change.
func confirm(confirmed map[string]time.Time, before map[string]record, o *changeOp, at time.Time) {
	confirms := false
	switch o.Kind {
	case "ADD", "UPDATE", "CONFIRM":
		confirms = true
	case "PUT":
		_, known := confirmed[o.Bullet]
		confirms = !known
	case "TAG", "RETAG":
		confirms = o.Helpful > 0
	case "PIN":
		confirms = o.Pinned
	case "STATUS":
		confirms = o.Code == "person" && (o.Status == "" || o.Status == "active")
	case "EXPOSURES":
		b, known := before[o.Bullet]
		good := slices.ContainsFunc(o.Seen, func(x seen) bool { return x.Cited && !x.Undo && x.Score >= 5 })
		confirms = good && (!known || b.Experiment.Number == o.Number)
	case "REMOVE":
		delete(confirmed, o.Bullet)
	case "MERGE":
		for _, id := range o.Sources {
			if id == o.Bullet {
				continue
			}
			if t := confirmed[id]; t.After(confirmed[o.Bullet]) {
				confirmed[o.Bullet] = t
			}
			delete(confirmed, id)
		}
	}
	if confirms {
		confirmed[o.Bullet] = at
	}
}

// health is the health of a playbook at a time.
type health struct {
	day                                               string
	active, cited, injections, noEffect, contradicted int
	stale                                             int
	median, oldest                                    float64 // days
	bullets, shown, withheld                          int     // of the contribution; no bullets: not measured
	estimate, low, high                               float64
}

// health returns the health after a version, at a time.
func (h *history) health(version int, at time.Time) health {
	state := h.states[version]
	var x health
	var ages []float64
	var weights, sum, variance float64
	for id, b := range state {
		if with, ok := state[b.Contests]; ok && with.active() && b.Status != "retired" {
			x.contradicted++
		}
		if !b.active() {
			continue
		}
		x.active++
		if b.Helpful+b.Harmful+count(b.Experiment.Cited) > 0 {
			x.cited++
		}
		x.injections, x.noEffect = x.injections+b.Helpful+b.Harmful+b.Neutral, x.noEffect+b.Neutral
		last, known := h.confirmed[version][id]
		if !known {
			last = b.Created
		}
		age := max(0, at.Sub(last).Hours()/24)
		ages = append(ages, age)
		if age > 30 {
			x.stale++
		}
		n, m := float64(count(b.Experiment.Shown)), float64(count(b.Experiment.Withheld))
		if n*m == 0 {
			continue
		}
		w := 1 / (1/n + 1/m)
		x.bullets, x.shown, x.withheld = x.bullets+1, x.shown+int(n), x.withheld+int(m)
		weights += w
		sum += w * (mean(b.Experiment.Shown) - mean(b.Experiment.Withheld))
		variance += w * w * (variance2(b.Experiment.Shown)/n + variance2(b.Experiment.Withheld)/m)
	}
	slices.Sort(ages)
	if n := len(ages); n > 0 {
		x.median, x.oldest = (ages[(n-1)/2]+ages[n/2])/2, ages[n-1]
	}
	if x.bullets > 0 {
		half := 1.959964 * math.Sqrt(variance) / weights
		x.estimate, x.low, x.high = sum/weights, max(-1, sum/weights-half), min(1, sum/weights+half)
	}
	return x
}

// variance2 is the variance of scores with one worst and one best score more.
func variance2(s [11]int) float64 {
	s[0]++
	s[10]++
	m, sum := mean(s), 0.0
	for score, n := range s {
		sum += float64(n) * math.Pow(float64(score)/10-m, 2)
	}
	return sum / float64(count(s))
}

// days returns the health at the end of each day with a change, oldest first. The last day ends now.
func (h *history) days(now time.Time) (all []health) {
	last := time.Time{}
	for i, c := range h.changes {
		if c.Time.After(last) {
			last = c.Time
		}
		isLast := i+1 == len(h.changes)
		end := last.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
		if !isLast && h.changes[i+1].Time.Before(end) {
			continue
		}
		if isLast && now.Before(end) {
			end = now
		}
		x := h.health(i+1, end)
		x.day = last.UTC().Format(time.DateOnly)
		all = append(all, x)
	}
	return all
}

// lift returns the limits of the difference of the means of both random arms. It searches each limit in steps of a thousandth.
func (t *trial) lift() (low, high float64) {
	low, high = -1, 1
	for d := -1.0; d < 1; d += 0.001 {
		if t.wealth(d, 1) >= 20 {
			low = d
		}
	}
	for d := 1.0; d > -1; d -= 0.001 {
		if t.wealth(d, -1) >= 20 {
			high = d
		}
	}
	if low > high {
		return -1, 1
	}
	return low, high
}

// wealth is the mean wealth of 25 bets against the hypothesis that the lift is at most d (side 1) or at least d (side -1). Each outcome y of
// an arm is a bet on z = ±2·(y-m), whose mean is the lift if both arms are equally likely.
func (t *trial) wealth(d, side float64) float64 {
	total := 0.0
	for _, m := range []float64{0.05, 0.25, 0.5, 0.75, 0.95} {
		largest := 2 * max(m, 1-m)
		for _, part := range []float64{0.8, 0.4, 0.2, 0.1, 0.05} {
			log := 0.0
			for arm, scores := range [][11]int{t.Shown, t.Withheld} {
				for score, n := range scores {
					if n > 0 {
						z := 2 * (float64(score)/10 - m) * float64(1-2*arm)
						log += float64(n) * math.Log1p(part*side*(z-d)/max(1e-9, largest+side*d))
					}
				}
			}
			total += math.Exp(log) / 25
		}
	}
	return total
}

// behind is an execution behind a bullet.
type behind struct {
	evidence
	role      string // learned, helped, harmed or none
	versions  []uint64
	forgotten bool
}

// kept is an event of the life of a bullet.
type kept struct {
	version uint64
	counts  bool // it only changes votes or outcomes
	numbers []float64
}

// life returns the events of a bullet and of those merged into it, oldest first, and the executions behind them.
func (h *history) life(id string) (events []kept, all []*behind) {
	family := map[string]uint64{id: math.MaxUint64} // with the version of the merge
	for _, c := range slices.Backward(h.changes) {
		for _, o := range slices.Backward(c.Ops) {
			if until, ok := family[o.Bullet]; ok && o.Kind == "MERGE" && c.Version <= until {
				for _, source := range o.Sources {
					if _, ok := family[source]; !ok {
						family[source] = c.Version
					}
				}
			}
		}
	}
	byExecution := map[string]*behind{}
	for _, last := range h.changes {
		if last.More {
			continue
		}
		for _, part := range h.parts(last) {
			for i := range part.Ops {
				o := &part.Ops[i]
				until, ok := family[o.Bullet]
				if _, had := h.states[last.Version-1][id]; !ok && had && o.Kind == "MERGE" && slices.Contains(o.Sources, id) { // the end of the bullet
					events = append(events, kept{version: last.Version, numbers: sentence(o, last)})
				}
				if !ok || last.Version > until || !h.changed(last.Version, o) {
					continue
				}
				counts := o.Kind == "TAG" || o.Kind == "RETAG" || o.Kind == "EXPOSURES" || o.Kind == "CONFIRM"
				events = append(events, kept{last.Version, counts, sentence(o, last)})
				if o.Kind == "EXPOSURES" {
					continue
				}
				for _, k := range o.Support {
					e := last.Covers[k].Evidence
					if e == nil {
						continue
					}
					b := byExecution[e.Execution]
					if b == nil {
						b = &behind{role: "none", forgotten: true}
						byExecution[e.Execution] = b
						all = append(all, b)
					}
					b.evidence = *e
					b.forgotten = b.forgotten && h.forgets(last.Version, e)
					b.plays(o)
					if !slices.Contains(b.versions, last.Version) {
						b.versions = append(b.versions, last.Version)
					}
				}
			}
		}
		for _, part := range h.parts(last) {
			for i := range part.Refused {
				if until, ok := family[part.Refused[i].Of]; ok && last.Version <= until {
					events = append(events, kept{version: last.Version, numbers: valuesOf(cmp.Or(part.Refused[i].Reason, last.Reason))})
				}
			}
		}
	}
	return events, all
}

// changed reports whether an operation had an effect: outcomes of an earlier wording have none.
func (h *history) changed(version uint64, o *changeOp) bool {
	before := h.states[version-1][o.Bullet]
	return o.Kind != "EXPOSURES" || before.Experiment.Number == o.Number
}

// plays sets the role of an execution that supports an operation. One that taught the text stays with that role.
func (b *behind) plays(o *changeOp) {
	if b.role == "learned" {
		return
	}
	switch {
	case o.Kind == "TAG" || o.Kind == "RETAG":
		b.role = "none"
		if o.Helpful > 0 {
			b.role = "helped"
		} else if o.Harmful > 0 {
			b.role = "harmed"
		}
	case o.Kind == "REMOVE":
		b.role = "harmed"
	case o.Kind != "STATUS" && o.Kind != "PIN":
		b.role = "learned"
	}
}

// forgets reports whether a later change forgot an execution that a version learned from.
func (h *history) forgets(version uint64, e *evidence) bool {
	for _, c := range h.changes {
		f := c.Forgets
		if f == nil {
			continue
		}
		matches := f.Source != "" && (f.Source == e.Source || strings.HasPrefix(e.Source, f.Source+"/")) || f.User != "" && f.User == e.User ||
			f.Session != "" && f.Session == e.Session || f.Execution != "" && f.Execution == e.Execution || f.Sample != "" && f.Sample == e.Sample
		if matches && (f.Execution != "" || f.Sample != "" || version < c.Version) {
			return true
		}
	}
	return false
}

// sentence returns the numbers of the sentence about an operation, without quoted texts.
func sentence(o *changeOp, c *change) (n []float64) {
	switch o.Kind {
	case "MERGE":
		for _, id := range o.Sources {
			n = append(n, valuesOf(id)...)
		}
	case "CONFIRM":
		n = append(n, float64(len(o.Support)))
	case "TAG":
		n = append(n, float64(o.votes()))
	case "RETAG":
		if len(o.Support) > 1 {
			n = append(n, float64(len(o.Support)))
		}
	case "EXPOSURES":
		n = outcomes(o.Seen)
	}
	if c.Restores != nil {
		n = append(n, float64(*c.Restores))
	}
	return append(n, valuesOf(cmp.Or(o.Reason, c.Reason))...)
}

// outcomes returns the number and the mean of the outcomes of each arm, and the number of those taken back.
func outcomes(all []seen) (n []float64) {
	undone := 0
	for _, arm := range []string{"shown", "withheld", "open"} {
		count, sum := 0, 0
		for _, x := range all {
			switch {
			case x.Arm != arm:
			case x.Undo:
				count, sum, undone = count-1, sum-x.Score, undone+1
			default:
				count, sum = count+1, sum+x.Score
			}
		}
		if count > 0 {
			n = append(n, float64(count), float64(sum)/10/float64(count))
		}
	}
	if undone > 0 {
		n = append(n, float64(undone))
	}
	return n
}

// summary returns the numbers of the sentence about a delta, without the names and reasons that are quoted.
func (c *change) summary() (n []float64) {
	for _, name := range c.Names {
		n = append(n, float64(name.Version))
	}
	if c.Restores != nil {
		n = append(n, float64(*c.Restores))
	}
	if len(c.Erased) > 0 {
		n = append(n, float64(len(c.Erased)))
	}
	n = append(n, valuesOf(c.Control)...)
	for _, kind := range []string{"ADD", "PUT", "UPDATE", "MERGE", "REMOVE", "STATUS", "PIN", "CONFIRM", "TAG", "RETAG", "EXPOSURES"} {
		sum := 0
		for i := range c.Ops {
			o := &c.Ops[i]
			switch {
			case o.Kind != kind:
			case kind == "TAG":
				sum += o.votes()
			case kind == "RETAG":
				sum += len(o.Support)
			case kind == "EXPOSURES":
				sum += len(o.Seen)
			default:
				sum++
			}
		}
		if sum > 0 {
			n = append(n, float64(sum))
		}
	}
	if len(c.Refused) > 0 {
		n = append(n, float64(len(c.Refused)))
	}
	return n
}

// reflections is the number of reflections that a delta covers.
func (c *change) reflections() (n int) {
	for _, s := range c.Covers {
		if s.Evidence != nil && !c.More {
			n++
		}
	}
	return n
}

// changesBullets reports whether a delta changes more than votes and outcomes, or is by a person.
func (c *change) changesBullets() bool {
	return c.Author != "curator" || slices.ContainsFunc(c.Ops, func(o changeOp) bool {
		return o.Kind != "TAG" && o.Kind != "RETAG" && o.Kind != "EXPOSURES" && o.Kind != "CONFIRM"
	})
}

// differ counts the bullets that differ between two versions.
func (h *history) differ(from, to int) (n int) {
	was, is := h.states[from], h.states[to]
	for id, b := range was {
		now, ok := is[id]
		if !ok || now.stated() != b.stated() {
			n++
		}
	}
	for id := range is {
		if _, ok := was[id]; !ok {
			n++
		}
	}
	return n
}
