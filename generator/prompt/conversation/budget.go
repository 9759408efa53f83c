package conversation

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"debrief/playbook/text"
)

// Task is the kind of work in a conversation.
type Task string

// The tasks. DetectTask never returns Analysis; only a caller can set it.
const (
	General   Task = "general"
	Research  Task = "research"
	Coding    Task = "coding"
	Debugging Task = "debugging"
	Analysis  Task = "analysis"
)

// taskFactors are the factors of the tasks in Budget, as in the coding agent swecli.
var taskFactors = map[Task]float64{General: 1, Research: 1.3, Coding: 1.5, Debugging: 2, Analysis: 2.5}

// recentTexts is the number of texts at the end of a conversation that Budget and DetectTask read.
const recentTexts = 10

// BudgetInput holds the inputs of Budget.
type BudgetInput struct {
	Base     int      // tokens; 0 means 8000
	Previous int      // budget of the previous turn in tokens, 0 on the first turn
	Task     Task     // usually the result of DetectTask
	Recent   []string // texts of the conversation, oldest first; Budget reads the last 10
}

// maxBase is the largest base. 4 × maxBase fits into an int on every platform, and no model has a window of this size.
const maxBase = 1 << 28

// Budget returns the number of tokens for a conversation and a text that explains the computation. The budget is base
// × complexity × factor of the task, but at least ½ base and at most 4 × base. It differs by at most ¼ base from the previous budget,
// so that the window changes slowly. A previous budget from another base may exceed these limits; it is clamped first.
//
// Complexity is 0.5 + 2.5 × the mean points of the last 10 texts, so it is between 0.5 and 3. Each text gets up to 10
// tenths of a point: 3 for code, 3 for an error, 2 for more than 500 characters, 1 for a technical term, 1 for a
// question. Without texts, complexity is 1. The factors are 1 for general, 1.3 for research, 1.5 for coding, 2
// for debugging and 2.5 for analysis.
func Budget(in BudgetInput) (tokens int, reason string) {
	base := in.Base
	if base <= 0 {
		base = defaultTokens
	}
	base = min(base, maxBase)
	if _, known := taskFactors[in.Task]; !known {
		in.Task = General
	}
	taskFactor := taskFactors[in.Task]
	complexity, points := complexityOf(in.Recent)
	low, high := (base+1)/2, 4*base
	tokens = min(max(int(float64(base)*complexity*taskFactor), low), high)
	reason = fmt.Sprintf("%d × %.2f (%s) × %g (%s), within %d to %d: %d", base, complexity, points, taskFactor, in.Task, low, high, tokens)
	if in.Previous > 0 {
		before, step := min(max(in.Previous, low), high), base/4
		if near := min(max(tokens, before-step), before+step); near != tokens {
			reason += fmt.Sprintf("; at most %d from the previous %d: %d", step, before, near)
			tokens = near
		}
	}
	return tokens, reason
}

// complexityOf returns the complexity of the last texts, see Budget, and a text with the points that it is computed from.
func complexityOf(texts []string) (complexity float64, points string) {
	texts = texts[max(0, len(texts)-recentTexts):]
	if len(texts) == 0 {
		return 1, "no texts yet"
	}
	var codes, failures, long, technical, questions int // numbers of texts
	for _, text := range texts {
		f := detectFlags(text, User)
		countIf(&codes, f&code != 0)
		countIf(&failures, f&failure != 0)
		countIf(&long, utf8.RuneCountInString(text) > 500)
		countIf(&technical, isTechnical(text))
		countIf(&questions, f&question != 0)
	}
	tenths := 3*codes + 3*failures + 2*long + technical + questions
	return 0.5 + 2.5*float64(tenths)/float64(10*len(texts)),
		fmt.Sprintf("of the last %d: code %d, errors %d, long %d, technical %d, questions %d", len(texts), codes, failures, long, technical, questions)
}

// countIf adds 1 to n if ok.
func countIf(n *int, ok bool) {
	if ok {
		*n++
	}
}

