package sliding

import (
	"fmt"
	"unicode/utf8"
)

// Task is what kind of work a conversation is about.
type Task string

// The tasks. Analysis is never found out, only asked for.
const (
	General   Task = "general"
	Research  Task = "research"
	Coding    Task = "coding"
	Debugging Task = "debugging"
	Analysis  Task = "analysis"
)

// taskFactors are swecli's; an unknown task is a general one.
var taskFactors = map[Task]float64{General: 1, Research: 1.3, Coding: 1.5, Debugging: 2, Analysis: 2.5}

// recentItems are how many texts at the end of a conversation say what it needs now.
const recentItems = 10

// BudgetInput is what a budget depends on.
type BudgetInput struct {
	Base     int      // tokens; 0 is DefaultTokens
	Previous int      // the last turn's budget, 0 for none
	Task     Task     // such as State found out
	Recent   []string // the conversation's texts, oldest first; the last 10 count
}

// maxBase keeps 4 × base an int on every machine. No model has a window of that size.
const maxBase = 1 << 28

// Budget is how many tokens a conversation may have, and how that came about: base × complexity × the task's factor,
// between ½ and 4 × base, and at most ¼ base from the previous budget, so that a window does not jump. A previous budget
// outside of those bounds, of another base, counts as the nearer bound.
//
// Complexity is 0.5 to 3: 0.5 + 2.5 × the mean of the points of the last 10 texts, of which each has up to 10 tenths: 3
// for code, 3 for an error, 2 for over 500 characters, 1 for a technical term, 1 for a question. It is 1 where nothing
// has been said yet. The task's factor is 1 general, 1.3 research, 1.5 coding, 2 debugging, 2.5 analysis.
func Budget(in BudgetInput) (tokens int, why string) {
	base := in.Base
	if base <= 0 {
		base = DefaultTokens
	}
	base = min(base, maxBase)
	task, known := taskFactors[in.Task]
	if !known {
		in.Task, task = General, taskFactors[General]
	}
	complexity, points := complexityOf(in.Recent)
	low, high := (base+1)/2, 4*base
	tokens = min(max(int(float64(base)*complexity*task), low), high)
	why = fmt.Sprintf("%d × %.2f (%s) × %g (%s), within %d to %d: %d", base, complexity, points, task, in.Task, low, high, tokens)
	if in.Previous > 0 {
		before, step := min(max(in.Previous, low), high), base/4
		if near := min(max(tokens, before-step), before+step); near != tokens {
			why += fmt.Sprintf("; at most %d from the previous %d: %d", step, before, near)
			tokens = near
		}
	}
	return tokens, why
}

func complexityOf(texts []string) (factor float64, points string) {
	texts = texts[max(0, len(texts)-recentItems):]
	if len(texts) == 0 {
		return 1, "nothing said yet"
	}
	var codes, errors, long, terms, questions int
	for _, text := range texts {
		f := readFlags(text, User)
		count(&codes, f&code != 0)
		count(&errors, f&failure != 0)
		count(&long, over500(text))
		count(&terms, isTechnical(text))
		count(&questions, f&question != 0)
	}
	tenths := 3*codes + 3*errors + 2*long + terms + questions
	return 0.5 + 2.5*float64(tenths)/float64(10*len(texts)),
		fmt.Sprintf("of the last %d: code %d, errors %d, long %d, technical %d, questions %d", len(texts), codes, errors, long, terms, questions)
}

func count(n *int, is bool) {
	if is {
		*n++
	}
}

// over500 says whether a text has over 500 characters.
func over500(text string) bool {
	const most = 500
	return len(text) > most && utf8.RuneCountInString(text[:min(len(text), most*utf8.UTFMax+1)]) > most
}

// technical words are common in talk about programs and rare in other talk.
var technical = set(`api apis algorithm array async backend boolean bug bytes cache callback cli cluster commit compiler concurrency
	config cpu css csv database datetime deadlock debug debugger deploy deployment dependency docker endpoint exception frontend
	function functions git goroutine gpu grep hash html http https integer java javascript json kubernetes lambda latency linux
	localhost memory middleware mutex namespace npm null oauth parameter parser postgres protocol python query rebase refactor
	regex regression repo repository rollback router runtime rust schema script sdk server shell socket sql sqlite ssh subquery
	syntax tcp terminal thread throughput timeout traceback typescript unicode url utf webhook xml yaml`)

// isTechnical says whether a text has a technical word, a path or an identifier in its first KB.
func isTechnical(text string) bool {
	text = text[:min(len(text), 1<<10)]
	for w := range words(text) {
		if technical[w] {
			return true
		}
	}
	for _, f := range factsIn(text) {
		if f.kind == path || f.kind == identifier {
			return true
		}
	}
	return false
}
