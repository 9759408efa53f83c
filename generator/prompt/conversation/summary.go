package conversation

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/events/chat"
	"debrief/playbook/text"
)

// maxSentence is the maximum length of a summary line in bytes. A longer sentence is split at a space.
const maxSentence = 240

// Points of a sentence. Each fact is one point, up to factPoints. Each word of the query is queryPoints.
const (
	factPoints     = 4
	failurePoints  = 2
	decisionPoints = 2
	queryPoints    = 3

	// lineOverhead is added to the length in tokens before the points are divided by it. Without it, fragments of three
	// words would win over sentences.
	lineOverhead = 24
)

// Summarize returns a summary of the texts, oldest first, of at most the given number of tokens as counted by
// chat.Tokens. The summary consists of unchanged sentences in time order, one per line after "- ". It is "" if no
// sentence fits or none is useful.
//
// Sentences are chosen by points per length. A sentence has points for facts (numbers, paths, identifiers, names), for an error or a
// decision, and for words of the query. A sentence without points, or equal to another one, is skipped. Because sentences are never
// reworded, a number or a path in the summary is exactly the original.
//
// Summarize reads the first 8 KB of each text, in linear time. It replaces control characters and white space by
// single spaces and removes code fences, so a text cannot start a new line in the summary. The words themselves stay
// untrusted.
func Summarize(texts []string, tokens int, query string) string {
	lines := summaryLines(texts, query)
	slices.SortStableFunc(lines, func(a, b summaryLine) int { return cmp.Compare(b.value, a.value) })
	left := tokens
	lines = slices.DeleteFunc(lines, func(l summaryLine) bool {
		cost := chat.Tokens(l.text + "\n")
		if cost > left {
			return true
		}
		left -= cost
		return false
	})
	for len(lines) > 0 {
		if summary := inTimeOrder(lines); chat.Tokens(summary) <= tokens {
			return summary
		}
		lines = lines[:len(lines)-1] // the estimate for the whole may exceed the sum over its lines
	}
	return ""
}

// summaryLine is a sentence that a summary may contain.
type summaryLine struct {
	text     string
	value    float64 // points per length
	position int     // in time order
}

// summaryLines returns the sentences of the texts that have points, each once, in time order.
func summaryLines(texts []string, query string) (lines []summaryLine) {
	wanted := make(map[string]bool) // the stems of the content words of the query
	for w := range words(query[:min(len(query), queryBytes)]) {
		if isContentWord(w) {
			wanted[text.Stem(w)] = true
		}
	}
	seen := make(map[string]bool) // lines in lower case
	for _, s := range texts {
		for sentence := range sentences(s[:min(len(s), maxRead)]) {
			line := bullet + sentence
			value := points(sentence, wanted) / float64(lineOverhead+chat.Tokens(line))
			if folded := strings.ToLower(line); value > 0 && !seen[folded] {
				seen[folded] = true
				lines = append(lines, summaryLine{text: line, value: value, position: len(lines)})
			}
		}
	}
	return lines
}

// inTimeOrder joins the texts of lines in time order.
func inTimeOrder(lines []summaryLine) string {
	lines = slices.SortedFunc(slices.Values(lines), func(a, b summaryLine) int { return cmp.Compare(a.position, b.position) })
	var texts []string
	for _, l := range lines {
		texts = append(texts, l.text)
	}
	return strings.Join(texts, "\n")
}

const bullet = "- "

// points returns the points of a sentence, 0 if it has no word with a meaning. wanted has the stems of the words of the query.
func points(sentence string, wanted map[string]bool) float64 {
	sum, hasWord := 0, false
	isDecision := false
	matched := make(map[string]bool)
	before := "" // the word before w
	for w := range words(sentence) {
		isUse := w == "use" && useSubjects[before]
		isDecision = isDecision || isUse || decisionWords[w]
		before = w
		if !isContentWord(w) {
			continue
		}
		hasWord = hasWord || w[0] > '9'
		if stem := text.Stem(w); wanted[stem] && !matched[stem] {
			matched[stem] = true
			sum += queryPoints
		}
	}
	if !hasWord {
		return 0
	}
	sum += min(len(factsIn(sentence)), factPoints)
	if keywordFlags(sentence)&failure != 0 {
		sum += failurePoints
	}
	if isDecision {
		sum += decisionPoints
	}
	return float64(sum)
}

// decisionWords indicate a decision. The word "use" indicates one after useSubjects.
var (
	decisionWords = text.Set(`decided decide decision agreed chose chosen must always never require requires required requirement prefer prefers
		preferred important constraint deadline instead conclusion`)
	useSubjects = map[string]bool{"": true, "we": true, "will": true, "ll": true, "s": true} // "" for "Use", ll for "we'll use", s for "let's use"
)

// sentences yields pieces of a text of at most maxSentence bytes, each one line. It splits at line breaks, after a
// full stop, question mark or exclamation mark, and, if a piece is too long, at a space.
func sentences(text string) iter.Seq[string] {
	isBreak := func(r rune) bool { return strings.ContainsRune("\n\r\u2028\u2029", r) }
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(text, isBreak) {
			line = cleanLine(line)
			for line != "" {
				var s string
				s, line = firstSentence(line)
				s = trimMarkers(s)
				if s != "" && !yield(s) {
					return
				}
			}
		}
	}
}

// firstSentence splits a line after its first sentence.
func firstSentence(line string) (first, rest string) {
	for at, r := range line {
		if at > maxSentence {
			break
		}
		next := line[at+utf8.RuneLen(r):]
		switch r {
		case '。', '！', '？':
			return line[:len(line)-len(next)], next
		case '.', '!', '?':
			if after, ok := strings.CutPrefix(next, " "); ok {
				if r, _ := utf8.DecodeRuneInString(after); !unicode.IsLower(r) { // else the point is of an abbreviation such as e.g.
					return line[:len(line)-len(next)], after
				}
			}
		}
	}
	if len(line) <= maxSentence {
		return line, ""
	}
	end := strings.LastIndexByte(line[:maxSentence+1], ' ')
	if end <= 0 {
		end = len(text.Prefix(line, maxSentence))
	}
	return line[:end], line[end:]
}

// cleanLine makes a line safe for a list, as text.Line does. It also removes code fences.
func cleanLine(line string) string {
	return fenceRemover.Replace(text.Line(line, math.MaxInt))
}

var fenceRemover = strings.NewReplacer("```", "", "~~~", "")

// trimMarkers removes the marker of a list, heading, quotation or table at the beginning of a sentence.
func trimMarkers(s string) string {
	for {
		s = strings.TrimSpace(s)
		rest := strings.TrimLeft(s, "#->*+•|")
		isMarker := rest == "" || rest[0] == ' '
		if rest == s || !isMarker {
			return s
		}
		s = rest
	}
}
