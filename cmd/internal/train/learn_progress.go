package train

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
)

// progressTicker reports progress at most once a second: as a JSON line with --json, else on the terminal.
type progressTicker struct {
	json, live bool
	began      time.Time
	last       time.Time
	shown      bool
}

func (l *Learn) newTicker() *progressTicker {
	now := time.Now()
	return &progressTicker{json: l.JSON, live: !l.JSON && console.Stderr.IsTerminal(), began: now, last: now}
}

// report prints the progress if a second has passed since the last report. It calls progress with the seconds since
// the start; progress returns the JSON value and the text.
func (t *progressTicker) report(progress func(seconds float64) (any, string)) {
	now := time.Now()
	if !t.json && !t.live || now.Sub(t.last) < time.Second {
		return
	}
	t.last = now
	v, line := progress(now.Sub(t.began).Seconds())
	if t.json {
		_ = cli.WriteJSON(console.Stdout, v)
		return
	}
	t.shown = true
	console.Control(console.Stderr, console.ClearLine)
	console.Fprintf(console.Stderr, "%s", line)
}

// clear removes the progress line from the terminal.
func (t *progressTicker) clear() {
	if t.shown {
		console.Control(console.Stderr, console.ClearLine)
		t.shown = false
	}
}

// progressReader is an io.Reader of a file that reports its progress.
type progressReader struct {
	*progressTicker
	io.Reader
	name       string
	read, size int64 // bytes; size is 0 if unknown
	runs       int
}

func (l *Learn) newProgressReader(ctx context.Context, name string, f *os.File) *progressReader {
	p := &progressReader{progressTicker: l.newTicker(), Reader: interruptible(ctx, f), name: name}
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
