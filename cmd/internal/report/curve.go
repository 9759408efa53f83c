package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	maxMarks   = 400 // of one line: more cannot be told apart on a screen
	fewSamples = 20  // batches are put together until they hold so many: of fewer, accuracy jumps
)

// chart is a picture of something over training samples, in the units of its viewBox.
type chart struct {
	Class  string // "wide" or "narrow", where there is one of each
	Title  string
	Label  string // what is seen, for who cannot see it
	Width  float64
	Height float64
	Left   float64 // the plot is between these
	Right  float64
	Top    float64
	Bottom float64
	MaxX   float64 // training samples at Right
	MaxY   float64 // at Top; 0 is at Bottom
	XTicks []tick
	YTicks []tick
	Epochs []tick // where they begin
	Best   *tick  // where the best playbook was
	Lines  []line
}

type tick struct {
	At    float64
	Label string
}

// line is one thing that was measured again and again.
type line struct {
	Class string
	Name  string
	Shape string // path of a mark, around 0 0
	Path  string // points of the line
	Marks []mark
}

// mark is a measurement: in numbers, and where it is in a chart.
type mark struct {
	Step  int
	Value float64
	Title string
	X, Y  float64
}

// Shapes of marks: what the colours say can be seen without them.
const (
	dot     = "M-1.8 0a1.8 1.8 0 1 0 3.6 0a1.8 1.8 0 1 0-3.6 0z"
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

// newChart lays out axes: x to maxStep, y to maxY, with ticks at round numbers.
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

// roundStep is the least of 1, 2, 5, 10, 20, 50 … that is not under x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, n := range []float64{1, 2, 5} {
		if n*power >= x*(1-1e-9) {
			return n * power
		}
	}
	return 10 * power
}

// short is a number for an axis: 1500000 is 1.5M.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'f', -1, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', -1, 64) + "k"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// add draws a line.
func (c *chart) add(name, class, shape string, marks []mark) {
	if len(marks) == 0 {
		return
	}
	marks = slices.Clone(marks) // another chart has them in other places
	var path strings.Builder
	for i := range marks {
		m := &marks[i]
		m.X, m.Y = c.x(m.Step), c.y(m.Value)
		fmt.Fprintf(&path, "%g,%g ", m.X, m.Y)
	}
	c.Lines = append(c.Lines, line{Class: class, Name: name, Shape: shape, Path: strings.TrimSpace(path.String()), Marks: marks})
}

// curve is what a run measured, ready to be drawn.
type curve struct {
	Train      []mark
	Validation []mark
	Test       []mark
	Bullets    []mark
	Tokens     []mark
	MaxStep    int
	Pooled     int  // samples that a mark of Train holds at least, where batches were put together; else 0
	Thinned    bool // measurements were left out
}

// newCurve reads the points of a report. Those in which nothing was judged are no measurements.
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
	if len(test) == 0 { // then the two that a headline has
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
	c.sizes(books)
	return c
}

// sizes are those of the playbooks that answered, one a step: the last that did.
func (c *curve) sizes(points []Point) {
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
		c.Bullets = append(c.Bullets, mark{Step: p.Step, Value: float64(b), Title: fmt.Sprintf("%s after %s", plural(b, "bullet"), plural(p.Step, "sample"))})
		t := max(p.Book.Tokens, 0)
		c.Tokens = append(c.Tokens, mark{Step: p.Step, Value: float64(t), Title: fmt.Sprintf("%s after %s", plural(t, "token"), plural(p.Step, "sample"))})
	}
}

// pool puts neighbouring batches of an epoch together until there are few enough and each holds enough samples. Nothing
// is left out: every sample counts once. Least is how many are enough, 0 if nothing had to be put together.
func pool(points []Point) (out []Point, least int) {
	total, epochs := 0, map[int]bool{}
	for _, p := range points {
		total += p.Score.N
		epochs[p.Epoch] = true
	}
	enough := max(fewSamples, (total+maxMarks/2-1)/(maxMarks/2))
	apart := len(epochs) < maxMarks/2 // else the ends of epochs alone would be too many
	left := map[int]int{}             // samples of an epoch that are still to come
	for _, p := range points {
		left[p.Epoch] += p.Score.N
	}
	for _, p := range points {
		rest := left[p.Epoch] < enough // too few for a mark of their own
		left[p.Epoch] -= p.Score.N
		n := len(out) - 1
		if n >= 0 && (out[n].Epoch == p.Epoch && (rest || out[n].Score.N < enough) || !apart && out[n].Score.N < enough) {
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

// thin leaves as many as can be told apart: every so many, with the first and the last.
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

func accuracies(points []Point, what string) []mark {
	out := make([]mark, len(points))
	for i, p := range points {
		v := 100 * min(max(known(p.Score.Accuracy, 0), 0), 1)
		out[i] = mark{Step: p.Step, Value: v, Title: fmt.Sprintf("%s %s, %d of %d, after %s", what, percent(v/100), p.Score.Right, p.Score.N, plural(p.Step, "sample"))}
	}
	return out
}

// accuracy draws the lines of accuracy.
func (c *curve) accuracy(r *Report, class string, width, height float64) *chart {
	out := newChart(width, height, c.MaxStep, 100, " %")
	out.Class = class
	out.Label = "Accuracy in percent over training samples. " + strings.Join(slices.DeleteFunc([]string{
		ends("Training", c.Train), ends("Validation", c.Validation), ends("Test", c.Test),
	}, func(s string) bool { return s == "" }), " ")
	out.Epochs = epochs(out, r)
	if r.Best.Step > 0 {
		out.Best = &tick{out.x(r.Best.Step), "best playbook"}
		if out.Best.At < out.Left+100 { // no room beside it
			out.Best.Label = "best"
		}
	}
	class = "train"
	if len(c.Validation)+len(c.Test) == 0 {
		class += " alone"
	}
	out.add("training", class, dot, c.Train)
	out.add("validation", "validation", disc, c.Validation)
	out.add("test", "test", diamond, c.Test)
	return out
}

// size draws how a playbook grew.
func (c *curve) size(what string, marks []mark) *chart {
	most := 0.0
	for _, m := range marks {
		most = max(most, m.Value)
	}
	out := newChart(340, 200, c.MaxStep, most, "")
	out.Title = what
	out.Label = fmt.Sprintf("%s, of the playbook, over training samples; at most %s.", what, thousands(int(most)))
	out.add(what, "size", disc, marks)
	return out
}

// ends tells a line to who cannot see it.
func ends(name string, marks []mark) string {
	if len(marks) == 0 {
		return ""
	}
	first, last := marks[0], marks[len(marks)-1]
	if len(marks) == 1 {
		return fmt.Sprintf("%s: %s at sample %d.", name, percent(first.Value/100), first.Step)
	}
	return fmt.Sprintf("%s: from %s at sample %d to %s at sample %d, %d points.",
		name, percent(first.Value/100), first.Step, percent(last.Value/100), last.Step, len(marks))
}

// epochs are where epochs begin, if their names have room and there is more than one.
func epochs(c *chart, r *Report) (out []tick) {
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
			return nil // they do not follow each other
		}
		out = append(out, tick{c.x(from), "epoch " + strconv.Itoa(e)})
		from = ends[e]
	}
	return out
}
