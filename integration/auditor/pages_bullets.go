package auditor

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// bullets is the list of the bullets of a playbook.
func (c *Console) bullets(p Page, book string, _ []string, q url.Values) {
	h := c.books[book]
	state := h.now()
	if at, err := strconv.Atoi(q.Get("at")); err == nil {
		state = h.states[at]
	}
	for _, id := range slices.Sorted(maps.Keys(state))[:min(50, len(state))] {
		b := state[id]
		if !b.matches(q) {
			continue
		}
		row := book + "/bullets/" + id + " | "
		if b.measured() {
			p.liftOf(row+"Lift, points", &b.Experiment, false)
			p.add(row+"Shown", float64(count(b.Experiment.Shown)))
			p.add(row+"Withheld", float64(count(b.Experiment.Withheld)))
		}
		p.add(row+"Helpful", float64(b.Helpful))
		p.add(row+"Harmful", float64(b.Harmful))
	}
}

// matches reports whether a bullet is in the list that the query selects.
func (b *record) matches(q url.Values) bool {
	state := q.Get("state")
	inState := state == "" || state == "shown" && b.inPrompts() || state == cmp.Or(b.Status, "active")
	hasWords := true
	for _, w := range strings.Fields(strings.ToLower(q.Get("q"))) {
		hasWords = hasWords && strings.Contains(strings.ToLower(b.Content), w)
	}
	return inState && hasWords && (q.Get("section") == "" || q.Get("section") == b.Section)
}

// liftOf adds the cell with the lift of a bullet.
func (p Page) liftOf(place string, t *trial, twice bool) {
	if count(t.Shown)*count(t.Withheld) == 0 {
		return
	}
	low, high := t.lift()
	all := []float64{100 * (mean(t.Shown) - mean(t.Withheld)), 100 * low, 100 * high}
	first := all
	if !twice {
		first = all[:1]
	}
	p[place] = append(p[place], Expected{Values: slices.Concat(first, all), Slack: 0.1}) // the product searches in steps of 0.1 points
}

// arm adds the number and the mean of the outcomes of an arm.
func (p Page) arm(place string, s [11]int) {
	if n := count(s); n > 0 {
		p.add(place, float64(n), mean(s))
		return
	}
	p.add(place, 0)
}

// bullet is the page of one bullet.
func (c *Console) bullet(p Page, book string, rest []string, _ url.Values) {
	id, h := rest[0], c.books[book]
	b, isCurrent := h.now()[id]
	if isCurrent {
		t := &b.Experiment
		if b.measured() {
			p.liftOf("Lift", t, true)
			p.arm("Shown at random", t.Shown)
			p.arm("Withheld", t.Withheld)
			p.arm("Cited", t.Cited)
			p["Next"] = append(p["Next"], Expected{Values: c.next(&b), Among: true})
		}
		p.add("Votes", ints(b.Helpful, b.Harmful, b.Neutral)...)
	}
	c.experiment(p, book, id)
	events, all := h.life(id)
	counts := map[string]int{}
	learned := map[string]int{}
	for _, x := range all {
		if x.forgotten {
			continue
		}
		counts[x.role]++
		if x.role == "learned" && x.Outcome != "" && x.Outcome != "unknown" {
			learned[x.Outcome]++
		}
	}
	var numbers []float64
	var words []string
	for _, label := range []string{"success", "partial", "failure"} {
		if n := learned[label]; n > 0 {
			numbers, words = append(numbers, float64(n)), append(words, "# × "+label)
		}
	}
	p.add("Learned from | The executions on which the text rests: "+strings.Join(words, ", ")+".", numbers...)
	if slices.ContainsFunc(all, func(x *behind) bool { return x.role == "helped" || x.role == "harmed" }) {
		p.add("Helped or harmed | Later executions in which the Reflector saw an effect of the bullet: it helped in # and harmed in #.", ints(counts["helped"], counts["harmed"])...)
	}
	if n := counts["none"]; n > 0 {
		p.add("No effect | # "+plural(n, "execution")+" had the bullet in the prompt without an effect", float64(n))
	}
	heading := map[string]string{"learned": "Learned from", "helped": "Helped", "harmed": "Harmed", "none": "No effect"}
	shown := map[string]int{}
	for _, x := range slices.Backward(all) {
		if shown[x.role]++; shown[x.role] > 10 {
			continue
		}
		row := heading[x.role] + " | " + x.Execution + " | "
		if c.runOf(x.Execution) != nil {
			row = heading[x.role] + " | " + book + "/executions/" + x.Execution + " | "
		} else if len(x.versions) > 0 {
			row = fmt.Sprintf("%s | %s/versions/%d | ", heading[x.role], book, x.versions[0])
		}
		p.add(row+"Outcome", x.Score)
		var versions []float64
		for _, v := range x.versions {
			versions = append(versions, float64(v))
		}
		p.add(row+"Version", versions...)
	}
	used := c.ofBook(book)
	used = slices.DeleteFunc(used, func(r *run) bool { return !r.shows(id) })
	p.executions("Newest executions with the bullet in the prompt | ", book, used[:min(10, len(used))])
	omitted := 0
	for _, e := range slices.Backward(events) {
		if e.counts {
			if omitted++; omitted > 10 {
				continue
			}
		}
		row := fmt.Sprintf("History | %s/versions/%d | ", book, e.version)
		p.add(row+"Version", float64(e.version))
		p.add(row+"Change", e.numbers...)
	}
	if omitted > 10 {
		p.add("History | # "+plural(omitted-10, "older change")+" of votes and outcomes are left out; lists all.", float64(omitted-10))
	}
}

