package rules

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/shell"
)

// A habit is something that a run did or did not do in a situation, such as "before `book`, call `get_user`" in runs that called
// `book`. Runs of one task that have the habit are compared with those that lack it; see compare.go.

// habit describes a habit.
type habit struct {
	situation factKey // a run is compared only if it was in the situation
	about     string  // the tool or program that the advice asks for
	section   string
	// advice is the text of the bullet if runs with the habit succeed more often, avoid if they fail more often. An empty text
	// gives no bullet.
	advice, avoid string
}

// factKey identifies a habit or a situation in all runs. Its texts are clean.
type factKey struct {
	name        string // of a pattern, or "run", "used", "order", "repeat"
	first, then string // names or labels of acts
	by          string // the argument that relates them
}

// anyRun is the situation of all runs.
var anyRun = factKey{name: "run"}

func compareKeys(a, b factKey) int {
	return cmp.Or(strings.Compare(a.name, b.name), strings.Compare(a.first, b.first), strings.Compare(a.then, b.then), strings.Compare(a.by, b.by))
}

// Sections of the playbooks of the ACE authors.
const (
	strategies = "strategies_and_hard_rules"
	heuristics = "problem_solving_heuristics"
	checklist  = "verification_checklist"
	mistakes   = "common_mistakes_to_avoid"
)

// pattern is a habit of two calls with known kinds, in order.
type pattern struct {
	name        string // its keys begin with it
	first, then kind
	anchor      anchor
	related     relation
	byArguments bool // related compares arguments
	times       int  // minimum number of different first calls; 0 means one
	section     string
	text        string // format: %[1]s is the first call, %[2]s the second, %[3]s the relation
}

// anchor selects the call that puts a run into the situation.
type anchor int

const (
	onThen  anchor = iota // "before THEN, do FIRST": the first THEN
	onFirst               // "after FIRST, do THEN": the last FIRST
	onReads               // "do FIRST several times before the first change"
)

const (
	lists    = shell.Lists
	searches = shell.Searches
	reads    = shell.Reads
	tests    = shell.Tests
)

// patterns are those of swecli's execution reflector.
var patterns = []pattern{
	{name: "list-before-read", first: lists, then: reads, related: inFolder, section: strategies, text: "Before %[2]s, list the folder with %[1]s."},
	{name: "read-before-write", first: reads | looksUp, then: writing | changes, related: sameThing, byArguments: true, section: strategies, text: "Before %[2]s, read what it is about with %[1]s (same %[3]s)."},
	{name: "related-reads", first: reads | looksUp, anchor: onReads, times: 3, section: strategies, text: "Call %[1]s for several %[3]s, 3 or more, before the first change."},
	{name: "search-before-read", first: searches, then: reads, related: anything, section: heuristics, text: "Before %[2]s, search with %[1]s."},
	{name: "explore", first: searches, anchor: onReads, times: 2, section: heuristics, text: "Search with %[1]s for several %[3]s, 2 or more, before the first change."},
	{name: "grep-then-read", first: searches, then: reads, related: foundIt, section: heuristics, text: "Choose what to read with %[2]s by what %[1]s has found."},
	{name: "tests-after-edit", first: writing, then: tests, anchor: onFirst, related: anything, section: checklist, text: "After the last %[1]s, run %[2]s."},
	{name: "read-tests-first", first: reads, then: tests, related: testFile, section: checklist, text: "Before %[2]s, read the tests with %[1]s."},
	{name: "test-first", first: tests, then: writing, related: anotherFile, section: checklist, text: "Before the first %[2]s, see it fail with %[1]s."},
	{name: "install-before-run", first: shell.Installs, then: shell.Runs | tests | shell.Builds, related: anything, section: strategies, text: "Before %[2]s, install what it needs with %[1]s."},
	{name: "build-before-test", first: shell.Builds, then: tests, related: anything, section: strategies, text: "Before %[2]s, build with %[1]s."},
	{name: "status-before-change", first: shell.InspectsVCS, then: shell.ChangesVCS, related: anything, section: strategies, text: "Before %[2]s, look at %[1]s."},
}

// Limits of a run.
const (
	maxTools = 24 // tools and labels whose order is analysed, by their first call
	maxNames = 4  // names of arguments in a text
)

