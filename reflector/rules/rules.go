// Package rules reflects on executions without a model: it finds patterns in the order and the results of tool calls.
// It keeps no state and does no I/O.
package rules

import "debrief/events"

// Version is the version of the rules. It is part of the ids of reflections. Increase it when a rule changes the
// key, text or vote of a finding.
const Version = "rules3"

// rule finds a pattern in one execution. A rule keeps no state between executions; the Curator sums findings over
// executions (see events.Finding).
//
// The vote of a finding is the outcome of the run, not of a tool call: an agent can recover from an error, and a run
// can fail without one.
type rule struct {
	category, name string // the keys of its findings begin with the name

	// first and then are the kinds of the two calls of a pattern, in order.
	first, then kind
	// about selects the call that the rule advises on. The Curator compares the runs with such a call.
	about anchor
	// when reports whether two calls are related, and by which argument.
	when  relation
	times int // minimum of different first calls; 0 means one

	// find implements a rule that is not a pattern of two kinds.
	find func(*run, *rule) []events.Finding
	// compareRuns compares runs with the error that followed the advice with runs that did not.
	compareRuns bool

	// confidence in percent that a finding teaches something, if the outcome of the run is known.
	confidence int
	section    string // of the bullet in the playbook
	text       string // format: %[1]s is the first call, %[2]s the second, %[3]s the relation or the error
	limit      int    // findings of one execution, the first ones
}

// anchor selects one of the two calls of a pattern.
type anchor int

const (
	onThen  anchor = iota // "before THEN, do FIRST": looks at the first THEN
	onFirst               // "after FIRST, do THEN": looks behind the last FIRST
	onReads               // "do FIRST several times before the first change"
)

// Sections of the playbooks of the ACE authors.
const (
	strategies = "strategies_and_hard_rules"
	heuristics = "problem_solving_heuristics"
	checklist  = "verification_checklist"
	pitfalls   = "troubleshooting_and_pitfalls"
	mistakes   = "common_mistakes_to_avoid"
)

// rules reflect without a model. Their categories are those of swecli's execution reflector.
//
// Patterns (first, then) occur in good and bad runs alike. So the finding has a Base, and the Curator shows the bullet
// only if successful runs followed it clearly more often than failed runs. Runs with an unknown outcome are not
// comparable: their findings have a confidence that is too low for a bullet.
//
// An error and its recovery are facts about the tool. They are shown at once, with the outcomes of the runs. Only
// refused changes are compared too, because between a refusal and the next attempt agents look up many unrelated
// things.
var rules = []rule{
	// Errors and recoveries.
	{category: "error handling", name: "error", find: toolErrors, confidence: 90, section: pitfalls, limit: 32},
	{
		category: "error handling", name: "list-on-file-error", find: recoveries, first: reads | writes | runs | tests | searches | lists | builds,
		then: lists | searches, when: fileError, confidence: 90, section: pitfalls, limit: 8,
		text: "%[1]s answered \"%[3]s\": look with %[2]s for what is there, then call it again, which worked " + tally + ".",
	},
	{
		category: "error handling", name: "verify-environment", find: recoveries, first: runs | tests | builds | installs | changesVCS | inspectsVCS, then: verifies | installs,
		when: environmentError, confidence: 90, section: pitfalls, limit: 8,
		text: "%[1]s answered \"%[3]s\": see to the environment with %[2]s, then run it again, which worked " + tally + ".",
	},
	{
		category: "error handling", name: "check-precondition", find: recoveries, first: changes, then: looksUp | searches | lists | reads | verifies,
		when: preconditionError, compareRuns: true, confidence: 75, section: pitfalls, limit: 8,
		text: "%[1]s answers \"%[3]s\": check that with %[2]s before the call" + erredText,
	},
	{category: "error handling", name: "repeat", find: repeatedCalls, confidence: 85, section: mistakes, limit: 32},

	// Order of tools, whatever they do.
	{category: "order", name: "order", find: toolOrders, confidence: 75, section: strategies, limit: maxTools * (maxTools + 1) / 2},

	// Patterns of kinds. A pattern that relates two calls to one object has more confidence than one that only counts.
	{
		category: "file operations", name: "list-before-read", first: lists, then: reads, when: inFolder, confidence: 75, section: strategies, limit: 32,
		text: "Before %[2]s, list the folder with %[1]s",
	},
	{
		category: "file operations", name: "read-before-write", first: reads | looksUp, then: writes | changes, when: sameThing, confidence: 80, section: strategies, limit: 32,
		text: "Before %[2]s, read what it is about with %[1]s (same %[3]s)",
	},
	{
		category: "file operations", name: "related-reads", first: reads | looksUp, about: onReads, times: 3, confidence: 75, section: strategies, limit: 32,
		text: "Call %[1]s for several %[3]s, 3 or more, before the first change",
	},
	{
		category: "code navigation", name: "search-before-read", first: searches, then: reads, when: anything, confidence: 75, section: heuristics, limit: 32,
		text: "Before %[2]s, search with %[1]s",
	},
	{
		category: "code navigation", name: "explore", first: searches, about: onReads, times: 2, confidence: 75, section: heuristics, limit: 32,
		text: "Search with %[1]s for several %[3]s, 2 or more, before the first change",
	},
	{
		category: "code navigation", name: "grep-then-read", first: searches, then: reads, when: foundIt, confidence: 80, section: heuristics, limit: 32,
		text: "Choose what to read with %[2]s by what %[1]s has found",
	},
	{
		category: "testing", name: "tests-after-edit", first: writes, then: tests, about: onFirst, when: anything, confidence: 80, section: checklist, limit: 32,
		text: "After the last %[1]s, run %[2]s",
	},
	{
		category: "testing", name: "read-tests-first", first: reads, then: tests, when: testFile, confidence: 75, section: checklist, limit: 32,
		text: "Before %[2]s, read the tests with %[1]s",
	},
	{
		category: "testing", name: "test-first", first: tests, then: writes, when: anotherFile, confidence: 75, section: checklist, limit: 32,
		text: "Before the first %[2]s, see it fail with %[1]s",
	},
	{
		category: "shell", name: "install-before-run", first: installs, then: runs | tests | builds, when: anything, confidence: 75, section: strategies, limit: 32,
		text: "Before %[2]s, install what it needs with %[1]s",
	},
	{
		category: "shell", name: "build-before-test", first: builds, then: tests, when: anything, confidence: 75, section: strategies, limit: 32,
		text: "Before %[2]s, build with %[1]s",
	},
	{
		category: "shell", name: "status-before-change", first: inspectsVCS, then: changesVCS, when: anything, confidence: 75, section: strategies, limit: 32,
		text: "Before %[2]s, look at %[1]s",
	},
}

