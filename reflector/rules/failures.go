package rules

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// Limits of the counts of one error. Beyond them, the first ones are kept.
const (
	maxChanges = 32
	maxTasks   = 16  // distinct tasks
	maxOwn     = 64  // names that a lesson may quote
	maxObject  = 200 // bytes of the name of an object
	minObjects = 3   // objects for which a value must have worked if no error names the value; more are not counted
)

// failure is one error of one tool in all runs. Its texts are clones, because the collection keeps no memory of the executions.
type failure struct {
	tool, text string
	names      map[string]bool // names in the calls that a lesson may quote, in lower case
	runs       int
	repeated   int // runs in which another attempt had the error again
	unchanged  int // runs in which an attempt with equal arguments had the error again
	tasks      []string
	pairs      attempts
	changes    map[string]*tally // by change.advice
}

// attempts counts the attempts after an error that worked, and those that had the same error.
type attempts struct{ worked, again int }

func (n *attempts) add(m attempts) {
	n.worked += m.worked
	n.again += m.again
}

// tally counts one change after one error.
type tally struct {
	change
	pairs    attempts
	runs     attempts            // runs with such a pair
	alone    int                 // pairs that worked with no other change
	named    int                 // pairs that worked and whose error has the new value or the name of the new argument
	tasks    []string            // in which the change worked
	objects  map[string][]string // by the name of an argument: values that both calls have, in pairs where the change worked
	examples []events.ID
}

// addNames adds the names in an act that a lesson may quote.
func (f *failure) addNames(a *act) {
	for _, name := range append(strings.Fields(a.name), slices.Sorted(maps.Keys(a.arguments.fields))...) {
		if len(f.names) < maxOwn && isName(name) {
			f.names[strings.ToLower(strings.Clone(name))] = true
		}
	}
}

// count adds one run with the error and its pairs.
func (f *failure) count(task string, id events.ID, pairs []*pair) {
	f.runs++
	f.tasks = addNew(f.tasks, strings.Clone(task), maxTasks)
	var all attempts
	unchanged := false
	changes := map[*tally]*attempts{}
	for _, p := range pairs {
		n := p.result()
		all.add(n)
		unchanged = unchanged || p.unchanged && n.again > 0
		if n == (attempts{}) {
			continue // another error, or an unknown result
		}
		for _, t := range f.tallies(p) {
			t.add(p)
			if changes[t] == nil {
				changes[t] = &attempts{}
			}
			changes[t].add(n)
		}
	}
	f.pairs.add(all)
	f.repeated += min(all.again, 1)
	if unchanged {
		f.unchanged++
	}
	for t, n := range changes {
		t.runs.add(attempts{min(n.worked, 1), min(n.again, 1)})
		if n.worked > 0 {
			t.tasks = addNew(t.tasks, strings.Clone(task), maxTasks)
			t.examples = addNew(t.examples, events.ID(strings.Clone(string(id))), maxExamples)
		}
	}
}

// addNew adds a value that the list lacks, up to a limit.
func addNew[T comparable](list []T, v T, limit int) []T {
	if len(list) >= limit || slices.Contains(list, v) {
		return list
	}
	return append(list, v)
}

// tallies returns the tallies of the changes of a pair, each once. It leaves out changes whose text may not be in a lesson.
func (f *failure) tallies(p *pair) []*tally {
	var found []*tally
	for _, c := range slices.Concat(p.differences...) {
		t := f.changes[c.advice]
		if t == nil && len(f.changes) < maxChanges && namesOnly(c.advice) {
			t = &tally{change: c, objects: map[string][]string{}}
			f.changes[c.advice] = t
		}
		if t != nil {
			found = addNew(found, t, maxChanges)
		}
	}
	return found
}

// add counts a pair.
func (t *tally) add(p *pair) {
	n := p.result()
	t.pairs.add(n)
	if n.worked == 0 {
		return
	}
	if p.isOneChange() {
		t.alone++
	}
	if namesValue(p.failed.message.line, t.word) {
		t.named++
	}
	if t.rank != rankValue {
		return
	}
	after := p.next.arguments.fields
	for name, v := range p.failed.arguments.fields {
		isShared := identifies(v) && reflect.DeepEqual(v, after[name])
		hasRoom := t.objects[name] != nil || len(t.objects) < maxCompared // as many arguments as compareFields compares
		if isShared && hasRoom {
			t.objects[name] = addNew(t.objects[name], strings.Clone(text.Prefix(valueText(v), maxObject)), minObjects)
		}
	}
}

// forObjects reports whether a value worked for different objects, such as users, orders or files: each argument that the calls share had
// several values. An argument with one value in all runs may be the only object that they are about.
func (t *tally) forObjects() bool {
	for _, values := range t.objects {
		if len(values) < minObjects {
			return false
		}
	}
	return len(t.objects) > 0
}
