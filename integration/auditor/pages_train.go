package auditor

import (
	"fmt"
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

// trainPages are the pages of the runs of train. Their states and reports are those that train has stored.
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
	before, after, paired := at(r, "before"), at(r, "after"), at(r, "paired")
	if before != nil && after != nil {
		p.add("# % → # %", 100*number(before, "right")/number(before, "n"), 100*number(after, "right")/number(after, "n"))
	}
	if paired != nil {
		p.add("headline", 100*number(paired, "difference"), 95, 100*number(paired, "low"), 100*number(paired, "high"), number(paired, "n"), number(paired, "wins"), number(paired, "losses"), number(paired, "p"))
	}
	if n := len(list(r, "losses")); n > 0 {
		p.add("# "+plural(n, "sample")+" lost, listed below.", float64(n))
	}
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
		if x[3] > 0 {
			p.add("Cost | "+name+" | Dollars", x[3])
		}
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
