package rules

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"debrief/events"
)

// A habit is something that a run did or did not do in a situation, such as "before `book`, call `get_user`" in runs that called
// `book`. Runs of one task that have the habit are compared with those that lack it; see package contrast.

// habit describes a habit.
type habit struct {
	key       string
	number    uint32 // in an Analysis, by first use
	situation string // key; a run is compared only if it was in the situation
	about     string // the tool or program that the advice asks for
	section   string
	// advice is the text of the bullet if runs with the habit succeed more often, avoid if they fail more often. An empty text
	// gives no bullet.
	advice, avoid string
}

// pattern is a habit of two calls with known kinds, in order.
type pattern struct {
	name        string // its keys begin with it
	first, then kind
	about       anchor
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

// Sections of the playbooks of the ACE authors.
const (
	strategies = "strategies_and_hard_rules"
	heuristics = "problem_solving_heuristics"
	checklist  = "verification_checklist"
	mistakes   = "common_mistakes_to_avoid"
)

// patterns are those of swecli's execution reflector.
var patterns = []pattern{
	{name: "list-before-read", first: lists, then: reads, related: inFolder, section: strategies, text: "Before %[2]s, list the folder with %[1]s."},
	{name: "read-before-write", first: reads | looksUp, then: writes | changes, related: sameThing, byArguments: true, section: strategies, text: "Before %[2]s, read what it is about with %[1]s (same %[3]s)."},
	{name: "related-reads", first: reads | looksUp, about: onReads, times: 3, section: strategies, text: "Call %[1]s for several %[3]s, 3 or more, before the first change."},
	{name: "search-before-read", first: searches, then: reads, related: anything, section: heuristics, text: "Before %[2]s, search with %[1]s."},
	{name: "explore", first: searches, about: onReads, times: 2, section: heuristics, text: "Search with %[1]s for several %[3]s, 2 or more, before the first change."},
	{name: "grep-then-read", first: searches, then: reads, related: foundIt, section: heuristics, text: "Choose what to read with %[2]s by what %[1]s has found."},
	{name: "tests-after-edit", first: writes, then: tests, about: onFirst, related: anything, section: checklist, text: "After the last %[1]s, run %[2]s."},
	{name: "read-tests-first", first: reads, then: tests, related: testFile, section: checklist, text: "Before %[2]s, read the tests with %[1]s."},
	{name: "test-first", first: tests, then: writes, related: anotherFile, section: checklist, text: "Before the first %[2]s, see it fail with %[1]s."},
	{name: "install-before-run", first: installs, then: runs | tests | builds, related: anything, section: strategies, text: "Before %[2]s, install what it needs with %[1]s."},
	{name: "build-before-test", first: builds, then: tests, related: anything, section: strategies, text: "Before %[2]s, build with %[1]s."},
	{name: "status-before-change", first: inspectsVCS, then: changesVCS, related: anything, section: strategies, text: "Before %[2]s, look at %[1]s."},
}

// Limits of a run.
const (
	maxTools = 24  // tools and labels whose order is analysed, by their first call
	maxName  = 64  // runes of the name of a tool or an argument
	maxNames = 4   // names of arguments in a text
	maxKey   = 200 // bytes of a key
)

// run is an execution as calls and their acts.
type run struct {
	calls []*events.ToolCall
	acts  []act

	canonicalArgs []string // computed on first use
}

func newRun(e *events.Execution) *run {
	t := &run{}
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			t.calls = append(t.calls, &e.Steps[i].Calls[j])
		}
	}
	t.acts = acts(t.calls)
	return t
}

// anyRun is the situation of all runs.
const anyRun = "run"

// observer receives the situations and the habits of one run. describe is called only if the text is needed.
type observer interface {
	situation(key string)
	habit(key string, describe func() habit)
}

// observe reports the situations of a run and its habits, each once.
func (t *run) observe(o observer) {
	o.situation(anyRun)
	t.observeTools(o)
	t.observeRepeats(o)
	for i := range patterns {
		t.observePattern(o, &patterns[i])
	}
}

// observeTools reports the tools that were used, and the order of their first calls.
func (t *run) observeTools(o observer) {
	var tools []string
	for _, c := range t.calls {
		if len(tools) < maxTools && !slices.Contains(tools, c.Tool) {
			tools = append(tools, c.Tool)
		}
	}
	for i, tool := range tools {
		name := clean(tool, maxName)
		used := key("used", tool)
		o.situation(used)
		o.habit(used, func() habit {
			return habit{
				situation: anyRun, about: tool, section: strategies,
				advice: fmt.Sprintf("Call `%s`: runs that did so succeeded more often than other runs of the same task.", name),
				avoid:  fmt.Sprintf("Try to do without `%s`: runs that called it failed more often than other runs of the same task.", name),
			}
		})
		for _, earlier := range tools[:i] {
			o.habit(key("order", earlier, tool), func() habit {
				first := clean(earlier, maxName)
				return habit{
					situation: used, about: earlier, section: strategies,
					advice: fmt.Sprintf("Before `%s`, call `%s` first.", name, first),
					avoid:  fmt.Sprintf("Do not call `%s` before `%s`.", first, name),
				}
			})
		}
	}
}

