package reflector

import (
	"debrief/events"
)

// RulesVersion names the rules. It is part of the ids of reflections: a finding with another key, text or vote than
// before is another version's.
const RulesVersion = "rules3"

// rule is something to look for in a run. Each looks at one execution and keeps nothing of it; sums over executions are
// the Curator's (see events.Finding).
//
// A vote is the outcome of the run. What a tool reported is none: an error that the agent got over is no failed task,
// and a run may fail without one.
type rule struct {
	category, name string // the name begins the keys of its findings

	// first and then are the kinds of two calls that make a pattern, in their order.
	first, then kind
	// about is the one that the rule advises on. The runs with such a call are the ones that are compared.
	about place
	// when says of two calls whether they belong together, and by what.
	when  tie
	times int // how many different first calls there must be; 0 is one

	// find is what looks for a rule that is no pattern of two kinds.
	find func(*trail, *rule) []events.Finding
	// compared says that runs with the error are compared, with what the rule advises or without.
	compared bool

	// confidence, in per cent, that a sighting teaches something, where the end of the run is known.
	confidence int
	section    string // where a playbook has the bullets
	text       string // its first verb is what first did, the second what then did, the third the tie
	most       int    // findings of one execution, the first ones
}

// place is one of the two calls of a pattern.
type place int

const (
	onThen  place = iota // "before THEN, do FIRST": looked at where THEN comes for the first time
	onFirst              // "after FIRST, do THEN": looked at behind the last FIRST
	onReads              // "do FIRST several times before the first change"
)

// Sections, as the ACE authors' playbooks have them.
const (
	strategies = "strategies_and_hard_rules"
	heuristics = "problem_solving_heuristics"
	checklist  = "verification_checklist"
	pitfalls   = "troubleshooting_and_pitfalls"
	mistakes   = "common_mistakes_to_avoid"
)

// rules are the reflector that needs no model. Their categories are those of swecli's execution reflector.
//
// What is shown of them differs. A pattern (first, then) is what good and bad runs alike are full of, so it is only
// shown where runs that succeeded kept to it clearly more often than runs that failed: it carries a Base, and the
// Curator compares. Runs whose end nobody knows cannot be compared; what was seen in them is told in the reflection,
// under the confidence that makes a bullet. An error and what got over it is a fact about the tool, whoever runs into
// it: it is shown at once, with how the runs ended. Only where a change was refused are the runs compared, too: between
// a refusal and the next try agents look up many things that have nothing to do with it.
var rules = []rule{
	// Errors and what came of them.
	{category: "error handling", name: "error", find: toolErrors, confidence: 90, section: pitfalls, most: 32},
	{
		category: "error handling", name: "list-on-file-error", find: recoveries, first: reads | writes | runs | tests | searches | lists | builds,
		then: lists | searches, when: fileError, confidence: 90, section: pitfalls, most: 8,
		text: "%[1]s answered \"%[3]s\": look with %[2]s for what is there, then call it again, which worked " + tally + ".",
	},
	{
		category: "error handling", name: "verify-environment", find: recoveries, first: runs | tests | builds | installs | records | asks, then: verifies | installs,
		when: environmentError, confidence: 90, section: pitfalls, most: 8,
		text: "%[1]s answered \"%[3]s\": see to the environment with %[2]s, then run it again, which worked " + tally + ".",
	},
	{
		category: "error handling", name: "check-precondition", find: recoveries, first: changes, then: looksUp | searches | lists | reads | verifies,
		when: preconditionError, compared: true, confidence: 75, section: pitfalls, most: 8,
		text: "%[1]s answers \"%[3]s\": check that with %[2]s before the call" + erredText,
	},
	{category: "error handling", name: "repeat", find: repeatedCalls, confidence: 85, section: mistakes, most: 32},

	// Order of tools, whatever they do: the contrast is all there is to it.
	{category: "order", name: "order", find: toolOrders, confidence: 75, section: strategies, most: maxTools * (maxTools + 1) / 2},

	// Patterns of kinds. One that ties two calls to one thing says more than one that only counts them.
	{
		category: "file operations", name: "list-before-read", first: lists, then: reads, when: inFolder, confidence: 75, section: strategies, most: 32,
		text: "Before %[2]s, list the folder with %[1]s",
	},
	{
		category: "file operations", name: "read-before-write", first: reads | looksUp, then: writes | changes, when: sameThing, confidence: 80, section: strategies, most: 32,
		text: "Before %[2]s, read what it is about with %[1]s (same %[3]s)",
	},
	{
		category: "file operations", name: "related-reads", first: reads | looksUp, about: onReads, times: 3, confidence: 75, section: strategies, most: 32,
		text: "Call %[1]s for several %[3]s, 3 or more, before the first change",
	},
	{
		category: "code navigation", name: "search-before-read", first: searches, then: reads, when: anything, confidence: 75, section: heuristics, most: 32,
		text: "Before %[2]s, search with %[1]s",
	},
	{
		category: "code navigation", name: "explore", first: searches, about: onReads, times: 2, confidence: 75, section: heuristics, most: 32,
		text: "Search with %[1]s for several %[3]s, 2 or more, before the first change",
	},
	{
		category: "code navigation", name: "grep-then-read", first: searches, then: reads, when: foundIt, confidence: 80, section: heuristics, most: 32,
		text: "Choose what to read with %[2]s by what %[1]s has found",
	},
	{
		category: "testing", name: "tests-after-edit", first: writes, then: tests, about: onFirst, when: anything, confidence: 80, section: checklist, most: 32,
		text: "After the last %[1]s, run %[2]s",
	},
	{
		category: "testing", name: "read-tests-first", first: reads, then: tests, when: testFile, confidence: 75, section: checklist, most: 32,
		text: "Before %[2]s, read the tests with %[1]s",
	},
	{
		category: "testing", name: "test-first", first: tests, then: writes, when: anotherFile, confidence: 75, section: checklist, most: 32,
		text: "Before the first %[2]s, see it fail with %[1]s",
	},
	{
		category: "shell", name: "install-before-run", first: installs, then: runs | tests | builds, when: anything, confidence: 75, section: strategies, most: 32,
		text: "Before %[2]s, install what it needs with %[1]s",
	},
	{
		category: "shell", name: "build-before-test", first: builds, then: tests, when: anything, confidence: 75, section: strategies, most: 32,
		text: "Before %[2]s, build with %[1]s",
	},
	{
		category: "shell", name: "status-before-change", first: asks, then: records, when: anything, confidence: 75, section: strategies, most: 32,
		text: "Before %[2]s, look at %[1]s",
	},
}

