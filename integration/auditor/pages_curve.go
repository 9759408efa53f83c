package auditor

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

// sums has the sums of some executions.
type sums struct {
	executions, known, right, input, cached int
	cost                                    float64
}

func (x *sums) count(r *run) {
	x.executions++
	x.input += r.Usage.Input
	x.cached += r.Usage.Cached
	x.cost += r.Usage.Dollars
	if r.Outcome.label() != "" {
		x.known++
	}
	if r.Outcome.label() == "success" {
		x.right++
	}
}

// arms has the sums of all executions, of those with a context of the playbook, and of the other runs of agents.
type arms struct{ all, with, without sums }

func (x *arms) count(r *run) {
	x.all.count(r)
	switch {
	case r.Context != "" || r.Built != nil:
		x.with.count(r)
	case r.fromAgent():
		x.without.count(r)
	}
}

// arms adds the cells of a row of the curve.
func (p Page) arms(row string, x *arms) {
	p.add(row+"Executions", float64(x.all.executions))
	p.accuracies([3]string{row + "All", row + "With the playbook", row + "Without it"}, x)
	p.usage(row, "Cached", &x.all)
}

// accuracies adds the accuracy of all executions, of those with the playbook and of those without it.
func (p Page) accuracies(places [3]string, x *arms) {
	for i, s := range []sums{x.all, x.with, x.without} {
		p.add(places[i], share(s.right, s.known)...)
	}
}

func (p Page) usage(row, cached string, x *sums) {
	p.add(row+"Input tokens", float64(x.input))
	p.add(row+cached, 100*float64(x.cached)/max(1, float64(x.input)))
	p.nonzero(row+"Cost", x.cost)
}

// curve is the page of the learning curve and the health.
func (c *Console) curve(p Page, book string, _ []string, _ url.Values) {
	var total arms
	days, versions := map[string]*arms{}, map[uint64]*arms{}
	for _, r := range c.ofBook(book) {
		day := r.Started.UTC().Format(time.DateOnly)
		if days[day] == nil {
			days[day] = new(arms)
		}
		if versions[r.Version] == nil {
			versions[r.Version] = new(arms)
		}
		total.count(r)
		days[day].count(r)
		versions[r.Version].count(r)
	}
	p.add("Executions", float64(total.all.executions))
	p.accuracies([3]string{"Accuracy", "With the playbook", "Without the playbook"}, &total)
	p.usage("", "Read from the provider's cache", &total.all)
	for day, x := range days {
		p.arms("Days | "+day+" | ", x)
	}
	var with, without []measurement
	steps := 0
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		x := versions[v]
		row := fmt.Sprintf("Versions | %d | ", v)
		if v == 0 {
			row = "Versions | none | "
		} else {
			p.add(row+"Version", float64(v))
		}
		p.arms(row, x)
		steps += x.all.executions
		with = append(with, measurement{step: steps, n: x.with.known, right: x.with.right, at: float64(v)})
		without = append(without, measurement{step: steps, n: x.without.known, right: x.without.right, at: float64(v)})
	}
	p.pooled("with the playbook", "executions", with, 20)
	p.pooled("without the playbook", "executions", without, 20)
	c.health(p, book)
}

// measurement has the outcomes at a step of a curve.
type measurement struct {
	step, n, right int
	at             float64 // the step, as the page calls it
	group          int     // the epoch of a training; 0 without epochs
}

// pooled adds the table of a series: neighbours are pooled until they have enough outcomes, or the group ends.
func (p Page) pooled(series, axis string, all []measurement, enough int) {
	all = slices.DeleteFunc(all, func(m measurement) bool { return m.n == 0 })
	var sum measurement
	var from float64
	for i, m := range all {
		if sum.n == 0 {
			from = m.at
		}
		sum.n += m.n
		sum.right += m.right
		if sum.n < enough && i+1 < len(all) && all[i+1].group == m.group {
			continue
		}
		s := share(sum.right, sum.n)
		values := []float64{s[0], float64(sum.right), float64(sum.n), 95, s[1], s[2]}
		if from != m.at {
			values = append(values, from)
		}
		p.add(series+" | "+axis, float64(m.step))
		p.add(series+" | Value", append(values, m.at)...)
		sum = measurement{}
	}
}

// health adds the numbers of the health of a playbook.
func (c *Console) health(p Page, book string) {
	h := c.books[book]
	days := h.days(c.now)
	x := days[len(days)-1]
	const heading = "Health | "
	shareOf := func(place string, part, of int) {
		if of > 0 {
			p.add(heading+place, 100*float64(part)/float64(of), float64(part), float64(of))
		} else {
			p.add(heading+place, 0, 0)
		}
	}
	shareOf("Ever cited", x.cited, x.active)
	shareOf("No effect", x.noEffect, x.injections)
	if x.bullets > 0 {
		p.add(heading+"Contribution", 100*x.estimate, 100*x.low, 100*x.high, float64(x.bullets), float64(x.shown), float64(x.withheld), 95)
	}
	p.add(heading+"Contradictions", float64(x.contradicted))
	p.add(heading+"Last confirmed", x.median, x.oldest, float64(x.stale), 30)
	if len(days) < 2 {
		return
	}
	first, _ := time.Parse(time.DateOnly, days[0].day)
	for _, d := range days {
		day, _ := time.Parse(time.DateOnly, d.day)
		add := func(series string, numbers ...int) {
			if numbers[1] == 0 {
				return
			}
			p.add(heading+series+" | days since "+days[0].day, day.Sub(first).Hours()/24)
			p.add(heading+series+" | Value", append(valuesOf(d.day), ints(numbers...)...)...)
		}
		add("ever cited", d.cited, d.active)
		add("no effect", d.noEffect, d.injections)
		add("not confirmed for 30 days", d.stale, d.active, 30)
	}
}
