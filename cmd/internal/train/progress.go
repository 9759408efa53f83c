package train

import (
	"io"
	"time"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// progressLine reports progress, at most once in an interval. It writes JSON lines, or else one line of text on a terminal, which each report
// replaces. Without JSON and a terminal it writes nothing.
type progressLine struct {
	to    *term.Writer  // for text
	json  io.Writer     // for JSON lines; nil for text
	every time.Duration // the interval
	began time.Time
	last  time.Time // of the last report, or began
	shown bool      // a line of text is on the terminal
}

// newProgressLine returns a line of text with an interval of a second.
func newProgressLine(to *term.Writer) *progressLine {
	now := time.Now()
	return &progressLine{to: to, every: time.Second, began: now, last: now}
}

// report prints the progress if the interval has passed. It calls progress with the seconds since the start; progress returns the JSON
// value and the text.
func (p *progressLine) report(progress func(seconds float64) (any, string)) {
	now := time.Now()
	isVisible := p.json != nil || p.to.IsTerminal()
	if !isVisible || now.Sub(p.last) < p.every {
		return
	}
	p.last = now
	v, text := progress(now.Sub(p.began).Seconds())
	if p.json != nil {
		_ = cli.WriteJSON(p.json, v)
		return
	}
	p.shown = true
	term.Control(p.to, term.ClearLine)
	term.Fprintf(p.to, "%s", text)
}

// clear removes the line from the terminal.
func (p *progressLine) clear() {
	if p.shown {
		term.Control(p.to, term.ClearLine)
		p.shown = false
	}
}
