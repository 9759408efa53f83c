package console

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// chartTemplate defines the template "chart" for a *chart.
//
//go:embed chart.html
var chartTemplate string

// chart is a chart of measurements over a numeric axis, in the units of its viewBox. The template "chart" draws it.
type chart struct {
	Class  string // "wide" or "narrow": see chartSizes
	Label  string // text alternative
	Width  float64
	Height float64
	Left   float64 // edges of the plot
	Right  float64
	Top    float64
	Bottom float64
	AxisX  string  // label of the horizontal axis
	MaxX   float64 // value at the right edge; the left edge is 0
	MaxY   float64 // value at the top; the bottom is 0
	XTicks []tick
	YTicks []tick
	Spans  []tick // where named parts begin, such as epochs
	Levels []tick // values that are marked by a horizontal line
	Best   *tick  // position that is marked; nil for none
	Series []series
}

// tick is a labelled position on an axis.
type tick struct {
	At    float64
	Label string
}

// series is a list of measurements.
type series struct {
	Class string // colour of the series
	Name  string
	Shape string // SVG path of a mark at 0,0
	Marks []mark
}

// mark is a measurement and its position in a chart.
type mark struct {
	Step      int
	Value     float64
	Low, High float64 // interval of the value; equal without an interval
	Title     string

	// Positions of the fields above in the chart, set by AddMarks.
	X, Y        float64
	YLow, YHigh float64
}

func (m mark) HasInterval() bool { return m.High > m.Low }

// Colours of a series: classes of base.css.
const (
	blue   = "blue"
	orange = "orange"
	grey   = "grey"
)

// Shapes of marks as SVG paths, so that series can be distinguished without colours.
const (
	dot     = "M-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0-4.8 0z"
	disc    = "M-3.6 0a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0-7.2 0z"
	diamond = "M0-6 6 0 0 6-6 0z"
)

// X returns the position of a value on the horizontal axis.
func (c *chart) X(step int) float64 {
	return round(c.Left + (c.Right-c.Left)*min(max(float64(step)/c.MaxX, 0), 1))
}

// Y returns the position of a value on the vertical axis.
func (c *chart) Y(value float64) float64 {
	return round(c.Bottom - (c.Bottom-c.Top)*min(max(value/c.MaxY, 0), 1))
}

// chartSize is the size of a chart and of its axes: x up to MaxX, y from 0 up to MaxY in a unit.
type chartSize struct {
	Height float64
	Axis   string // name of the horizontal axis
	MaxX   int
	MaxY   float64
	Unit   string
	Log    bool // y is a logarithm to the base 10; the labels have the numbers themselves
}

// Widths of charts.
const (
	wideChart   = 940
	narrowChart = 340
)

// chartSizes returns a chart for wide screens and one for phones. It calls draw for each.
func chartSizes(s chartSize, draw func(*chart)) []*chart {
	wide, narrow := newChart(wideChart, s), newChart(narrowChart, s)
	wide.Class, narrow.Class = "wide", "narrow"
	draw(wide)
	draw(narrow)
	return []*chart{wide, narrow}
}

// newChart returns a chart with axes that have ticks at round numbers.
func newChart(width float64, s chartSize) *chart {
	c := &chart{
		Width: width, Height: s.Height, AxisX: s.Axis,
		Left: 46, Right: width - 18, Top: 24, Bottom: s.Height - 42,
		MaxX: float64(max(s.MaxX, 1)),
	}
	const inexact = 1e-9 // tolerance for a quotient that is a whole number
	stepY := max(roundStep(s.MaxY/4), 1)
	if s.MaxY == 100 {
		stepY = 25 // percent
	}
	c.MaxY = stepY * math.Ceil(max(s.MaxY, 1)/stepY-inexact)
	for v := 0.0; v <= c.MaxY+stepY/2; v += stepY {
		label := short(v) + s.Unit
		if s.Log {
			label = fmt.Sprintf("%g", math.Pow(10, v))
		}
		c.YTicks = append(c.YTicks, tick{At: c.Y(v), Label: label})
	}
	ticksX := max((width-60)/90, 2) // one for each 90 units, which the labels need
	stepX := max(roundStep(c.MaxX/ticksX), 1)
	for v := 0.0; v <= c.MaxX; v += stepX {
		c.XTicks = append(c.XTicks, tick{At: c.X(int(v)), Label: short(v)})
	}
	return c
}

// round rounds a coordinate, so that the page is small.
func round(x float64) float64 { return math.Round(x*10) / 10 }

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

// AddMarks adds a series to the chart, in a colour and with a shape. It draws no line, because nothing was measured between two marks.
func (c *chart) AddMarks(name, colour, shape string, marks []mark) {
	if len(marks) == 0 {
		return
	}
	marks = slices.Clone(marks) // each chart sets its own positions
	for i := range marks {
		m := &marks[i]
		m.X, m.Y = c.X(m.Step), c.Y(m.Value)
		m.YLow, m.YHigh = c.Y(m.Low), c.Y(m.High)
	}
	c.Series = append(c.Series, series{Class: colour, Name: name, Shape: shape, Marks: marks})
}
