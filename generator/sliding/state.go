package sliding

import (
	"math/bits"
	"slices"
	"strings"
)

// states are the words that a state is known by, each with its inflections, in the order in which ties are settled: what
// goes wrong is more urgent than what is written, and that more definite than what is looked for.
var states = [...]struct {
	task  Task
	words [stateWords]string
}{
	{Debugging, [...]string{"error errors", "bug bugs buggy", "debug debugs debugged debugging debugger", "fix fixes fixed fixing"}},
	{Coding, [...]string{"code codes coded coding", "function functions", "class classes", "import imports imported importing"}},
	{Research, [...]string{
		"research researches researched researching", "find finds finding findings found",
		"search searches searched searching", "learn learns learned learnt learning",
	}},
}

const stateWords = 4

// stateBits has one bit for each word of each state.
var stateBits = func() map[string]uint16 {
	m := make(map[string]uint16)
	for i, s := range states {
		for j, forms := range s.words {
			for form := range strings.FieldsSeq(forms) {
				m[form] = 1 << (stateWords*i + j)
			}
		}
	}
	return m
}()

// State is what a conversation is about: coding (code, function, class, import), debugging (error, bug, debug, fix),
// research (research, find, search, learn), or general where none of these words fell. Words count whole and with
// their inflections, each once a text, and in a text half as much as in the one after it; the last 10 texts count, the
// newest last, the first 8 KB of each.
func State(texts []string) Task {
	texts = texts[max(0, len(texts)-recentItems):]
	var points [len(states)]int
	for _, text := range texts {
		var seen uint16
		for w := range words(text[:min(len(text), maxRead)]) {
			seen |= stateBits[w]
		}
		for i := range points {
			n := bits.OnesCount16(seen >> (stateWords * i) & (1<<stateWords - 1))
			points[i] = points[i]/2 + n<<recentItems // shifted, so that halving is exact
		}
	}
	best := slices.Max(points[:])
	if best == 0 {
		return General
	}
	return states[slices.Index(points[:], best)].task
}
