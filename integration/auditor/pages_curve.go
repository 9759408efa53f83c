package auditor

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"time"
)

// cell has the sums of some executions.
type cell struct {
	executions, known, right, input, cached int
	cost                                    float64
}

func (x *cell) take(r *run) {
	x.executions++
	x.input, x.cached, x.cost = x.input+r.Usage.Input, x.cached+r.Usage.Cached, x.cost+r.Usage.Dollars
	if r.Outcome.label() != "" {
		x.known++
	}
	if r.Outcome.label() == "success" {
		x.right++
	}
}

// arms has the sums of all executions, of those with a context of the playbook, and of the other runs of agents.
type arms [3]cell

func (x *arms) take(r *run) {
	x[0].take(r)
	switch {
	case r.Context != "" || r.Built != nil:
		x[1].take(r)
	case r.fromAgent():
		x[2].take(r)
	}
}

// add adds the cells of a row of the curve.
func (x *arms) add(p Page, row string) {
	p.add(row+"Executions", float64(x[0].executions))
	for i, column := range []string{"All", "With the playbook", "Without it"} {
		p.add(row+column, share(x[i].right, x[i].known)...)
	}
	x[0].usage(p, row, "Cached")
}

func (x *cell) usage(p Page, row, cached string) {
	p.add(row+"Input tokens", float64(x.input))
	p.add(row+cached, 100*float64(x.cached)/max(1, float64(x.input)))
	if x.cost > 0 {
		p.add(row+"Cost", x.cost)
	}
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
		total.take(r)
		days[day].take(r)
		versions[r.Version].take(r)
	}
	p.add("Executions", float64(total[0].executions))
	for i, place := range []string{"Accuracy", "With the playbook", "Without the playbook"} {
		p.add(place, share(total[i].right, total[i].known)...)
	}
	total[0].usage(p, "", "Read from the provider's cache")
	for day, x := range days {
		x.add(p, "Days | "+day+" | ")
	}
	var marks [2][]measurement
	steps := 0
	for _, v := range slices.Sorted(maps.Keys(versions)) {
		x := versions[v]
		row := fmt.Sprintf("Versions | %d | ", v)
		if v == 0 {
			row = "Versions | none | "
		} else {
			p.add(row+"Version", float64(v))
		}
		x.add(p, row)
		steps += x[0].executions
		for arm := range marks {
			marks[arm] = append(marks[arm], measurement{steps, x[arm+1].known, x[arm+1].right, float64(v), 0})
		}
	}
	pooled(p, "with the playbook", "executions", marks[0], 20)
	pooled(p, "without the playbook", "executions", marks[1], 20)
	c.health(p, book)
}

// measurement are outcomes at a step of a curve.
type measurement struct {
	step, n, right int
	at             float64 // the step, as the page calls it
	group          int
}

// pooled adds the table of a series: neighbours are pooled until they have enough outcomes, or the group ends.
func pooled(p Page, series, axis string, all []measurement, enough int) {
	all = slices.DeleteFunc(all, func(m measurement) bool { return m.n == 0 })
	var sum measurement
	var from float64
	for i, m := range all {
		if sum.n == 0 {
			from = m.at
		}
		sum.n, sum.right = sum.n+m.n, sum.right+m.right
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
