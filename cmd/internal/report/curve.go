package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"debrief/cmd/internal/components"
)

const (
	maxMarks   = 400 // marks of a line; more cannot be distinguished on a screen
	fewSamples = 20  // minimum samples of a mark; batches are pooled until they have as many, because the accuracy of few samples is noise
)

// chart is a line chart over training samples, in the units of its viewBox.
type chart struct {
	Class  string // "wide" or "narrow", where there is one of each
	Title  string
	Label  string // text alternative
	Width  float64
	Height float64
	Left   float64 // edges of the plot
	Right  float64
	Top    float64
	Bottom float64
	MaxX   float64 // training samples at the right edge
	MaxY   float64 // value at the top; the bottom is 0
	XTicks []tick
	YTicks []tick
	Epochs []tick // start of each epoch
	Best   *tick  // position of the best playbook
	Lines  []line
}

type tick struct {
	At    float64
	Label string
}

// line is a series of measurements.
type line struct {
	Class string
	Name  string
	Shape string // SVG path of a mark at 0,0
	Path  string // SVG path of a step line; empty for marks alone
	Marks []mark
}

// mark is a measurement and its position in a chart. An accuracy has an interval: Low and High in percent, and YLow and
// YHigh in the chart.
type mark struct {
	Step      int
	Value     float64
	Low, High float64
	Title     string

	X, Y        float64
	YLow, YHigh float64
}

// HasInterval reports whether the mark has an interval.
func (m mark) HasInterval() bool { return m.High > m.Low }

// Shapes of marks, so that lines can be distinguished without colours.
const (
	dot     = "M-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z"
	disc    = "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z"
	diamond = "M0-6 6 0 0 6-6 0z"
)

func (c *chart) x(step int) float64 {
	return round(c.Left + (c.Right-c.Left)*min(max(float64(step)/c.MaxX, 0), 1))
}

func (c *chart) y(value float64) float64 {
	return round(c.Bottom - (c.Bottom-c.Top)*min(max(value/c.MaxY, 0), 1))
}

func round(x float64) float64 { return math.Round(x*10) / 10 }

// newChart returns a chart with axes: x up to maxStep, y up to maxY, with ticks at round numbers.
func newChart(width, height float64, maxStep int, maxY float64, unit string) *chart {
	c := &chart{
		Width: width, Height: height,
		Left: 46, Right: width - 18, Top: 24, Bottom: height - 42,
		MaxX: float64(max(maxStep, 1)),
	}
	step := max(roundStep(maxY/4), 1)
	if maxY == 100 {
		step = 25 // percent
	}
	c.MaxY = step * math.Ceil(max(maxY, 1)/step-1e-9)
	for v := 0.0; v <= c.MaxY+step/2; v += step {
		c.YTicks = append(c.YTicks, tick{At: c.y(v), Label: short(v) + unit})
	}
	step = max(roundStep(c.MaxX/max((width-60)/90, 2)), 1)
	for v := 0.0; v <= c.MaxX; v += step {
		c.XTicks = append(c.XTicks, tick{At: c.x(int(v)), Label: short(v)})
	}
	return c
}

// roundStep returns the smallest of 1, 2, 5, 10, 20, 50 … that is at least x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}

// short formats a number for an axis: 1500000 is 1.5M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// addMarks adds a series to the chart. It has no line: nothing was measured between two marks.
func (c *chart) addMarks(name, class, shape string, marks []mark) {
	if len(marks) == 0 {
		return
	}
	marks = slices.Clone(marks) // each chart sets its own positions
	for i := range marks {
		m := &marks[i]
		m.X, m.Y = c.x(m.Step), c.y(m.Value)
		m.YLow, m.YHigh = c.y(m.Low), c.y(m.High)
	}
	c.Lines = append(c.Lines, line{Class: class, Name: name, Shape: shape, Marks: marks})
}

// addSteps adds a series with a step line: the value holds until the next mark.
func (c *chart) addSteps(name, class, shape string, marks []mark) {
	c.addMarks(name, class, shape, marks)
	if len(marks) == 0 {
		return
	}
	l := &c.Lines[len(c.Lines)-1]
	var path strings.Builder
	for i, m := range l.Marks {
		if i == 0 {
			fmt.Fprintf(&path, "M%g %g", m.X, m.Y)
			continue
		}
		fmt.Fprintf(&path, "H%gV%g", m.X, m.Y)
	}
	l.Path = path.String()
}

// curve holds the measurements of a run for the charts.
type curve struct {
	Train      []mark
	Validation []mark
	Test       []mark
	Bullets    []mark
	Tokens     []mark
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
		c.Bullets = append(c.Bullets, mark{Step: p.Step, Value: float64(b), Title: fmt.Sprintf("%s after %s", components.Plural(b, "bullet"), components.Plural(p.Step, "sample"))})
		t := max(p.Book.Tokens, 0)
		c.Tokens = append(c.Tokens, mark{Step: p.Step, Value: float64(t), Title: fmt.Sprintf("%s after %s", components.Plural(t, "token"), components.Plural(p.Step, "sample"))})
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

func accuracies(points []Point, set string) []mark {
	out := make([]mark, len(points))
	for i, p := range points {
		v := 100 * min(max(finiteOr(p.Score.Accuracy, 0), 0), 1)
		low, high := p.Score.interval()
		out[i] = mark{
			Step: p.Step, Value: v, Low: 100 * low, High: 100 * high,
			Title: fmt.Sprintf("%s %s, %d of %d, 95 %% interval %s to %s, after %s", set, components.Percent(v/100), p.Score.Right, p.Score.N, components.Percent(low), components.Percent(high), components.Plural(p.Step, "sample")),
		}
	}
	return out
}

// accuracyChart draws the accuracy of the sets.
func (c *curve) accuracyChart(r *Report, class string, width, height float64) *chart {
	out := newChart(width, height, c.MaxStep, 100, " %")
	out.Class = class
	out.Label = "Accuracy in percent over training samples. " + strings.Join(slices.DeleteFunc([]string{
		describeLine("Training", c.Train), describeLine("Validation", c.Validation), describeLine("Test", c.Test),
	}, func(s string) bool { return s == "" }), " ")
	out.Epochs = epochTicks(out, r)
	if r.learned() {
		out.Best = &tick{out.x(r.Best.Step), "best playbook"}
		if out.Best.At < out.Left+100 { // not enough room
			out.Best.Label = "best"
		}
	}
	class = "train"
	if len(c.Validation)+len(c.Test) == 0 {
		class += " alone"
	}
	out.addMarks("training", class, dot, c.Train)
	out.addMarks("validation", "validation", disc, c.Validation)
	out.addMarks("test", "test", diamond, c.Test)
	return out
}

// sizeChart draws the size of the playbook.
func (c *curve) sizeChart(name string, marks []mark) *chart {
	largest := 0.0
	for _, m := range marks {
		largest = max(largest, m.Value)
	}
	out := newChart(340, 200, c.MaxStep, largest, "")
	out.Title = name
	out.Label = fmt.Sprintf("%s of the playbook over training samples; at most %s.", name, components.Thousands(int(largest)))
	out.addSteps(name, "size", disc, marks)
	return out
}

// describeLine describes a line for the text alternative.
func describeLine(name string, marks []mark) string {
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
func epochTicks(c *chart, r *Report) (out []tick) {
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
		out = append(out, tick{c.x(from), "epoch " + strconv.Itoa(e)})
		from = ends[e]
	}
	return out
}
