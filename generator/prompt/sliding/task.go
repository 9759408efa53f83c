package sliding

import (
	"math/bits"
	"slices"
	"strings"
)

// taskWords are the words that indicate a task, each with its inflections. With equal points the earlier task wins: a
// failure is more urgent than writing code, and coding is more specific than research.
var taskWords = [...]struct {
	task  Task
	words [wordsPerTask]string
}{
	{Debugging, [...]string{"error errors", "bug bugs buggy", "debug debugs debugged debugging debugger", "fix fixes fixed fixing"}},
	{Coding, [...]string{"code codes coded coding", "function functions", "class classes", "import imports imported importing"}},
	{Research, [...]string{
		"research researches researched researching", "find finds finding findings found",
		"search searches searched searching", "learn learns learned learnt learning",
	}},
}

const wordsPerTask = 4

// taskWordBits has one bit for each word of each task.
var taskWordBits = func() map[string]uint16 {
	m := make(map[string]uint16)
	for i, s := range taskWords {
		for j, forms := range s.words {
			for form := range strings.FieldsSeq(forms) {
				m[form] = 1 << (wordsPerTask*i + j)
			}
		}
	}
	return m
}()

// DetectTask returns the task of a conversation by its words: coding (code, function, class, import), debugging (error,
// bug, debug, fix), research (research, find, search, learn), or general if no such word occurs. Only whole words and
// their inflections match, each once per text. A text counts half as much as the text after it. State reads the first
// 8 KB of each of the last 10 texts, the newest last.
func DetectTask(texts []string) Task {
	texts = texts[max(0, len(texts)-recentTexts):]
	var points [len(taskWords)]int
	for _, text := range texts {
		var seen uint16
		for w := range words(text[:min(len(text), maxRead)]) {
			seen |= taskWordBits[w]
		}
		for i := range points {
			n := bits.OnesCount16(seen >> (wordsPerTask * i) & (1<<wordsPerTask - 1))
			points[i] = points[i]/2 + n<<recentTexts // shifted, so that halving is exact
		}
	}
	best := slices.Max(points[:])
	if best == 0 {
		return General
	}
	return taskWords[slices.Index(points[:], best)].task
}
