package console

import (
	"fmt"
	"html/template"
)

// interval is a small chart of an estimate with its interval on a scale with a line at zero. The colour shows on which side of zero the
// interval is.
type interval struct {
	Value, Low, High float64
	From, To         float64 // ends of the scale
}

// intervalWidth and intervalHeight are the size of the chart in its own units.
const (
	intervalWidth  = 120.0
	intervalHeight = 16.0
)

func (i interval) x(v float64) float64 {
	return round((min(max(v, i.From), i.To) - i.From) / (i.To - i.From) * intervalWidth)
}

// SVG returns the chart. Its text alternative has the numbers in percentage points.
func (i interval) SVG() template.HTML {
	class := "unclear"
	switch {
	case i.Low > 0:
		class = "above"
	case i.High < 0:
		class = "below"
	}
	label := fmt.Sprintf("%s points, interval %s to %s", points(i.Value), points(i.Low), points(i.High))
	// The chart has only numbers and fixed texts, so it needs no escapes.
	return template.HTML(fmt.Sprintf(`<svg class="lift %s" viewBox="0 0 %g %g" role="img" aria-label="%s"><title>%s</title>`+
		`<path class="zero" d="M%g 1V15"/><path class="interval" d="M%g 8H%g M%g 5V11 M%g 5V11"/><circle class="mark" cx="%g" cy="8" r="3"/></svg>`,
		class, intervalWidth, intervalHeight, label, label, i.x(0), i.x(i.Low), i.x(i.High), i.x(i.Low), i.x(i.High), i.x(i.Value)))
}
