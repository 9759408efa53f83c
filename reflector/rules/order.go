package rules

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
)

const (
	orderText = "Before `%[2]s`, call `%[1]s` first: {helpful} of {base.helpful} successful runs that used `%[2]s` did, {harmful} of {base.harmful} failed ones."
	usedText  = "`%s` was used in {helpful} successful and {harmful} failed runs."
	kindText  = ": {helpful} of {base.helpful} successful runs that used %s did, {harmful} of {base.harmful} failed ones."
	erredText = ", as {helpful} of {base.helpful} successful runs with that answer did, and it worked, and {harmful} of {base.harmful} failed ones."
	hadText   = "%s answered \"%s\" in {helpful} successful and {harmful} failed runs."
	didText   = "%s was used in {helpful} successful and {harmful} failed runs."
)

// toolOrders finds the tools that were used, and the order of their first calls. It needs a known outcome, because
// only the difference between successes and failures is useful. Tools beyond the first maxTools are ignored.
func toolOrders(t *run, _ *rule) []events.Finding {
	if t.vote == events.Neutral {
		return nil
	}
	var tools []string
	seen := map[string]bool{}
	for _, c := range t.calls {
		if !seen[c.Tool] && len(tools) < maxTools {
			seen[c.Tool] = true
			tools = append(tools, c.Tool)
		}
	}
	var found []events.Finding
	for i, b := range tools {
		used := key("used", b)
		found = append(found, events.Finding{Key: used, CountOnly: true, Text: fmt.Sprintf(usedText, clean(b, maxName))})
		for _, a := range tools[:i] {
			found = append(found, events.Finding{
				Key:  key("order", a, b),
				Base: used,
				Text: fmt.Sprintf(orderText, clean(a, maxName), clean(b, maxName)),
			})
		}
	}
	return found
}

// patterns finds calls of two kinds in an order. Every run with a known outcome counts the call that the rule advises
// on, with or without the other call. The Curator compares with this count.
func patterns(t *run, r *rule) []events.Finding {
	var found []events.Finding
	count := func(l label) string {
		base := key("did", l.key())
		if t.vote != events.Neutral {
			found = append(found, events.Finding{Key: base, CountOnly: true, Text: fmt.Sprintf(didText, l)})
		}
		return base
	}
	add := func(base string, about label, text string, parts ...string) {
		found = append(found, events.Finding{Key: key(r.name, parts...), Base: base, Text: text + fmt.Sprintf(kindText, about)})
	}
	switch r.about {
	case onThen:
		for _, i := range firsts(t.acts, r.then) {
			then := &t.acts[i]
			about := then.label()
			base := count(about)
			seen := map[label]bool{}
			for j := range t.acts[:i] {
				first := &t.acts[j]
				if first.kind&r.first == 0 || first.failed && first.kind&tests == 0 || seen[first.label()] || first.label() == about {
					continue
				}
				if by, ok := r.when(t, first, then); ok {
					seen[first.label()] = true
					parts := []string{first.label().key(), about.key()}
					if by != "" {
						parts = append(parts, by)
					}
					add(base, about, fmt.Sprintf(r.text, first.label(), about, by), parts...)
				}
			}
		}
	case onFirst:
		for _, i := range lasts(t.acts, r.first) {
			first := &t.acts[i]
			about := first.label()
			base := count(about)
			seen := map[label]bool{}
			for j := i + 1; j < len(t.acts); j++ {
				then := &t.acts[j]
				if then.kind&r.then == 0 || seen[then.label()] {
					continue
				}
				if _, ok := r.when(t, first, then); ok {
					seen[then.label()] = true
					add(base, about, fmt.Sprintf(r.text, about, then.label()), about.key(), then.label().key())
				}
			}
		}
	case onReads:
		for _, s := range readSeries(t, r.first) {
			base := count(s.label)
			if s.things >= r.times {
				add(base, s.label, fmt.Sprintf(r.text, s.label, nil, s.of), s.label.key(), s.of)
			}
		}
	}
	return found
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

// Errors by the check that would have avoided them.
var (
	noFile         = compileOnce(`(?i)no such file|(?:file|path|directory|folder) .*(?:not found|does(?: not|n't) exist)|cannot (?:find|open|access)|not a directory|is a directory|FileNotFound|ENOENT`)
	noEnvironment  = compileOnce(`(?i)command not found|not recognized as|No module named|ModuleNotFound|ImportError|cannot import|not installed|No such command|missing dependenc|Could not find a version|not found: |cannot find (?:module|package)|permission denied`)
	noPrecondition = compileOnce(`(?i)not (?:enough|available|allowed|found|permitted|eligible|valid|match|add up)|does(?: not|n't) (?:exist|match|add up|belong)|already|must |missing|required|cannot|can't|insufficient|exceed|invalid|expired`)
)

func fileError(t *run, first, _ *act) (string, bool) { return t.errorMatching(first, noFile()) }

func environmentError(t *run, first, _ *act) (string, bool) {
	return t.errorMatching(first, noEnvironment())
}

func preconditionError(t *run, first, _ *act) (string, bool) {
	return t.errorMatching(first, noPrecondition())
}

// errorMatching returns the quoted error of a call, and whether it matches.
func (t *run) errorMatching(a *act, kinds *regexp.Regexp) (string, bool) {
	quote := t.quote(a.call)
	return quote, quote != "" && kinds.MatchString(quote)
}

// maxRemedyDistance is the maximum distance, in calls, between an error and the call that solved it.
const maxRemedyDistance = 4

// recoveries finds an error, then soon a call of another tool, then a call of the first tool that worked. The last
// call shows that the call in between helped.
func recoveries(t *run, r *rule) []events.Finding {
	var found []events.Finding
	for i := range t.acts {
		first := &t.acts[i]
		if !first.failed || first.kind&r.first == 0 {
			continue
		}
		quote, ok := r.when(t, first, nil)
		if !ok {
			continue
		}
		base := ""
		if r.compareRuns {
			base = key("erred", first.label().key(), quote)
			if t.vote != events.Neutral {
				found = append(found, events.Finding{Key: base, CountOnly: true, Text: fmt.Sprintf(hadText, first.label(), quote)})
			}
		}
		again := t.nextCalls()[first.call].again
		if again == noCall {
			continue
		}
		for j := i + 1; j < len(t.acts); j++ {
			then := &t.acts[j]
			if then.call >= again || then.call > first.call+maxRemedyDistance {
				break
			}
			if then.kind&r.then != 0 && !then.failed && then.word != first.word {
				found = append(found, events.Finding{
					Key:  key(r.name, first.label().key(), quote, then.label().key()),
					Base: base,
					Text: fmt.Sprintf(r.text, first.label(), then.label(), quote),
				})
				break
			}
		}
	}
	return found
}
