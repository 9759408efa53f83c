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
			p.lift(row+"Lift, points", &b.Experiment, false)
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

// lift adds the lift of a bullet: in the text, and with its interval in the chart. The text may have the interval, too.
func (p Page) lift(place string, e *experiment, textHasInterval bool) {
	if count(e.Shown)*count(e.Withheld) == 0 {
		return
	}
	low, high := e.lift()
	chart := []float64{100 * (mean(e.Shown) - mean(e.Withheld)), 100 * low, 100 * high}
	text := chart[:1]
	if textHasInterval {
		text = chart
	}
	p[place] = append(p[place], Expected{Values: slices.Concat(text, chart), Slack: 0.1}) // the product searches in steps of 0.1 points
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
	if b, isCurrent := h.now()[id]; isCurrent {
		e := &b.Experiment
		if b.measured() {
			p.lift("Lift", e, true)
			p.arm("Shown at random", e.Shown)
			p.arm("Withheld", e.Withheld)
			p.arm("Cited", e.Cited)
			p["Next"] = append(p["Next"], Expected{Values: e.nextNumbers(), Among: true})
		}
		p.add("Votes", ints(b.Helpful, b.Harmful, b.Neutral)...)
	}
	c.experiment(p, book, id)
	events, sources := h.life(id)
	p.sourceCounts(sources)
	c.sources(p, book, sources)
	used := slices.DeleteFunc(c.ofBook(book), func(r *run) bool { return !r.shows(id) })
	p.executions("Newest executions with the bullet in the prompt | ", book, used[:min(10, len(used))])
	onlyCounts := 0
	for _, e := range slices.Backward(events) {
		if e.onlyCounts {
			if onlyCounts++; onlyCounts > 10 {
				continue
			}
		}
		row := fmt.Sprintf("History | %s/versions/%d | ", book, e.version)
		p.add(row+"Version", float64(e.version))
		p.add(row+"Change", e.numbers...)
	}
	p.counted("History | ", onlyCounts-10, "older change", " of votes and outcomes are left out; lists all.")
}

// sourceCounts adds the numbers of the executions behind a bullet.
func (p Page) sourceCounts(all []*sourceRun) {
	roles, learned := map[string]int{}, map[string]int{} // by role; those with the role learned by outcome
	for _, x := range all {
		if x.forgotten {
			continue
		}
		roles[x.role]++
		if x.role == "learned" {
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
	if slices.ContainsFunc(all, func(x *sourceRun) bool { return x.role == "helped" || x.role == "harmed" }) {
		p.add("Helped or harmed | Later executions in which the Reflector saw an effect of the bullet: it helped in # and harmed in #.", ints(roles["helped"], roles["harmed"])...)
	}
	p.counted("No effect | ", roles["none"], "execution", " had the bullet in the prompt without an effect")
}

// sources adds the rows of the executions behind a bullet: the newest ten of each role.
func (c *Console) sources(p Page, book string, all []*sourceRun) {
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
}

// nextNumbers returns the numbers that a sentence about the next decision on a bullet may have: those of its experiment, and the outcomes
// that are missing of 200.
func (e *experiment) nextNumbers() []float64 {
	low, high := e.lift()
	shown, withheld := count(e.Shown), count(e.Withheld)
	return []float64{
		float64(max(0, 200-shown-withheld)), float64(count(e.Cited)), mean(e.Cited), float64(shown), mean(e.Shown), float64(withheld), mean(e.Withheld),
		math.Round(100 * low), math.Round(100 * high), math.Round(100 * (mean(e.Shown) - mean(e.Withheld))),
	}
}

// experiment adds the table of the e-values of a bullet.
func (c *Console) experiment(p Page, book, id string) {
	h := c.books[book]
	type point struct {
		version uint64
		experiment
	}
	var points []point
	for v := 1; v < len(h.states); v++ {
		b, ok := h.states[v][id]
		if ok && (len(points) == 0 || points[len(points)-1].experiment != b.Experiment) {
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
		version, supporters := uint64(0), 0
		for _, x := range h.changes {
			for i := range x.Ops {
				o := &x.Ops[i]
				if status := o.newStatus(); o.Bullet == id && (status == "quarantined" || status == "candidate") {
					version = x.Version
					supporters += len(o.Support)
				}
			}
		}
		p.add("Waiting | "+book+"/bullets/"+id+" | · · · version #", float64(version))
		p.counted("Waiting | "+book+"/bullets/"+id+" | and ", supporters-3, "other execution", "")
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
		p.lift(row+"Lift, points", &b.Experiment, false)
		for column, s := range map[string][11]int{"Mean shown": b.Experiment.Shown, "Mean withheld": b.Experiment.Withheld, "Mean cited": b.Experiment.Cited} {
			if n := count(s); n > 0 {
				p.add(row+column, mean(s), float64(n))
			}
		}
		if b.inPrompts() {
			p[row+"Next"] = []Expected{{Values: b.Experiment.nextNumbers(), Among: true}}
		}
	}
	p.add("Shown or on probation", float64(tested))
	p.add("Candidates", float64(candidates))
	p.add("Control share | A random #% of the sessions gets no advice. Their outcomes show whether the playbook as a whole helps.", c.controlShare(book)...)
	c.decisions(p, book)
}

// decisions adds the last decision of the Curator on each bullet that it retired, or put on probation again.
func (c *Console) decisions(p Page, book string) {
	decided := map[string]lifeEvent{}
	shown := map[string]bool{}
	for _, x := range c.books[book].changes {
		for i := range x.Ops {
			o := &x.Ops[i]
			if o.Kind != "ADD" && o.Kind != "PUT" && o.Kind != "STATUS" {
				continue
			}
			status := o.newStatus()
			isSuspended := status == "probation" && shown[o.Bullet]
			shown[o.Bullet] = status == "" || status == "active"
			delete(decided, o.Bullet)
			if x.Author == "curator" && (status == "retired" || isSuspended) {
				decided[o.Bullet] = lifeEvent{version: x.Version, numbers: valuesOf(o.Reason)}
			}
		}
	}
	for id, d := range decided {
		row := "Recent decisions | " + book + "/bullets/" + id + " | "
		p.add(row+"Version", float64(d.version))
		p.add(row+"Reason", d.numbers...)
	}
}
