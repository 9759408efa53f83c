package term

import (
	"io"
	"sync"
	"time"
)

// activity is a line on standard error that shows that a command works. It appears on a terminal after a second without output,
// and disappears before the next output. A pipe or a file never gets it.
type activity struct {
	mu      sync.Mutex
	running bool
	text    string    // empty: no line
	begun   time.Time // time of the first Doing
	output  time.Time // time of the last output
	partial bool      // the last output has no line break yet: a prompt, or the progress of a command
	shown   bool

	to *Writer
}

// quiet is the time without output after which the line appears, and the interval of its updates.
const quiet = time.Second

var current = &activity{to: Stderr}

// Doing sets the text of the activity line, such as "waiting for the answer", until done is called. An empty text disables the
// line, for a command that runs until it is interrupted.
func Doing(text string) (done func()) {
	was := current.set(text)
	return func() { current.set(was) }
}

// set sets the text and returns the one before.
func (a *activity) set(text string) (was string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
	was, a.text = a.text, text
	return was
}

// ShowActivity shows and updates the activity line until stop is called. Without a terminal it does nothing.
func ShowActivity(text string) (stop func()) {
	if !Stderr.IsTerminal() {
		return func() {}
	}
	return current.show(text, time.Now)
}

func (a *activity) show(text string, now func() time.Time) (stop func()) {
	a.mu.Lock()
	a.running, a.text, a.begun, a.output = true, text, now(), now()
	a.mu.Unlock()
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(quiet)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				a.update(now())
			}
		}
	}()
	return func() {
		close(ended)
		<-stopped
		a.set("")
		a.mu.Lock()
		defer a.mu.Unlock()
		a.running = false
	}
}

// update shows the line with the time since the begin, if the command has printed nothing for a second.
func (a *activity) update(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.text == "" || a.partial || now.Sub(a.output) < quiet {
		return
	}
	a.shown = true
	line := Line(a.text) + "  " + now.Sub(a.begun).Round(time.Second).String()
	if w := Width(a.to); w > 0 && textWidth(line) >= w {
		line = Wrap(line, max(w-1, 1), true)[0]
	}
	_, _ = io.WriteString(a.to.File(), string(ClearLine)+line) // a broken terminal fails with the next output
}

// before removes the line before an output, and records whether the output ends with a line break.
func (a *activity) before(p []byte) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.running || len(p) == 0 {
		return
	}
	a.hide()
	a.output = time.Now()
	a.partial = p[len(p)-1] != '\n'
}

// control removes the line before a control sequence.
func (a *activity) control(s Sequence) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hide()
	if s != Return { // the sequence leaves an empty line
		a.partial = false
	}
}

// hide removes the line. The caller holds the lock.
func (a *activity) hide() {
	if a.shown {
		_, _ = io.WriteString(a.to.File(), string(ClearLine))
		a.shown = false
	}
}
