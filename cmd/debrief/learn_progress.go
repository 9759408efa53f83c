package main

import (
	"fmt"
	"os"
	"time"

	"debrief/cmd/internal/console"
)

// ticker tells how long work goes, once a second: as a line of --json, or to a person who watches.
type ticker struct {
	json, live bool
	began      time.Time
	last       time.Time
	shown      bool
}

func (l *learn) newTicker() *ticker {
	now := time.Now()
	return &ticker{json: l.JSON, live: !l.JSON && console.Stderr.IsTerminal(), began: now, last: now}
}

// tell asks for what there is to tell, given the seconds since the beginning, when it is time.
func (t *ticker) tell(what func(seconds float64) (any, string)) {
	now := time.Now()
	if !t.json && !t.live || now.Sub(t.last) < time.Second {
		return
	}
	t.last = now
	v, line := what(now.Sub(t.began).Seconds())
	if t.json {
		_ = writeJSON(console.Stdout, v)
		return
	}
	t.shown = true
	console.Control(console.Stderr, console.ClearLine)
	console.Fprintf(console.Stderr, "%s", line)
}

func (t *ticker) clear() {
	if t.shown {
		console.Control(console.Stderr, console.ClearLine)
		t.shown = false
	}
}

// reading is a file that is read, with how far.
type reading struct {
	*ticker
	file       *os.File
	name       string
	read, size int64 // bytes; the size is 0 where it is not known
	runs       int
}

func (l *learn) newReading(name string, f *os.File) *reading {
	p := &reading{ticker: l.newTicker(), file: f, name: name}
	if info, err := f.Stat(); err == nil {
		p.size = info.Size()
	}
	return p
}

func (p *reading) Read(b []byte) (int, error) {
	n, err := p.file.Read(b)
	p.read += int64(n)
	p.tell(func(seconds float64) (any, string) {
		rate, runs := float64(p.read)/seconds, float64(p.runs)/seconds
		told := map[string]any{
			"file": p.name, "bytes": p.read, "of": p.size, "runs_so_far": p.runs, "bytes_per_second": int64(rate), "runs_per_second": int64(runs),
		}
		return told, fmt.Sprintf("%s: %d of %d MB, %d runs; %.1f MB and %.0f runs a second",
			p.name, p.read>>20, p.size>>20, p.runs, rate/(1<<20), runs)
	})
	return n, err
}