// sameAnswers returns the tools that gave an answer twice. The arguments of other tools need no comparison, which is slow.
func (t *run) sameAnswers() map[string]bool {
	type answer struct{ tool, output string }
	seen, same := make(map[answer]bool, len(t.calls)), map[string]bool{}
	for _, c := range t.calls {
		if c.Outcome == events.Unknown {
			continue
		}
		a := answer{c.Tool, c.Output}
		if seen[a] {
			same[c.Tool] = true
		}
		seen[a] = true
	}
	return same
}

// observeRepeats reports calls that could not return anything new: the same tool with the same arguments gave the same answer
// again, and all calls in between only read. Any other call may have changed something, so a repetition after it is useful.
func (t *run) observeRepeats(o observer) {
	type question struct{ tool, arguments string }
	type answer struct {
		output  string
		changes int // calls so far that may have changed something, including this one
	}
	same := t.sameAnswers()
	answers := map[question]answer{}
	changes := 0
	for i, c := range t.calls {
		before := changes
		if !onlyReads(c) {
			changes++
		}
		if c.Outcome == events.Unknown || !same[c.Tool] {
			continue // no answer, or no other call has the same
		}
		q := question{c.Tool, t.canonical(i)}
		last, asked := answers[q]
		answers[q] = answer{c.Output, changes}
		if asked && last.changes == before && last.output == c.Output {
			o.habit(key("repeat", c.Tool), func() habit {
				return habit{
					situation: key("used", c.Tool), about: c.Tool, section: mistakes,
					avoid: fmt.Sprintf("Do not call `%s` again with the same arguments if nothing has changed: it gives the same answer.", clean(c.Tool, maxName)),
				}
			})
		}
	}
}

// readVerbs are first words of names of tools that only read. Any other tool counts as a change, also one that moves a
// view (open, scroll), because the next call depends on it.
var readVerbs = map[string]bool{
	"calculate": true, "cat": true, "count": true, "describe": true, "fetch": true, "find": true, "get": true, "grep": true,
	"list": true, "lookup": true, "ls": true, "query": true, "read": true, "retrieve": true, "search": true, "show": true,
	"think": true, "view": true,
}

// onlyReads reports whether the name of a tool shows that it only reads: get_user, listFiles, search-code. A ">" in
// the arguments may be a shell redirection that writes.
func onlyReads(c *events.ToolCall) bool {
	word := strings.TrimLeft(c.Tool, "_")
	if end := strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }); end > 0 {
		word = word[:end]
	}
	return readVerbs[word] && !strings.Contains(c.Arguments, ">")
}

// observePattern reports the situations and habits of one pattern.
func (t *run) observePattern(o observer, p *pattern) {
	switch p.about {
	case onThen:
		t.observeBefore(o, p)
	case onFirst:
		t.observeAfter(o, p)
	case onReads:
		for _, s := range readSeries(t, p.first) {
			situation := key("did", p.name, s.label.key())
			o.situation(situation)
			if s.things >= p.times {
				t.habit(o, p, situation, s.label, s.label, s.label, s.of)
			}
		}
	}
}

// observeBefore reports what happened before the first call of each label of the kind p.then.
func (t *run) observeBefore(o observer, p *pattern) {
	for _, i := range firsts(t.acts, p.then) {
		then := &t.acts[i]
		if !p.isComparable(t.acts[:i], then) {
			continue
		}
		about := then.label()
		situation := key("did", p.name, about.key())
		o.situation(situation)
		seen := map[label]bool{}
		for j := range t.acts[:i] {
			first := &t.acts[j]
			if first.kind&p.first == 0 || first.failed && first.kind&tests == 0 || seen[first.label()] || first.label() == about {
				continue
			}
			if by, ok := p.related(t, first, then); ok {
				seen[first.label()] = true
				t.habit(o, p, situation, first.label(), about, first.label(), by)
			}
		}
	}
}

// observeAfter reports what happened after the last call of each label of the kind p.first.
func (t *run) observeAfter(o observer, p *pattern) {
	for _, i := range lasts(t.acts, p.first) {
		first := &t.acts[i]
		situation := key("did", p.name, first.label().key())
		o.situation(situation)
		seen := map[label]bool{}
		for j := i + 1; j < len(t.acts); j++ {
			then := &t.acts[j]
			if then.kind&p.then == 0 || seen[then.label()] {
				continue
			}
			if by, ok := p.related(t, first, then); ok {
				seen[then.label()] = true
				t.habit(o, p, situation, first.label(), then.label(), then.label(), by)
			}
		}
	}
}

