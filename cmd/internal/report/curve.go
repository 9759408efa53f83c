package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/components"
)

const (
	maxMarks   = 400 // marks of a line; more cannot be distinguished on a screen
	fewSamples = 20  // minimum samples of a mark; batches are pooled until they have as many, because the accuracy of few samples is noise
)

// curve holds the measurements of a run for the charts.
type curve struct {
	Train      []components.Mark
	Validation []components.Mark
	Test       []components.Mark
	Bullets    []components.Mark
	Tokens     []components.Mark
	MaxStep    int
	Pooled     int  // minimum samples of a mark of Train if batches were pooled; else 0
	Thinned    bool // measurements are omitted
}

// newCurve returns the curve of a report. It skips points without labelled samples.
func newCurve(r *Report) *curve {
	points := slices.DeleteFunc(slices.Clone(r.Points), func(p Point) bool { return p.Step < 0 })
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Step, b.Step) })
	c := &curve{}
	var train, validation, test []Point
	var books []Point
	for _, p := range points {
		c.MaxStep = max(c.MaxStep, p.Step)
		books = append(books, p)
		if p.Score.N <= 0 {
			continue
		}
		switch p.Set {
		case "train":
			train = append(train, p)
		case "validation":
			validation = append(validation, p)
		case "test":
			test = append(test, p)
		}
	}
	if len(test) == 0 { // use the measurements of the headline
		if r.Before != nil && r.Before.N > 0 {
			test = append(test, Point{Set: "test", Score: *r.Before})
		}
		if r.After != nil && r.After.N > 0 {
			test = append(test, Point{Set: "test", Epoch: r.Best.Epoch, Step: max(r.Best.Step, 0), Score: *r.After, Book: r.Best})
			c.MaxStep = max(c.MaxStep, r.Best.Step)
		}
	}
	var pooled []Point
	pooled, c.Pooled = pool(train)
	c.Train = accuracies(pooled, "training")
	c.Validation = accuracies(c.thin(validation), "validation")
	c.Test = accuracies(c.thin(test), "test")
	if r.Final != (Book{}) {
		books = append(books, Point{Step: max(r.Final.Step, 0), Book: r.Final})
	}
	c.addSizes(books)
	return c
}

// addSizes adds the sizes of the playbooks at the steps of their creation, one for each step: the last one. The playbook of
// a training batch was created before the batch.
func (c *curve) addSizes(points []Point) {
	for i := range points {
		points[i].Step = min(max(points[i].Book.Step, 0), points[i].Step)
	}
	slices.SortStableFunc(points, func(a, b Point) int { return cmp.Compare(a.Step, b.Step) })
	var one []Point
	for _, p := range points {
		if n := len(one); n > 0 && one[n-1].Step == p.Step {
			one[n-1] = p
			continue
		}
		one = append(one, p)
	}
	for _, p := range c.thin(one) {
		b := max(p.Book.Bullets, 0)
		c.Bullets = append(c.Bullets, components.Mark{Step: p.Step, Value: float64(b), Title: fmt.Sprintf("%s after %s", components.Plural(b, "bullet"), components.Plural(p.Step, "sample"))})
		t := max(p.Book.Tokens, 0)
		c.Tokens = append(c.Tokens, components.Mark{Step: p.Step, Value: float64(t), Title: fmt.Sprintf("%s after %s", components.Plural(t, "token"), components.Plural(p.Step, "sample"))})
	}
}

// pool merges neighbouring batches of an epoch until there are few enough marks and each has enough samples. Every
// sample counts once. It returns the minimum of samples for each mark, 0 if nothing was merged.
func pool(points []Point) (out []Point, least int) {
	total, epochs := 0, map[int]bool{}
	for _, p := range points {
		total += p.Score.N
		epochs[p.Epoch] = true
	}
	enough := max(fewSamples, (total+maxMarks/2-1)/(maxMarks/2))
	separate := len(epochs) < maxMarks/2 // with more epochs, marks may span epochs
	remaining := map[int]int{}           // remaining samples of each epoch
	for _, p := range points {
		remaining[p.Epoch] += p.Score.N
	}
	for _, p := range points {
		tail := remaining[p.Epoch] < enough // too few for another mark
		remaining[p.Epoch] -= p.Score.N
		n := len(out) - 1
		if n >= 0 && (out[n].Epoch == p.Epoch && (tail || out[n].Score.N < enough) || !separate && out[n].Score.N < enough) {
			p.Score.N += out[n].Score.N
			p.Score.Right += out[n].Score.Right
			out = out[:n]
			least = enough
		}
		p.Score.Accuracy = float64(p.Score.Right) / float64(p.Score.N)
		out = append(out, p)
	}
	return out, least
}