// observations are the facts of one run by key, each with a function that describes the habit. The function of a situation is nil.
type observations map[factKey]func() habit

// observe returns the situations of a run and its habits.
func (r *run) observe() observations {
	o := observations{anyRun: nil}
	r.observeTools(o)
	r.observeRepeats(o)
	for i := range patterns {
		if p := &patterns[i]; p.anchor == onReads {
			r.observeSeries(o, p)
		} else {
			r.observePairs(o, p)
		}
	}
	return o
}

// observeTools reports the tools that were used, and the order of their first calls.
func (r *run) observeTools(o observations) {
	var tools []string
	for _, c := range r.calls {
		if name := quote(c.Tool, maxName); len(tools) < maxTools && !slices.Contains(tools, name) {
			tools = append(tools, name)
		}
	}
	for i, tool := range tools {
		used := factKey{name: "used", then: tool}
		o[used] = func() habit {
			return habit{
				situation: anyRun, about: tool, section: strategies,
				advice: fmt.Sprintf("Call `%s`: runs that did so succeeded more often than other runs of the same task.", tool),
				avoid:  fmt.Sprintf("Try to do without `%s`: runs that called it failed more often than other runs of the same task.", tool),
			}
		}
		for _, earlier := range tools[:i] {
			o[factKey{name: "order", first: earlier, then: tool}] = func() habit {
				return habit{
					situation: used, about: earlier, section: strategies,
					advice: fmt.Sprintf("Before `%s`, call `%s` first.", tool, earlier),
					avoid:  fmt.Sprintf("Do not call `%s` before `%s`.", earlier, tool),
				}
			}
		}
	}
}

// observeRepeats reports calls that could not return anything new: the same tool with the same arguments gave the same answer
// again, and all calls in between only read. Any other call may have changed something, so a repetition after it is useful.
func (r *run) observeRepeats(o observations) {
	type question struct{ tool, arguments string }
	answers := map[question]string{} // since the last call that may have changed something, that call included
	for _, c := range r.calls {
		q := question{c.Tool, c.parsed.canonical()}
		if last, ok := answers[q]; ok && last == c.Output && c.Outcome != events.Unknown {
			tool := quote(c.Tool, maxName)
			o[factKey{name: "repeat", then: tool}] = func() habit {
				return habit{
					situation: factKey{name: "used", then: tool}, about: tool, section: mistakes,
					avoid: fmt.Sprintf("Do not call `%s` again with the same arguments if nothing has changed: it gives the same answer.", tool),
				}
			}
		}
		if !c.harmless {
			clear(answers)
		}
		if c.Outcome != events.Unknown {
			answers[q] = c.Output
		}
	}
}

// observePairs reports the pairs of calls that a pattern relates. For each label of the kind p.then, it looks for p.first before the first
// call with the label. If the anchor of the pattern is p.first, it looks for p.then after the last call with each label of the kind p.first.
func (r *run) observePairs(o observations, p *pattern) {
	after := p.anchor == onFirst
	anchors := firsts(r.acts, p.then)
	if after {
		anchors = lasts(r.acts, p.first)
	}
	for _, i := range anchors {
		anchored, others := &r.acts[i], r.acts[:i]
		situation := factKey{name: p.name, then: anchored.label.key()}
		if after {
			others = r.acts[i+1:]
			situation = factKey{name: p.name, first: anchored.label.key()}
		}
		if p.byArguments {
			isUnreadable := func(a act) bool { return a.kind&p.first != 0 && a.unreadable() }
			if anchored.unreadable() || slices.ContainsFunc(others, isUnreadable) {
				continue // it cannot be decided whether the run has the habit
			}
		}
		o[situation] = nil
		seen := map[label]bool{}
		for j := range others {
			other := &others[j]
			first, then := other, anchored
			if after {
				first, then = anchored, other
			}
			isNew := first.label != then.label && !seen[other.label]
			isUseless := !after && first.state == failed && first.kind&tests == 0 // "before THEN, do FIRST" with a FIRST that failed; a failed test shows the problem
			if !isNew || isUseless || first.kind&p.first == 0 || then.kind&p.then == 0 {
				continue
			}
			if by, ok := p.related(first, then); ok {
				seen[other.label] = true
				o.add(p, situation, first, then, other, by)
			}
		}
	}
}