// isComparable reports whether it can be decided if one of the earlier acts is related to a call. A run with arguments that are
// not readable belongs to neither side of the comparison.
func (p *pattern) isComparable(earlier []act, then *act) bool {
	if !p.byArguments {
		return true
	}
	return !then.unreadable && !slices.ContainsFunc(earlier, func(a act) bool { return a.kind&p.first != 0 && a.unreadable })
}

func (t *run) habit(o observer, p *pattern, situation string, first, then, about label, by string) {
	o.habit(key(p.name, first.key(), then.key(), by), func() habit {
		return habit{situation: situation, about: about.word, section: p.section, advice: fmt.Sprintf(p.text, first, then, by)}
	})
}

// firsts returns the indices of the first act of every label of a kind, at most maxTools.
func firsts(acts []act, k kind) (at []int) {
	seen := map[label]bool{}
	for i := range acts {
		if a := &acts[i]; a.kind&k != 0 && len(at) < maxTools && !seen[a.label()] {
			seen[a.label()] = true
			at = append(at, i)
		}
	}
	return at
}

// lasts returns the indices of the last act of every label of a kind, at most maxTools.
func lasts(acts []act, k kind) (at []int) {
	seen := map[label]bool{}
	for i := len(acts) - 1; i >= 0 && len(at) < maxTools; i-- {
		if a := &acts[i]; a.kind&k != 0 && !seen[a.label()] {
			seen[a.label()] = true
			at = append(at, i)
		}
	}
	slices.Reverse(at)
	return at
}

// series counts the different objects of the calls of one label before the first change.
type series struct {
	label  label
	things int
	of     string // the argument that differs: names of arguments, or "files"
}

func readSeries(t *run, k kind) []series {
	var found []series
	at := map[label]int{}
	seen := map[string]bool{}
	changed := false
	for i := range t.acts {
		a := &t.acts[i]
		changed = changed || a.kind&(writes|changes|changesVCS) != 0 && !a.failed
		if a.kind&k == 0 {
			continue
		}
		l := a.label()
		n, ok := at[l]
		if !ok {
			if len(found) == maxTools {
				continue
			}
			n = len(found)
			at[l] = n
			found = append(found, series{label: l, of: a.argumentNames()})
		}
		if changed || a.failed {
			continue
		}
		if thing := l.key() + "\x00" + t.thing(a); !seen[thing] {
			seen[thing] = true
			found[n].things++
		}
	}
	return found
}

// argumentNames names the arguments in which calls of one label differ.
func (a *act) argumentNames() string {
	switch {
	case a.path != "":
		return "files"
	case len(a.args) > 0:
		names := make([]string, 0, len(a.args))
		for name := range a.args {
			names = append(names, clean(name, maxName))
		}
		slices.Sort(names)
		return list(names)
	}
	return "arguments"
}

func (t *run) thing(a *act) string {
	if a.path != "" {
		return a.path
	}
	return t.canonical(a.call)
}

// relation reports whether two calls are related, and by which argument, if any.
type relation func(t *run, first, then *act) (by string, ok bool)

func anything(*run, *act, *act) (string, bool) { return "", true }

// sameThing requires the same file, or an argument with the same name and value. It returns the first such name.
func sameThing(_ *run, first, then *act) (string, bool) {
	if first.path != "" && then.path != "" {
		return "file", samePath(first.path, then.path)
	}
	by := ""
	for name, v := range first.args {
		w, ok := then.args[name]
		if ok && (by == "" || name < by) && len(v) > 2 && len(v) <= maxArgument && v[0] != '{' && v[0] != '[' && string(v) == string(w) &&
			string(v) != "true" && string(v) != "false" && string(v) != "null" {
			by = name
		}
	}
	if by == "" {
		return "", false
	}
	return clean(by, maxName), true
}

func samePath(a, b string) bool {
	return a == b || strings.HasSuffix(a, "/"+b) || strings.HasSuffix(b, "/"+a)
}

// inFolder requires a file: a listing is not related to other objects.
func inFolder(_ *run, _, then *act) (string, bool) { return "", then.path != "" || then.editor }

func testFile(_ *run, first, _ *act) (string, bool) {
	return "", first.path != "" && isTest(first.path)
}

// anotherFile requires that the written file is not the test itself.
func anotherFile(_ *run, first, then *act) (string, bool) {
	return "", then.path == "" || first.path == "" || !samePath(first.path, then.path)
}

// foundIt requires that the search printed the name of the file.
func foundIt(t *run, first, then *act) (string, bool) {
	if then.path == "" {
		return "", false
	}
	base := path.Base(then.path)
	out := t.calls[first.call].Output
	return "", len(base) > 2 && strings.Contains(out[:min(len(out), 16<<10)], base)
}