// thin returns at most maxMarks points at equal distances, including the first and the last.
func (c *curve) thin(points []Point) []Point {
	if len(points) <= maxMarks {
		return points
	}
	c.Thinned = true
	out := make([]Point, maxMarks)
	for i := range out {
		out[i] = points[i*(len(points)-1)/(maxMarks-1)]
	}
	return out
}

func accuracies(points []Point, set string) []components.Mark {
	out := make([]components.Mark, len(points))
	for i, p := range points {
		v := 100 * min(max(finiteOr(p.Score.Accuracy, 0), 0), 1)
		low, high := p.Score.interval()
		out[i] = components.Mark{
			Step: p.Step, Value: v, Low: 100 * low, High: 100 * high,
			Title: fmt.Sprintf("%s %s, %d of %d, 95 %% interval %s to %s, after %s", set, components.Percent(v/100), p.Score.Right, p.Score.N, components.Percent(low), components.Percent(high), components.Plural(p.Step, "sample")),
		}
	}
	return out
}

// accuracyChart draws the accuracy of the sets.
func (c *curve) accuracyChart(r *Report, class string, width, height float64) *components.Chart {
	out := components.NewChart(width, height, "training samples", c.MaxStep, 100, " %")
	out.Class = class
	out.Label = "Accuracy in percent over training samples. " + strings.Join(slices.DeleteFunc([]string{
		describeLine("Training", c.Train), describeLine("Validation", c.Validation), describeLine("Test", c.Test),
	}, func(s string) bool { return s == "" }), " ")
	out.Spans = epochTicks(out, r)
	if r.learned() {
		out.Best = &components.Tick{At: out.X(r.Best.Step), Label: "best playbook"}
		if out.Best.At < out.Left+100 { // not enough room
			out.Best.Label = "best"
		}
	}
	class = "train"
	if len(c.Validation)+len(c.Test) == 0 {
		class += " alone"
	}
	out.AddMarks("training", class, components.Dot, c.Train)
	out.AddMarks("validation", "validation", components.Disc, c.Validation)
	out.AddMarks("test", "test", components.Diamond, c.Test)
	return out
}

// sizeChart draws the size of the playbook.
func (c *curve) sizeChart(name string, marks []components.Mark) *components.Chart {
	largest := 0.0
	for _, m := range marks {
		largest = max(largest, m.Value)
	}
	out := components.NewChart(340, 200, "training samples", c.MaxStep, largest, "")
	out.Title = name
	out.Label = fmt.Sprintf("%s of the playbook over training samples; at most %s.", name, components.Thousands(int(largest)))
	out.AddSteps(name, "size", components.Disc, marks)
	return out
}

// describeLine describes a line for the text alternative.
func describeLine(name string, marks []components.Mark) string {
	if len(marks) == 0 {
		return ""
	}
	first, last := marks[0], marks[len(marks)-1]
	if len(marks) == 1 {
		return fmt.Sprintf("%s: %s at sample %d.", name, components.Percent(first.Value/100), first.Step)
	}
	return fmt.Sprintf("%s: from %s at sample %d to %s at sample %d, %d points.",
		name, components.Percent(first.Value/100), first.Step, components.Percent(last.Value/100), last.Step, len(marks))
}

// epochTicks returns the start of each epoch, if there is more than one and their labels fit.
func epochTicks(c *components.Chart, r *Report) (out []components.Tick) {
	ends := map[int]int{}
	for _, p := range r.Points {
		if p.Set == "train" && p.Epoch > 0 {
			ends[p.Epoch] = max(ends[p.Epoch], p.Step)
		}
	}
	if room := (c.Right - c.Left) / 56; len(ends) < 2 || float64(len(ends)) > room {
		return nil
	}
	from := 0
	for e := 1; e <= len(ends); e++ {
		if ends[e] < from {
			return nil // the epochs overlap
		}
		out = append(out, components.Tick{At: c.X(from), Label: "epoch " + strconv.Itoa(e)})
		from = ends[e]
	}
	return out
}