// What a sighting takes off the confidence, and what is too unsure to be told, in per cent. What is told and stays
// under the 70 per cent of the Curator makes no bullet.
const (
	unjudged = 15
	tellAt   = 60
)

// Bounds of what enters a finding.
const (
	maxErrors  = 256 // failed calls that are looked at, the first ones
	maxTools   = 24  // tools whose order is looked at, by their first call: at most 276 pairs
	maxQuote   = 160 // runes of an error as it is quoted
	maxName    = 64  // runes of the name of a tool or an argument
	maxChanged = 4   // arguments that are named as changed
	maxKey     = 200 // bytes of a key
)

// Inspect is what the rules find in one execution: in the same order every time, no key twice. Nothing is found in an
// execution without a signal.
func Inspect(e *events.Execution) []events.Finding {
	if !signal(e) {
		return nil
	}
	t := follow(e)
	var found []events.Finding
	keys := map[string]bool{}
	for i := range rules {
		r := &rules[i]
		find := r.find
		if find == nil {
			find = patterns
		}
		left := r.most
		for _, f := range find(t, r) {
			if keys[f.Key] || left == 0 && !f.CountOnly {
				continue
			}
			if !f.CountOnly { // a count is what it is
				confidence := t.sure(r.confidence)
				if confidence < tellAt {
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

// sure is a rule's confidence in what it saw in this run.
func (t *trail) sure(confidence int) int {
	if t.vote == events.Neutral {
		return confidence - unjudged
	}
	return confidence
}

// signal reports whether there is something for the rules: two tool calls, or an error. A lone read teaches nothing.
func signal(e *events.Execution) bool {
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

// trail is an execution as the rules see it: its tool calls in order, what they did, and how it ended.
type trail struct {
	calls []*events.ToolCall
	turns []int // the step of each call
	acts  []act
	vote  events.Vote

	// Worked out when first asked for.
	quotes, spelled []string
	after           []ahead
}

func follow(e *events.Execution) *trail {
	t := &trail{vote: vote(e.Outcome.Label), calls: callsOf(e)}
	for i := range e.Steps {
		for range e.Steps[i].Calls {
			t.turns = append(t.turns, i)
		}
	}
	t.acts = acts(t.calls)
	return t
}

func callsOf(e *events.Execution) []*events.ToolCall {
	var calls []*events.ToolCall
	for i := range e.Steps {
		for j := range e.Steps[i].Calls {
			calls = append(calls, &e.Steps[i].Calls[j])
		}
	}
	return calls
}

// vote is what a run says for whatever was seen in it. One that half worked says as little as one nobody judged.
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
