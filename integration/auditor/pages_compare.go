package auditor

import (
	"math"
	"strings"
)

// compare is the comparison of the newest answers of two runs to the same samples of their test set.
func (c *Console) compare(p Page, name, with string) {
	if with == "" {
		newest := ""
		for other, s := range c.trains {
			if other != name && !strings.HasSuffix(other, ".report") && text(s, "started") > newest {
				newest, with = text(s, "started"), other
			}
		}
	}
	if c.trains[with] == nil {
		return
	}
	first, second := c.answers(name), c.answers(with)
	summary := func(run string, all map[string]*run) {
		known, right := 0, 0
		version := uint64(0)
		for _, r := range all {
			version = max(version, r.Version)
			if r.stored.label() != "" {
				known++
			}
			if r.stored.label() == "success" {
				right++
			}
		}
		p.add(run+" | Version", float64(version))
		p.add(run+" | Accuracy", share(right, known)...)
	}
	summary(name, first)
	summary(with, second)
	var both, wins, losses, neither int
	for sample, r := range first {
		o := second[sample]
		if o == nil || r.stored.label() == "" || o.stored.label() == "" {
			continue
		}
		switch a, b := r.stored.label() == "success", o.stored.label() == "success"; {
		case a && b:
			both++
		case a:
			wins++
		case b:
			losses++
		default:
			neither++
		}
	}
	n := both + wins + losses + neither
	if n == 0 {
		return
	}
	difference := float64(wins-losses) / float64(n)
	low, high := newcombe(both, wins, losses, neither)
	p.add("Difference", 100*difference, 100*low, 100*high)
	p.add("Pairs", float64(n))
	p.add("Only the first is right", float64(wins))
	p.add("Only the second is right", float64(losses))
	p.add("p-value, McNemar", mcnemar(wins, losses))
}

// answers returns the newest answer of a run to each sample of its test set.
func (c *Console) answers(name string) map[string]*run {
	all := map[string]*run{}
	for _, r := range c.runs {
		if sample, ok := strings.CutPrefix(r.Run, "test@"); ok && r.Book == name && r.Purpose == "evaluate" {
			_, sample, _ = strings.Cut(sample, "/")
			all[sample] = r
		}
	}
	return all
}

// newcombe returns the 95 % interval of a difference of paired rates: method 10 of Newcombe (1998).
func newcombe(both, wins, losses, neither int) (low, high float64) {
	n := both + wins + losses + neither
	a, b := share(both+wins, n), share(both+losses, n)
	product := float64(both+wins) * float64(losses+neither) * float64(both+losses) * float64(wins+neither)
	phi := 0.0
	if product > 0 {
		over := float64(both*neither - wins*losses)
		if over > 0 {
			over = max(0, over-float64(n)/2)
		}
		phi = over / math.Sqrt(product)
	}
	side := func(x, y float64) float64 { return math.Sqrt(max(0, x*x-2*phi*x*y+y*y)) / 100 }
	difference := (a[0] - b[0]) / 100
	return difference - side(a[0]-a[1], b[2]-b[0]), difference + side(a[2]-a[0], b[0]-b[1])
}

// mcnemar returns the two-sided p-value of McNemar's exact test.
func mcnemar(wins, losses int) float64 {
	n, sum, choose := wins+losses, 0.0, 1.0
	for k := range min(wins, losses) + 1 {
		sum += choose
		choose = choose * float64(n-k) / float64(k+1)
	}
	return min(1, 2*sum/math.Pow(2, float64(n)))
}
