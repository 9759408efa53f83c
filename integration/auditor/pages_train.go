package auditor

import (
	"fmt"
	"math"
	"net/url"
	"strings"
)

// at returns a part of decoded JSON, nil if it is missing.
func at(v any, names ...string) any {
	for _, name := range names {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

func number(v any, names ...string) float64 {
	x, _ := at(v, names...).(float64)
	return x
}

func text(v any, names ...string) string {
	x, _ := at(v, names...).(string)
	return x
}

func list(v any, names ...string) []any {
	x, _ := at(v, names...).([]any)
	return x
}

// trainPages are the pages of the runs of train. Their states and reports are those that train has stored. Type Page
// describes the places of the numbers.
func (c *Console) trainPages(p Page, rest []string, q url.Values) {
	if len(rest) == 0 {
		for name, s := range c.trains {
			if strings.HasSuffix(name, ".report") {
				continue
			}
			row := "runs/" + name + " | "
			p.add(row+"Epoch", number(s, "epoch"))
			p.add(row+"Step", number(s, "step"))
			p.add(row+"Time", period(number(s, "seconds"))...)
			p.add(row+"Playbook", number(s, "playbook_version"))
		}
		return
	}
	name := rest[0]
	if len(rest) > 1 {
		c.compare(p, name, q.Get("with"))
		return
	}
	s, r := c.trains[name], c.trains[name+".report"]
	p.add("Epoch", number(s, "epoch"))
	p.add("Step", number(s, "step"))
	p.add("Working time", period(number(s, "seconds"))...)
	p.add("Resumed", number(s, "resumed"))
	p.add("Playbook", number(s, "playbook_version"))
	for _, d := range list(s, "data") {
		p.add("Data | "+text(d, "set")+" | Samples", number(d, "samples"))
		p.add("Data | "+text(d, "set")+" | Unread lines", number(d, "invalid_lines"))
	}
	if r != nil {
		c.report(p, r)
	}
}

// score adds an accuracy with its interval and its number.
func (p Page) score(place string, s any) {
	p.add(place, share(int(number(s, "right")), int(number(s, "n")))...)
}

// report is the report of a run of train.
func (c *Console) report(p Page, r any) {
	before := at(r, "before")
	after := at(r, "after")
	paired := at(r, "paired")
	if before != nil && after != nil {
		p.add("# % → # %", 100*number(before, "right")/number(before, "n"), 100*number(after, "right")/number(after, "n"))
	}
	if paired != nil {
		p.add("headline", 100*number(paired, "difference"), 95, 100*number(paired, "low"), 100*number(paired, "high"), number(paired, "n"), number(paired, "wins"), number(paired, "losses"), number(paired, "p"))
	}
	if mean := number(before, "mean"); mean != 0 && paired != nil {
		p.add("Some answers are partly right: the mean score was # before and is # now.", mean, number(after, "mean"))
	}
	p.counted("", len(list(r, "losses")), "sample", " lost, listed below.")
	p.learningCurve(r)
	p.epochs(r)
	p.answers(r)
	p.bullets(r)
	if a := at(r, "against"); a != nil {
		p.comparison(a)
	}
	for _, group := range []string{"operations", "rejected"} {
		m, _ := at(r, group).(map[string]any)
		for kind := range m {
			p.add("Operations of the Curator | "+kind, number(m, kind))
		}
	}
	for _, l := range list(r, "losses") {
		p.add("Losses | "+text(l, "set")+" | Epoch", number(l, "epoch"))
	}
	c.costs(p, r)
}

// learningCurve adds the tables of the accuracy by the number of samples.
func (p Page) learningCurve(r any) {
	series := map[string][]measurement{}
	samples := 0
	for _, x := range list(r, "points") {
		m := measurement{step: int(number(x, "step")), n: int(number(x, "score", "n")), right: int(number(x, "score", "right")), at: number(x, "step"), group: int(number(x, "epoch"))}
		series[text(x, "set")] = append(series[text(x, "set")], m)
		if text(x, "set") == "train" {
			samples += m.n
		}
	}
	for set, name := range map[string]string{"train": "training", "validation": "validation", "test": "test"} {
		enough := 1
		if set == "train" {
			enough = max(20, samples/200)
			p.add("Learning curve | marks", 95, float64(enough))
		}
		p.pooled("Learning curve | "+name, "training samples", series[set], enough)
	}
}

// epochs adds the table of the epochs.
func (p Page) epochs(r any) {
	best := number(r, "best", "version")
	for _, e := range list(r, "epochs") {
		row := fmt.Sprintf("Epochs | %.0f", number(e, "epoch"))
		if number(e, "book", "version") == best {
			row += " best"
		}
		row += " | "
		p.add(row+"Epoch", number(e, "epoch"))
		p.score(row+"Training", at(e, "train"))
		p.score(row+"Validation", at(e, "validation"))
		p.add(row+"Lost", number(e, "train", "lost"))
		p.add(row+"Bullets", number(e, "book", "bullets"))
		p.add(row+"Tokens", number(e, "book", "tokens"))
		p.add(row+"Version", number(e, "book", "version"))
	}
}

// answers adds the answers by model, and the first wrong ones.
func (p Page) answers(r any) {
	for _, m := range list(r, "models") {
		row := "Models | " + text(m, "model") + " | "
		p.add(row+"Answers", number(m, "answers"))
		p.add(row+"With a label", number(m, "n"))
		p.add(row+"Right", number(m, "right"))
	}
	if w := at(r, "wrong"); number(w, "n") > 0 {
		p.add("Wrong answers | wrong", number(w, "wrong"), number(w, "n"), float64(len(list(w, "first"))))
		for _, x := range list(w, "first") {
			p.add("Wrong answers | Shown", float64(len(list(x, "bullets"))), number(x, "playbook_version"))
		}
	}
}

// bullets adds the best and the last version of the playbook, and the bullets.
func (p Page) bullets(r any) {
	for place, book := range map[string]any{"Best version": at(r, "best"), "Last version": at(r, "final")} {
		p.add("Playbook | "+place, number(book, "version"), number(book, "step"), number(book, "bullets"), number(book, "tokens"))
	}
	for _, b := range list(r, "bullets") {
		for column, name := range map[string]string{"Helpful": "helpful", "Harmful": "harmful", "Shown": "shown", "Cited": "cited", "Right": "right"} {
			p.add("Playbook | "+text(b, "id")+" | "+column, number(b, name))
		}
	}
}

// comparison adds the comparison with another playbook.
func (p Page) comparison(a any) {
	p.add("Comparison | sums", number(a, "playbook_version"), number(a, "bullets"), number(a, "same"), number(a, "near_duplicates"))
	p.add("Comparison | here", number(a, "only_here"))
	p.add("Comparison | there", number(a, "only_there"))
	for side, all := range map[string][]any{"only_here": list(a, "texts_only_here"), "only_there": list(a, "texts_only_there")} {
		if n := number(a, side); n > float64(len(all)) {
			p.add("Comparison | omitted", float64(len(all)), n)
		}
	}
}

// costs adds the table of the costs of a run.
func (c *Console) costs(p Page, r any) {
	var total [5]float64
	row := func(name string, x [5]float64) {
		p.add("Cost | "+name+" | Calls", x[0])
		p.add("Cost | "+name+" | Input tokens", x[1])
		p.add("Cost | "+name+" | Output tokens", x[2])
		p.nonzero("Cost | "+name+" | Dollars", x[3])
		p.add("Cost | "+name+" | Time of the calls", period(x[4])...)
	}
	for role, name := range map[string]string{"generator": "Generator", "reflector": "Reflector", "curator": "Curator"} {
		u := at(r, "cost", role)
		x := [5]float64{number(u, "calls"), number(u, "input_tokens"), number(u, "output_tokens"), number(u, "dollars"), number(u, "seconds")}
		for i := range total {
			total[i] += x[i]
		}
		row(name, x)
	}
	row("Total", total)
	if b := number(r, "cost", "per_added_bullet", "bullets"); b > 0 {
		values := append([]float64{b, total[0] / b, (total[1] + total[2]) / b}, period(number(r, "timing", "seconds")/b)...)
		p.add("Cost | each", append(values, total[3]/b)...)
	}
	learning, evaluating := number(r, "timing", "learning"), number(r, "timing", "evaluating")
	p.add("Cost | time", append(append(period(learning), period(evaluating)...), number(r, "timing", "per_second"))...)
}

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
	summary := func(row string, all map[string]*run) {
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
		p.add(row+" | Version", float64(version))
		p.add(row+" | Accuracy", share(right, known)...)
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
	a, b := share(both+wins, n), share(both+losses, n) // each: the rate, then the lower and the upper limit of its interval, in percent
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
	n := wins + losses
	sum := 0.0
	choose := 1.0
	for k := range min(wins, losses) + 1 {
		sum += choose
		choose = choose * float64(n-k) / float64(k+1)
	}
	return min(1, 2*sum/math.Pow(2, float64(n)))
}