// technicalWords are common in texts about programming and rare in others.
var technicalWords = text.Set(`api apis algorithm array async backend boolean bug bytes cache callback cli cluster commit compiler concurrency
	config cpu css csv database datetime deadlock debug debugger deploy deployment dependency docker endpoint exception frontend
	function functions git goroutine gpu grep hash html http https integer java javascript json kubernetes lambda latency linux
	localhost memory middleware mutex namespace npm null oauth parameter parser postgres protocol python query rebase refactor
	regex regression repo repository rollback router runtime rust schema script sdk server shell socket sql sqlite ssh subquery
	syntax tcp terminal thread throughput timeout traceback typescript unicode url utf webhook xml yaml`)

// isTechnical reports whether the first KB of a text contains a technical word, a path or an identifier.
func isTechnical(text string) bool {
	text = text[:min(len(text), 1<<10)]
	if containsWord(text, technicalWords) {
		return true
	}
	for _, f := range factsIn(text) {
		if f.kind == path || f.kind == identifier {
			return true
		}
	}
	return false
}

// taskWords are the stems of the words that indicate a task. Of tasks with equal points the first one is chosen: a failure is more
// urgent than writing code, and coding is more specific than research.
var taskWords = [...]struct {
	task  Task
	stems map[string]bool
}{
	{Debugging, stems("error bug buggy debug debugger fix")},
	{Coding, stems("code function class import")},
	{Research, stems("research find found search learn learnt")},
}

// stems returns the stems of a list of words.
func stems(list string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		set[text.Stem(word)] = true
	}
	return set
}

// DetectTask returns the task of a conversation by its words: coding (code, function, class, import), debugging (error,
// bug, debug, fix), research (research, find, search, learn), or general if no such word occurs. Only whole words and
// their inflections match, each once per text. A text counts half as much as the text after it. DetectTask reads the first
// 8 KB of each of the last 10 texts, the newest last.
func DetectTask(texts []string) Task {
	var points [len(taskWords)]float64 // by index of taskWords
	for _, s := range texts[max(0, len(texts)-recentTexts):] {
		seen := make(map[string]bool)
		for w := range words(s[:min(len(s), maxRead)]) {
			seen[text.Stem(w)] = true
		}
		for i, t := range taskWords {
			points[i] /= 2 // of the texts before s
			for stem := range t.stems {
				if seen[stem] {
					points[i]++
				}
			}
		}
	}
	task, highest := General, 0.0
	for i, t := range taskWords {
		if points[i] > highest {
			task, highest = t.task, points[i]
		}
	}
	return task
}

// The number of user turns for a query.
const (
	fewTurns   = 3 // for a query of fewer than fewWords words
	someTurns  = 5
	manyTurns  = 7 // for a query that begins a larger piece of work
	fewWords   = 5
	queryBytes = 2 << 10 // bytes read of a query; the text after them is mostly pasted
)

var largeTaskWords = text.Set(`refactor refactors refactored refactoring refactorings
	implement implements implemented implementing implementation implementations reimplement reimplementing
	design designs designed designing redesign redesigns redesigned redesigning`)

// TurnCount returns the number of recent user turns to show with a query: 3 for a query of fewer than 5 words, 7 for one that
// mentions refactoring, implementing or designing, else 5. A character of a script without spaces counts as a word. TurnCount reads the
// first 2 KB of the query.
func TurnCount(query string) int {
	query = query[:min(len(query), queryBytes)]
	switch {
	case wordCount(query) < fewWords:
		return fewTurns
	case containsWord(query, largeTaskWords):
		return manyTurns
	}
	return someTurns
}

// wordCount counts words as a reader does: "don't", "GitHub" and "main.go" are one word each.
func wordCount(s string) (n int) {
	for field := range strings.FieldsSeq(s) {
		other := 0 // 1 if the field has letters of a script with spaces
		for _, r := range field {
			switch {
			case text.Unspaced(r):
				n++
			case text.InWord(r):
				other = 1
			}
		}
		n += other
	}
	return n
}
