package remedy

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode"

	"debrief/events"
)

// Section is the section of the playbook for lessons about errors.
const Section = "troubleshooting_and_pitfalls"

// MaxContent is the maximum length of Lesson.Content in bytes.
const MaxContent = 400

// minTasks is the number of tasks in which a remedy must have worked.
const minTasks = 2

const (
	minPairs  = 3    // pairs of calls that worked, for a comparison with them
	maxChance = 0.02 // probability that a call in between is there by chance
)

// minRuns is the number of runs in which a remedy must have worked that neither the error nor its form explains.
const minRuns = 3

// Lesson is an advice about one error.
type Lesson struct {
	Key      string // identifies the tool and the error; the same in each analysis; without text of the recording
	Section  string
	Content  string // plain text without counts
	Evidence []Evidence
}

// Evidence counts the runs that support a lesson about one error.
type Evidence struct {
	Error  string // the part that a lesson may quote
	Remedy string
	Tasks  int // in which the remedy was followed by a working call
	Runs   int // with the error
	Worked int // runs in which the remedy was followed by a working call
	Failed int // runs in which the same call failed with the same error after the remedy
	// Repeated counts the runs in which another attempt had the same error.
	Repeated int
	// Examples are the first executions that Worked counts, at most 5.
	Examples []events.ID
}

// Lessons returns the lessons that the evidence supports, sorted by key.
func (x *Errors) Lessons() []Lesson {
	var lessons []Lesson
	for _, key := range slices.SortedFunc(maps.Keys(x.stats), compareKeys) {
		st := x.stats[key]
		m, line := x.choose(st), said(st.text, st.own)
		if m == nil || m.rank >= rankTrivial || line == "" || !isName(st.tool) {
			continue
		}
		l := lessonOf(st, m, line)
		if !slices.ContainsFunc(lessons, func(k Lesson) bool { return k.Content == l.Content }) {
			lessons = append(lessons, l)
		}
	}
	slices.SortFunc(lessons, func(a, b Lesson) int { return strings.Compare(a.Key, b.Key) })
	return lessons
}

func compareKeys(a, b errorKey) int {
	return cmp.Or(strings.Compare(a.tool, b.tool), strings.Compare(a.text, b.text))
}

// choose returns the remedy of an error with evidence, or nil. Of the remedies that worked in nearly as many runs as the
// best one it prefers the most specific one. It returns a trivial remedy only without another one.
func (x *Errors) choose(st *errorStat) *remedyStat {
	var found, trivial []*remedyStat
	best := 0
	for _, m := range st.remedies {
		switch {
		case !x.holds(st, m):
		case m.rank == rankTrivial:
			trivial = append(trivial, m)
		default:
			found = append(found, m)
			best = max(best, m.worked.runs)
		}
	}
	found = slices.DeleteFunc(found, func(m *remedyStat) bool { return 5*m.worked.runs < 4*best })
	if len(found) == 0 {
		found = trivial
	}
	if len(found) == 0 {
		return nil
	}
	slices.SortFunc(found, bySpecificity)
	first := found[0]
	if i := slices.IndexFunc(found, func(m *remedyStat) bool { return m.rank == rankValue && m.of == first.key }); i >= 0 {
		return found[i] // "set x to y" says more than "give x"
	}
	return first
}

func bySpecificity(a, b *remedyStat) int {
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.worked.runs, a.worked.runs), compareBool(b.of != "", a.of != ""), strings.Compare(a.key, b.key))
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// carried reports whether the evidence carries a remedy: it worked in most of the runs with the error and in two tasks,
// it failed clearly less often than it worked, and attempts without it did not work more often.
func carried(st *errorStat, m *remedyStat) bool {
	switch {
	case m.worked.tasks < minTasks, 2*m.worked.runs <= st.met.runs, m.solved < 2*m.again:
		return false
	}
	return betterThanWithout(st, m)
}

// holds reports whether the evidence carries a remedy, and whether it is the cause of the success: the error explains it,
// or the calls fail without it and it does not stand there by chance.
func (x *Errors) holds(st *errorStat, m *remedyStat) bool {
	switch {
	case !carried(st, m):
		return false
	case m.rank == rankValue && m.named < m.solved && !m.forObjects():
		return false // the datum of one object
	case explains(st, m):
		return true
	case !needed(st, m):
		return false
	case m.rank == rankSet:
		return true
	case m.worked.runs < minRuns:
		return false
	case m.rank == rankForm || m.rank == rankValue:
		general := st.remedies[m.of] // a new value is a cause only if it is always the same
		return general == nil || general.worked.runs == m.worked.runs
	}
	return m.do == "" || !x.coincidence(st, m)
}

// betterThanWithout reports whether attempts with the remedy worked at least as often as those without it.
func betterThanWithout(st *errorStat, m *remedyStat) bool {
	solved, again := st.solved-m.solved, st.again-m.again
	return m.solved*(solved+again) >= solved*(m.solved+m.again)
}

// needed reports whether attempts without the remedy failed more often than they worked. Without such attempts
// it may be needed.
func needed(st *errorStat, m *remedyStat) bool {
	solved, again := st.solved-m.solved, st.again-m.again
	return solved <= again
}

// explains reports whether the error, or the form of the remedy, shows that the remedy is the cause. This is a better
// witness than counts, because agents follow a known rule also without the error.
func explains(st *errorStat, m *remedyStat) bool {
	switch m.rank {
	case rankHow, rankInstall, rankRetry, rankTrivial:
		return true
	case rankValue:
		return m.named > 0 && m.named == m.solved
	}
	return m.do != "" && (m.lookup || names(st.text, m.do))
}

// coincidence reports whether a call stands about as often between calls of the tool that both worked. Its share there
// must be at most half of its share among the attempts that worked, and the difference must be larger than chance.
func (x *Errors) coincidence(st *errorStat, m *remedyStat) bool {
	base := x.pairs[st.tool]
	if base == nil || base.pairs < minPairs {
		return false
	}
	with, pairs := base.between[m.do], base.pairs
	if 2*with*st.solved > m.solved*(pairs+1) {
		return true
	}
	return upperTail(m.solved, st.solved, float64(with+1)/float64(pairs+2)) > maxChance
}

// upperTail returns the probability of at least k successes in n trials with probability p.
func upperTail(k, n int, p float64) float64 {
	sum := 0.0
	logN, _ := math.Lgamma(float64(n + 1))
	for i := k; i <= n; i++ {
		a, _ := math.Lgamma(float64(i + 1))
		b, _ := math.Lgamma(float64(n - i + 1))
		sum += math.Exp(logN - a - b + float64(i)*math.Log(p) + float64(n-i)*math.Log1p(-p))
	}
	return sum
}

// names reports whether the text of an error contains the words of a tool's name, or of its operation.
func names(text, tool string) bool {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) })
	_, operation, _ := strings.Cut(tool, " ")
	for _, name := range []string{tool, operation} {
		list := slices.DeleteFunc(nameWords(name), func(w string) bool { return len(w) < 3 || w == "get" || w == "run" })
		if len(list) > 0 && !slices.ContainsFunc(list, func(w string) bool { return !slices.Contains(words, w) }) {
			return true
		}
	}
	return false
}

func evidenceOf(st *errorStat, m *remedyStat, line string) Evidence {
	return Evidence{
		Error: line, Remedy: m.say, Runs: st.met.runs, Tasks: m.worked.tasks, Worked: m.worked.runs, Failed: m.failed,
		Repeated: st.repeated, Examples: slices.Clone(m.examples),
	}
}