// observeSeries reports the calls of each label of the kind p.first that were made for several objects before the first change.
func (r *run) observeSeries(o observations, p *pattern) {
	things := map[label]map[string]bool{} // by the label of the calls: the objects
	for _, i := range firsts(r.acts, p.first) {
		o[factKey{name: p.name, first: r.acts[i].label.key()}] = nil
		things[r.acts[i].label] = map[string]bool{}
	}
	for i := range r.acts {
		a := &r.acts[i]
		if a.state == failed {
			continue
		}
		if a.kind&(writing|changes|shell.ChangesVCS) != 0 {
			return // only the acts before the first change count
		}
		seen := things[a.label]
		if seen == nil || a.kind&p.first == 0 {
			continue
		}
		seen[cmp.Or(a.path, a.arguments.canonical())] = true
		if len(seen) == p.times {
			o.add(p, factKey{name: p.name, first: a.label.key()}, a, a, a, a.argumentNames())
		}
	}
}

// add adds the habit of two related calls. The advice asks for the call about.
func (o observations) add(p *pattern, situation factKey, first, then, about *act, by string) {
	o[factKey{name: p.name, first: first.label.key(), then: then.label.key(), by: by}] = func() habit {
		return habit{situation: situation, about: about.name, section: p.section, advice: fmt.Sprintf(p.text, first.label, then.label, by)}
	}
}

// firsts returns the indices of the first act of every label of a kind, at most maxTools.
func firsts(acts []act, k kind) (found []int) {
	seen := map[label]bool{}
	for i := range acts {
		if a := &acts[i]; a.kind&k != 0 && len(found) < maxTools && !seen[a.label] {
			seen[a.label] = true
			found = append(found, i)
		}
	}
	return found
}

// lasts returns the indices of the last act of every label of a kind, at most maxTools.
func lasts(acts []act, k kind) (found []int) {
	seen := map[label]bool{}
	for i := len(acts) - 1; i >= 0 && len(found) < maxTools; i-- {
		if a := &acts[i]; a.kind&k != 0 && !seen[a.label] {
			seen[a.label] = true
			found = append(found, i)
		}
	}
	return found
}

// argumentNames names the arguments in which calls of one label differ.
func (a *act) argumentNames() string {
	names := slices.Sorted(maps.Keys(a.arguments.fields))
	switch {
	case a.path != "":
		return "files"
	case len(names) == 0:
		return "arguments"
	}
	names = names[:min(len(names), maxNames)]
	for i, name := range names {
		names[i] = quote(name, maxName)
	}
	return strings.Join(names, ", ")
}

// unreadable reports whether the arguments of a function are not JSON.
func (a *act) unreadable() bool { return a.arguments.text != "" && a.arguments.words == nil }

// relation reports whether two calls are related, and by which argument, if any.
type relation func(first, then *act) (by string, ok bool)

func anything(_, _ *act) (string, bool) { return "", true }

// sameThing requires the same file, or an argument with the same name and value. It returns the first such name.
func sameThing(first, then *act) (string, bool) {
	if first.path != "" && then.path != "" {
		return "file", samePath(first.path, then.path)
	}
	for _, name := range slices.Sorted(maps.Keys(first.arguments.fields)) {
		if v := first.arguments.fields[name]; identifies(v) && reflect.DeepEqual(v, then.arguments.fields[name]) {
			return quote(name, maxName), true
		}
	}
	return "", false
}

func samePath(a, b string) bool {
	return a == b || strings.HasSuffix(a, "/"+b) || strings.HasSuffix(b, "/"+a)
}

// inFolder requires that the second call is about a file, because a listing of a folder says nothing about other objects.
func inFolder(_, then *act) (string, bool) { return "", then.path != "" || then.editor }

func testFile(first, _ *act) (string, bool) { return "", first.path != "" && isTest(first.path) }

// anotherFile requires that the written file is not the test itself.
func anotherFile(first, then *act) (string, bool) {
	return "", then.path == "" || first.path == "" || !samePath(first.path, then.path)
}

// foundIt requires that the search printed the name of the file.
func foundIt(first, then *act) (string, bool) {
	base, out := path.Base(then.path), first.call.Output
	return "", then.path != "" && len(base) > 2 && strings.Contains(out[:min(len(out), 16<<10)], base)
}
