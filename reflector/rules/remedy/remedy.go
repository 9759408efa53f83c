// Package remedy learns from the errors of tool calls in recorded runs: the condition of an error, and the difference
// between the call that failed and the call that worked. It uses no model.
//
// A lesson needs evidence: the same difference in most of the runs with the error, in two tasks at least, and the call
// worked after it. Differences are arguments, compared exactly, and calls in between. Shell commands are taken apart, so
// that an installation or a listing between two commands is a call in between.
//
// A call that also stands between calls that did not fail does not count as a remedy. Errors without a remedy, and errors whose text
// already names it, are no lessons: [Errors.Known] reports them.
package remedy

import (
	"hash/maphash"
	"strings"

	"debrief/events"
)

// Config configures an analysis. The zero value has the defaults.
type Config struct {
	// Task returns a name that all runs of one task share. The default is the task of the origin, else the question
	// with its context, else the session.
	Task func(*events.Execution) string
}

// Errors analyses the errors of many runs. Its memory is bounded for any number of runs. It is not safe for concurrent
// use.
type Errors struct {
	config   Config
	stats    map[errorKey]*errorStat
	pairs    map[string]*pairStat
	tasks    taskSet
	messages messages
	quiet    int // runs without an error that were used for comparison
}

type errorKey struct{ tool, text string }

// New returns an analysis without runs.
func New(c Config) *Errors {
	if c.Task == nil {
		c.Task = taskOf
	}
	return &Errors{
		config: c, messages: messages{}, stats: map[errorKey]*errorStat{}, pairs: map[string]*pairStat{},
		tasks: taskSet{seed: maphash.MakeSeed(), marks: map[taskMark]struct{}{}},
	}
}

// taskOf is the default of Config.Task. The question of a later turn depends on its session.
func taskOf(e *events.Execution) string {
	switch {
	case e.Origin.Task != "":
		return "task\x00" + e.Origin.Task
	case e.Turn <= 1 && strings.TrimSpace(e.Question) != "":
		return "question\x00" + e.Question + "\x00" + e.Context
	case e.Session != "":
		return "session\x00" + e.Session
	}
	return "id\x00" + e.RunID
}

// Add analyses one run. It ignores runs that may not be learned from. Add keeps no memory of the execution.
func (x *Errors) Add(e *events.Execution) {
	if e.Purpose == events.Evaluate {
		return
	}
	fails := hasFailure(e)
	if !fails {
		if x.quiet >= maxQuietRuns {
			return
		}
		x.quiet++
	}
	acts := actsOf(e, x.messages)
	addPairs(x.pairs, acts)
	if fails {
		x.addErrors(e, acts)
	}
}

// Len returns the number of different errors of tools, at most maxErrors.
func (x *Errors) Len() int { return len(x.stats) }

func (x *Errors) addErrors(e *events.Execution, acts []act) {
	var seen []*sighting
	for i := range acts {
		if acts[i].state != failed {
			continue
		}
		g := x.sighting(&seen, acts[i].name, acts[i].message.text)
		if g == nil {
			continue
		}
		g.stat.use(&acts[i])
		if t := nextAttempt(acts, i); t != nil {
			g.stat.use(t.next)
			g.add(t)
		}
	}
	task := maphash.String(x.tasks.seed, x.config.Task(e))
	id := events.ID(strings.Clone(string(e.ID)))
	for _, g := range seen {
		g.count(&x.tasks, task, id)
	}
}

// sighting returns the sighting of an error in the current run. Versions of a tool write an error with and without capitals: it is
// one error, with the text that comes first in order. It returns nil if the error is a new one and there are maxErrors.
func (x *Errors) sighting(seen *[]*sighting, tool, text string) *sighting {
	key := errorKey{tool, strings.ToLower(text)}
	st := x.stats[key]
	if st == nil {
		if len(x.stats) >= maxErrors {
			return nil
		}
		st = &errorStat{tool: tool, text: text, own: map[string]bool{}, remedies: map[string]*remedyStat{}}
		x.stats[key] = st
	}
	st.text = min(st.text, text)
	for _, g := range *seen {
		if g.stat == st {
			return g
		}
	}
	g := &sighting{stat: st}
	*seen = append(*seen, g)
	return g
}