// Confidence in percent. A finding under minConfidence is dropped. The Curator makes no bullet of a finding under 70.
const (
	unknownPenalty = 15 // subtracted if the outcome is unknown
	minConfidence  = 60
)

// Limits of the contents of a finding.
const (
	maxErrors  = 256 // failed calls that are analysed, the first ones
	maxTools   = 24  // tools whose order is analysed, by their first call: at most 276 pairs
	maxQuote   = 160 // runes of a quoted error
	maxName    = 64  // runes of the name of a tool or an argument
	maxChanged = 4   // names of changed arguments
	maxKey     = 200 // bytes of a key
)

// Inspect returns the findings of the rules in one execution. Their order is always the same, and no key occurs twice.
// An execution without a signal has no findings.
func Inspect(e *events.Execution) []events.Finding {
	if !HasSignal(e) {
		return nil
	}
	t := newRun(e)
	var found []events.Finding
	keys := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		find := r.find
		if find == nil {
			find = patterns
		}
		left := r.limit
		for _, f := range find(t, r) {
			if keys[f.Key] || left == 0 && !f.CountOnly {
				continue
			}
			if !f.CountOnly { // counts have no confidence
				confidence := t.adjustedConfidence(r.confidence)
				if confidence < minConfidence {
					continue
				}
				f.Confidence = float64(confidence) / 100
				left--
			}
			keys[f.Key] = true
			f.Section, f.Vote = r.section, t.vote
			found = append(found, f)
		}
	}
	return found
}

// adjustedConfidence returns a rule's confidence in its findings in this run.
func (t *run) adjustedConfidence(confidence int) int {
	if t.vote == events.Neutral {
		return confidence - unknownPenalty
	}
	return confidence
}

// HasSignal reports whether the rules can find something: two tool calls, or a failed one.
func HasSignal(e *events.Execution) bool {
	calls := 0
	for _, s := range e.Steps {
		for _, c := range s.Calls {
			if calls++; calls > 1 || c.Outcome.Failed() {
				return true
			}
		}
	}
	return false
}

// run is an execution as the rules see it: tool calls in order, their acts, and the vote.
type run struct {
	calls []*events.ToolCall
	turns []int // the step of each call
	acts  []act
	vote  events.Vote

	// Computed on first use.
	quotes, canonicalArgs []string
	after                 []nextCalls
}

func newRun(e *events.Execution) *run {
	t := &run{vote: vote(e.Outcome.Label), calls: toolCalls(e)}
	for i := range e.Steps {
		for range e.Steps[i].Calls {
			t.turns = append(t.turns, i)
		}
	}
	t.acts = acts(t.calls)
	return t
}

func toolCalls(e *events.Execution) []*events.ToolCall {
	var calls []*events.ToolCall
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			calls = append(calls, &e.Steps[i].Calls[j])
		}
	}
	return calls
}

// vote returns the vote of a run with this outcome. A partial success is neutral.
func vote(l events.Label) events.Vote {
	switch l {
	case events.Success:
		return events.Helpful
	case events.Failure:
		return events.Harmful
	default:
		return events.Neutral
	}
}

const tally = "(runs: {runs}, of which {helpful} succeeded and {harmful} failed)"
