package rules

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"slices"
	"strings"

	"debrief/events"
)

// Errors collects the errors of tools in many runs, with the changes after which the calls worked. Its memory is bounded for any number
// of runs. It is not safe for concurrent use.
type Errors struct {
	failures map[failureKey]*failure
	usual    map[string]*usualCalls // by the name of an act

	seed     maphash.Seed
	contents map[uint64]uint64 // by the hash of a question and its calls: the hash of the first task that had them
}

// failureKey is the name of an act and the text of its error in lower case: versions of a tool write an error with and without capitals.
type failureKey struct{ name, text string }

// Limits of a collection. Beyond them, the first ones are kept.
const (
	maxErrors   = 4096
	maxMessages = 64      // failed acts of a run
	maxContents = 1 << 20 // runs that are compared with later ones to find copies
)

// NewErrors returns a collection without runs.
func NewErrors() *Errors {
	return &Errors{
		failures: map[failureKey]*failure{}, usual: map[string]*usualCalls{},
		seed: maphash.MakeSeed(), contents: map[uint64]uint64{},
	}
}

// isCopy reports whether another task has a run with the same question and the same calls. Tasks with different names and the same content
// are one task.
func (x *Errors) isCopy(e *events.Execution, task string) bool {
	var h maphash.Hash
	h.SetSeed(x.seed)
	add := func(s string) { fmt.Fprintf(&h, "%d %s", len(s), s) }
	add(e.Question)
	add(e.Context)
	calls := 0
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			add(e.Steps[i].Calls[j].Tool)
			add(e.Steps[i].Calls[j].Arguments)
			calls++
		}
	}
	content, name := h.Sum64(), maphash.String(x.seed, task)
	first, ok := x.contents[content]
	if !ok && len(x.contents) < maxContents {
		x.contents[content] = name
	}
	return ok && first != name && calls > 0
}

// add counts the errors of a run, each once, with the changes that were tried after it.
func (x *Errors) add(e *events.Execution, r *run, task string) {
	r.readMessages()
	x.addUsual(r.acts)
	pairs := map[*failure][]*pair{}
	for i := range r.acts {
		a := &r.acts[i]
		f := x.failureOf(a)
		if f == nil {
			continue
		}
		f.addNames(a)
		tried := pairs[f]
		if p := nextAttempt(r.acts, i); p != nil {
			f.addNames(p.next)
			tried = append(tried, p)
		}
		pairs[f] = tried // also if empty: the run has the error
	}
	for f, tried := range pairs {
		f.count(cmp.Or(task, e.Session, e.RunID), e.ID, tried)
	}
}

// readMessages sets the messages of failed acts, at most maxMessages.
func (r *run) readMessages() {
	n := 0
	for i := range r.acts {
		if a := &r.acts[i]; a.state == failed && n < maxMessages {
			a.message = newMessage(a.call.Output)
			n++
		}
	}
}

// failureOf returns the entry of the error of an act, and adds it if the error is new. It returns nil for an act without a message, and for a
// new error beyond maxErrors.
func (x *Errors) failureOf(a *act) *failure {
	key := failureKey{a.name, strings.ToLower(a.message.text)}
	f := x.failures[key]
	if f == nil {
		if key.text == "" || len(x.failures) >= maxErrors {
			return nil
		}
		f = &failure{tool: a.name, text: a.message.text, names: map[string]bool{}, changes: map[string]*tally{}}
		x.failures[key] = f
	}
	f.text = min(f.text, a.message.text) // of the spellings in upper and lower case, the same one in any order of the runs
	return f
}

// sorted returns the errors in the order of their names and texts.
func (x *Errors) sorted() []*failure {
	return slices.SortedFunc(maps.Values(x.failures), func(f, g *failure) int {
		return cmp.Or(strings.Compare(f.tool, g.tool), strings.Compare(f.text, g.text))
	})
}

// Known is an error of a tool that agents met again although they could read it. It is a report for people and no lesson:
// its text is that of the tool.
type Known struct {
	Tool      string `json:"tool"`
	Error     string `json:"error"` // one clean line with placeholders
	Runs      int    `json:"runs"`
	Tasks     int    `json:"tasks"`     // at most 16
	Repeated  int    `json:"repeated"`  // runs in which another attempt had the same error
	Unchanged int    `json:"unchanged"` // runs in which the same call had the same error again
}

const (
	minRepeats = 2  // runs in which agents repeated an error
	maxKnown   = 20 // errors of a report
)

// Known returns the errors that agents repeated in several runs and tasks, the most frequent ones first, at most maxKnown.
func (x *Errors) Known() []Known {
	var all []Known
	for _, f := range x.sorted() {
		if f.repeated >= minRepeats && len(f.tasks) >= minTasks {
			all = append(all, Known{Tool: f.tool, Error: f.text, Runs: f.runs, Tasks: len(f.tasks), Repeated: f.repeated, Unchanged: f.unchanged})
		}
	}
	slices.SortStableFunc(all, func(a, b Known) int { return cmp.Compare(b.Runs, a.Runs) })
	return all[:min(len(all), maxKnown)]
}

// usualCalls counts the pairs of acts of one name that both worked, and how often each other name stands between the two.
type usualCalls struct {
	pairs   int
	between map[string]int
}

const (
	maxUsual   = 1024 // names with such pairs, and pairs of one name
	maxBetween = 64   // names between the acts of one name
)

// addUsual counts the pairs of acts of a run that worked.
func (x *Errors) addUsual(acts []act) {
	last := map[string]int{}
	for i := range acts {
		a := &acts[i]
		from, ok := last[a.name]
		last[a.name] = i
		bothWorked := ok && acts[from].state == worked && a.state == worked
		if !bothWorked || acts[from].step == a.step || i-from > maxDistance+1 {
			continue
		}
		u := x.usual[a.name]
		if u == nil && len(x.usual) < maxUsual {
			u = &usualCalls{between: map[string]int{}}
			x.usual[a.name] = u
		}
		if u == nil || u.pairs >= maxUsual {
			continue
		}
		u.pairs++
		seen := map[string]bool{}
		for _, b := range actsBetween(acts[from+1:i], &acts[from], a) {
			if _, ok := u.between[b.name]; !seen[b.name] && (ok || len(u.between) < maxBetween) {
				u.between[b.name]++
			}
			seen[b.name] = true
		}
	}
}