// next returns the numbers that a sentence about the next decision on a bullet may have: those of its record, and the outcomes that are
// missing of 200.
func (c *Console) next(b *record) []float64 {
	t := &b.Experiment
	low, high := t.lift()
	n := count(t.Shown) + count(t.Withheld)
	return []float64{
		float64(max(0, 200-n)), float64(count(t.Cited)), mean(t.Cited), float64(count(t.Shown)), mean(t.Shown), float64(count(t.Withheld)), mean(t.Withheld),
		math.Round(100 * low), math.Round(100 * high), math.Round(100 * (mean(t.Shown) - mean(t.Withheld))),
	}
}

// experiment adds the table of the e-values of a bullet.
func (c *Console) experiment(p Page, book, id string) {
	h := c.books[book]
	type point struct {
		version uint64
		trial
	}
	var points []point
	for v := 1; v < len(h.states); v++ {
		b, ok := h.states[v][id]
		if ok && (len(points) == 0 || points[len(points)-1].trial != b.Experiment) {
			points = append(points, point{uint64(v), b.Experiment})
		}
	}
	if len(points) == 0 {
		return
	}
	last := points[len(points)-1]
	before := 0
	for _, x := range points {
		n := count(x.Shown) + count(x.Withheld)
		if x.Number != last.Number || n == before {
			continue
		}
		before = n
		for name, side := range map[string]float64{"helps": 1, "harms": -1} {
			place := "Experiment | evidence that it " + name + " | "
			p.add(place+"outcomes", float64(n))
			p.add(place+"Value", x.wealth(0, side), float64(n), float64(x.version))
		}
	}
}

// review is the list of bullets that wait.
func (c *Console) review(p Page, book string, _ []string, _ url.Values) {
	h := c.books[book]
	for id, b := range h.now() {
		if !b.waits() {
			continue
		}
		version := uint64(0)
		var supporters int
		for _, x := range h.changes {
			for i := range x.Ops {
				o := &x.Ops[i]
				status := o.Status
				if o.Whole != nil {
					status = o.Whole.Status
				}
				if o.Bullet == id && (status == "quarantined" || status == "candidate") {
					version = x.Version
					supporters += len(o.Support)
				}
			}
		}
		p.add("Waiting | "+book+"/bullets/"+id+" | · · · version #", float64(version))
		if supporters > 3 {
			p.add("Waiting | "+book+"/bullets/"+id+" | and # "+plural(supporters-3, "other execution"), float64(supporters-3))
		}
	}
}

// gate is the page of the gate.
func (c *Console) gate(p Page, book string, _ []string, _ url.Values) {
	h := c.books[book]
	tested, candidates := 0, 0
	for id, b := range h.now() {
		heading := "Experiments | "
		switch {
		case b.inPrompts():
			tested++
		case b.Status == "candidate":
			candidates++
			heading = "Candidates | "
		default:
			continue
		}
		row := heading + book + "/bullets/" + id + " | "
		p.liftOf(row+"Lift, points", &b.Experiment, false)
		for column, s := range map[string][11]int{"Mean shown": b.Experiment.Shown, "Mean withheld": b.Experiment.Withheld, "Mean cited": b.Experiment.Cited} {
			if n := count(s); n > 0 {
				p.add(row+column, mean(s), float64(n))
			}
		}
		if b.inPrompts() {
			p[row+"Next"] = []Expected{{Values: c.next(&b), Among: true}}
		}
	}
	p.add("Shown or on probation", float64(tested))
	p.add("Candidates", float64(candidates))
	p.add("Control share | A random #% of the sessions gets no advice. Their outcomes show whether the playbook as a whole helps.", c.controlShare(book)...)
	decided := map[string]*kept{}
	shown := map[string]bool{}
	for _, x := range h.changes {
		for i := range x.Ops {
			o := &x.Ops[i]
			if o.Kind != "ADD" && o.Kind != "PUT" && o.Kind != "STATUS" {
				continue
			}
			status := o.Status
			if o.Whole != nil {
				status = o.Whole.Status
			}
			again := status == "probation" && shown[o.Bullet]
			shown[o.Bullet] = status == "" || status == "active"
			delete(decided, o.Bullet)
			if x.Author == "curator" && (status == "retired" || again) {
				decided[o.Bullet] = &kept{version: x.Version, numbers: valuesOf(o.Reason)}
			}
		}
	}
	for id, d := range decided {
		p.add("Recent decisions | "+book+"/bullets/"+id+" | Version", float64(d.version))
		p.add("Recent decisions | "+book+"/bullets/"+id+" | Reason", d.numbers...)
	}
}
