package auditor

import (
	"cmp"
	"math"
	"net/url"
	"strings"
)

// worth is the page of the comparison with the control group.
func (c *Console) worth(p Page, book string, _ []string, _ url.Values) {
	w := worthOf(c.runs, book)
	if numbers, shape := c.verdict(book); numbers != nil {
		p.add(shape, numbers...)
	}
	if w.With.Sessions+w.Without.Sessions == 0 {
		return
	}
	rows := []struct {
		name, effect  string
		with, without float64
	}{
		{name: "Score, 0 to 100", effect: "points", with: w.With.Score, without: w.Without.Score},
		{name: "Failures per 100 tasks", effect: "failures_avoided", with: w.With.Failures, without: w.Without.Failures},
		{name: "Tokens per run", effect: "tokens_percent", with: w.With.Tokens, without: w.Without.Tokens},
		{name: "Cost per run", effect: "cost_percent", with: w.With.Dollars, without: w.Without.Dollars},
		{name: "Time per run", effect: "time_percent", with: w.With.Seconds, without: w.Without.Seconds},
	}
	for i, x := range rows {
		isOutcome := i < 2
		if x.with > 0 || isOutcome && w.With.Outcomes > 0 {
			p.add(x.name+" | With the playbook", x.with)
		}
		if x.without > 0 || isOutcome && w.Without.Outcomes > 0 {
			p.add(x.name+" | Without it", x.without)
		}
		if e, ok := w.Effects[x.effect]; ok {
			p.add(x.name+" | Effect", e.Mean)
			p.add(x.name+" | Interval", e.Low, e.High)
		}
	}
	for name, a := range map[string]WorthArm{"With the playbook": w.With, "Without the playbook": w.Without} {
		p.add(name+" | Sessions", float64(a.Sessions))
		p.add(name+" | with an outcome", float64(a.Rated))
		p.add(name+" | Runs", float64(a.Runs))
		p.add(name+" | Outcomes", float64(a.Outcomes))
	}
	p.add("What was counted; the control share is #% now", c.controlShare(book)...)
}

// controlShare returns the control share of a playbook in percent, nil if it is off.
func (c *Console) controlShare(book string) []float64 {
	control := ""
	for _, x := range c.books[book].changes {
		control = cmp.Or(x.Control, control)
	}
	return valuesOf(control)
}

// verdict returns the numbers of the sentence about the worth of a playbook and of its chart, and the sentence with # for each number.
func (c *Console) verdict(book string) ([]float64, string) {
	w := worthOf(c.runs, book)
	numbers, shape := c.sentenceOf(book, w)
	if e, ok := w.Effects["points"]; ok {
		return append(numbers, e.Mean, e.Low, e.High), shape + " # points, interval # to #"
	}
	return numbers, shape
}

// sentenceOf returns the numbers of the sentence and the sentence. Without sessions and without a control group it returns nil.
func (c *Console) sentenceOf(book string, w *Worth) ([]float64, string) {
	share := c.controlShare(book)
	e, ok := w.Effects["points"]
	switch {
	case w.With.Sessions+w.Without.Sessions == 0 && share == nil:
		return nil, ""
	case !ok:
		return w.missing(share), "Not known yet: about # outcomes are missing, among them those of # sessions without the playbook."
	case e.Low > 0:
		return []float64{e.Mean, e.Low, e.High}, "The playbook helps: # points, interval # to #."
	case e.High < 0:
		return []float64{e.Mean, e.Low, e.High}, "The playbook harms: # points, interval # to #."
	case e.Low > -2 && e.High < 2:
		return []float64{2, e.Mean, e.Low, e.High}, "The playbook makes no difference of # points or more: # points, interval # to #."
	}
	return undecided(w, e), "Not decided yet: # points, interval # to #. About # outcomes are missing to tell an effect of # points from none, among them those of # sessions without the playbook."
}

// missing returns the numbers of outcomes and of sessions without the playbook until both arms have 20 sessions with an outcome. share is the
// control share in percent, or nil; then the share so far counts.
func (w *Worth) missing(share []float64) []float64 {
	rated, outcomes := float64(w.With.Rated+w.Without.Rated), float64(w.With.Outcomes+w.Without.Outcomes)
	p := max(0.001, float64(w.Without.Rated)/max(1, rated)) // probability of a session without the playbook
	if share != nil {
		p = share[0] / 100
	}
	without := max(0, 20-float64(w.Without.Rated))
	sessions := max(without/p, (20-float64(w.With.Rated))/(1-p))
	perSession := max(1, outcomes/max(1, rated))
	return []float64{math.Ceil(perSession * sessions), without}
}

// undecided returns the effect in points with its interval, the number of outcomes that are missing, the smallest effect that they tell from
// none, and the number of sessions without the playbook among them.
func undecided(w *Worth, e WorthEffect) []float64 {
	outcomes := float64(w.With.Outcomes + w.Without.Outcomes)
	effect := max(2, math.Abs(e.Mean))
	// The variance falls with the number of sessions. An effect differs from none if it is half of the width of its interval.
	growth := worthVariance((e.High-e.Low)/200) / worthVariance(effect/100)
	return []float64{e.Mean, e.Low, e.High, math.Ceil((growth - 1) * outcomes), effect, math.Ceil((growth - 1) * float64(w.Without.Rated))}
}

// worthVariance returns the variance at which worthHalfWidth is half, by a search in small steps.
func worthVariance(half float64) float64 {
	const step = 1.00001
	v := 1e-12
	for worthHalfWidth(v*step) < half {
		v *= step
	}
	return v
}

// word returns the first word of a verdict, as the overview shows it.
func word(shape string) string {
	for beginning, word := range map[string]string{"Not known": "not known yet", "Not decided": "not decided yet", "The playbook helps": "helps", "The playbook harms": "harms", "The playbook makes": "makes no difference"} {
		if strings.HasPrefix(shape, beginning) {
			return word
		}
	}
	return ""
}
