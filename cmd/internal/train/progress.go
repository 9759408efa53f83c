package train

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
)

// progressLine reports progress, at most once in an interval: as JSON lines, or as text on a terminal, where each line replaces the one
// before.
type progressLine struct {
	to    *term.Writer  // for text
	json  io.Writer     // for JSON lines; nil for text
	every time.Duration // the interval
	began time.Time
	last  time.Time // of the last report
	shown bool      // a line of text is on the terminal
}

func newProgressLine(to *term.Writer) *progressLine {
	now := time.Now()
	return &progressLine{to: to, every: time.Second, began: now, last: now}
}

// report prints the progress if the interval has passed. It calls progress with the seconds since the start; progress returns the JSON
// value and the text.
func (p *progressLine) report(progress func(seconds float64) (any, string)) {
	now := time.Now()
	if p.json == nil && !p.to.IsTerminal() || now.Sub(p.last) < p.every {
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

// newProgressLine returns a line for the progress of the command, with --json for JSON lines.
func (l *Learn) newProgressLine() *progressLine {
	p := newProgressLine(term.Stderr)
	if l.JSON {
		p.json = term.Stdout
	}
	return p
}

// progressReader is an io.Reader of a file that reports its progress.
type progressReader struct {
	*progressLine
	io.Reader
	name       string
	read, size int64 // bytes; size is 0 if unknown
	runs       int
}

func (l *Learn) newProgressReader(ctx context.Context, name string, f *os.File) *progressReader {
	p := &progressReader{progressLine: l.newProgressLine(), Reader: interruptible(ctx, f), name: name}
	if info, err := f.Stat(); err == nil {
		p.size = info.Size()
	}
	return p
}

// Read implements io.Reader.
func (p *progressReader) Read(b []byte) (int, error) {
	n, err := p.Reader.Read(b)
	p.read += int64(n)
	p.report(func(seconds float64) (any, string) {
		rate, runs := float64(p.read)/seconds, float64(p.runs)/seconds
		values := map[string]any{
			"file": p.name, "bytes": p.read, "of": p.size, "runs_so_far": p.runs, "bytes_per_second": int64(rate), "runs_per_second": int64(runs),
		}
		return values, fmt.Sprintf("%s: %d of %d MB, %d runs; %.1f MB and %.0f runs a second",
			p.name, p.read>>20, p.size>>20, p.runs, rate/(1<<20), runs)
	})
	return n, err
}
