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

// Points of a sentence in addition to the weight of its words. Each fact is one point, up to factPoints.
const (
	factPoints     = 4
	failurePoints  = 2
	decisionPoints = 2
	queryPoints    = 3
	rarePoints     = 2

	// lineOverhead is added to the length in tokens before the value is divided by it. Without it, fragments of three
	// words would win over sentences.
	lineOverhead = 24

	// textPenalty is the number of better sentences of the same text that halves the value of a sentence. It keeps
	// one long listing from displacing all other texts.
	textPenalty = 4
)

// Summarize returns a summary of the texts, oldest first, of at most the given number of tokens as counted by
// chat.Tokens. The summary consists of unchanged sentences in time order, one per line after "- ". It is "" if no
// sentence fits or none is useful.
//
// Sentences are chosen by value per length. The value grows with the rarity of the words (inverse document frequency,
// Spärck Jones 1972), with facts (numbers, paths, identifiers, names), with an error or a decision, and with words of
// the query. It falls with the number of better sentences in the same text. A sentence that adds no new word and no
// new fact is skipped. Because sentences are never reworded, a number or a path in the summary is exactly the
// original.
//
// Summarize reads the first 8 KB of each text, in linear time. It replaces control characters and white space by
// single spaces and removes code fences, so a text cannot start a new line in the summary. The words themselves stay
// untrusted.
func Summarize(texts []string, tokens int, query string) string {
	if tokens <= 0 {
		return ""
	}
	sm := summarizer{df: make(map[string]int), query: make(map[string]bool)}
	for w := range words(query[:min(len(query), queryBytes)]) {
		if isContentWord(w) {
			sm.query[text.Stem(w)] = true
		}
	}
	for from, text := range texts {
		for s := range sentences(text[:min(len(text), maxRead)]) {
			sm.add(s, from)
		}
	}
	chosen := sm.choose(tokens)
	for len(chosen) > 0 {
		var lines []string
		for _, i := range slices.Sorted(slices.Values(chosen)) {
			lines = append(lines, bullet+sm.sentences[i].text)
		}
		if summary := strings.Join(lines, "\n"); chat.Tokens(summary) <= tokens {
			return summary
		}
		chosen = chosen[:len(chosen)-1] // the estimate for the whole may exceed the sum over its lines
	}
	return ""
}

const bullet = "- "

// sentence is a candidate for the summary.
type sentence struct {
	text  string
	from  int      // index of its text
	terms []string // stems of its content words, and its facts, each fact after a NUL; without duplicates
	bonus float64  // points for facts, errors and decisions
	cost  int      // tokens
	value float64  // per length, see choose
}

// summarizer holds the sentences of all texts and their terms.
type summarizer struct {
	sentences []sentence      // the useful ones
	total     int             // number of all sentences
	df        map[string]int  // by term: the number of sentences that have it
	query     map[string]bool // the stems of the content words of the query
}

// add adds a sentence of the text with the index from. It keeps the sentence only if it may be useful.
func (sm *summarizer) add(line string, from int) {
	s := sentence{text: line, from: from, cost: chat.Tokens(bullet + line + "\n")}
	sm.total++
	seen := make(map[string]bool)
	addTerm := func(term string) {
		if !seen[term] {
			seen[term] = true
			sm.df[term]++
			s.terms = append(s.terms, term)
		}
	}
	wordCount := 0 // content words, without numbers
	isDecision := false
	before := "" // the word before w
	for w := range words(line) {
		isUse := w == "use" && useSubjects[before]
		isDecision = isDecision || isUse || decisionWords[w]
		before = w
		if isContentWord(w) {
			addTerm(text.Stem(w))
			countIf(&wordCount, w[0] > '9')
		}
	}
	plainTerms := len(s.terms)
	for _, f := range factsIn(line) {
		addTerm("\x00" + f.token)
	}
	s.bonus = float64(min(len(s.terms)-plainTerms, factPoints))
	if keywordFlags(line)&failure != 0 {
		s.bonus += failurePoints
	}
	if isDecision {
		s.bonus += decisionPoints
	}
	matchesQuery := slices.ContainsFunc(s.terms, func(term string) bool { return sm.query[term] })
	isImportant := s.bonus > 0 || matchesQuery
	if wordCount >= minContentWords || isImportant && wordCount > 0 {
		sm.sentences = append(sm.sentences, s)
	}
}

// minContentWords is the minimum number of content words of a sentence without a fact, an error, a decision or a word of the query. All other
// sentences need one such word, because a number alone is not useful.
const minContentWords = 3

// choose returns the indices of the sentences that fit into the token limit, the highest value per length first.
func (sm *summarizer) choose(tokens int) (chosen []int) {
	order := make([]int, len(sm.sentences)) // indices of sentences
	for i := range sm.sentences {
		s := &sm.sentences[i]
		order[i], s.value = i, sm.points(s)/float64(lineOverhead+s.cost)
	}
	byValue := func(a, b int) int {
		return cmp.Or(cmp.Compare(sm.sentences[b].value, sm.sentences[a].value), cmp.Compare(a, b))
	}
	slices.SortFunc(order, byValue)
	better := make(map[int]int) // by text: the number of its sentences so far, which are better
	for _, i := range order {
		s := &sm.sentences[i]
		s.value /= 1 + float64(better[s.from])/textPenalty
		better[s.from]++
	}
	slices.SortFunc(order, byValue)
	covered := make(map[string]bool) // the terms of the chosen sentences
	for _, i := range order {
		s := &sm.sentences[i]
		if s.cost > tokens || !slices.ContainsFunc(s.terms, func(term string) bool { return !covered[term] }) {
			continue
		}
		for _, term := range s.terms {
			covered[term] = true
		}
		chosen = append(chosen, i)
		tokens -= s.cost
	}
	return chosen
}

// points returns the value of a sentence, which does not depend on its length.
func (sm *summarizer) points(s *sentence) float64 {
	rarity, queryMatch := 0.0, 0.0
	n := float64(sm.total)
	for _, term := range s.terms {
		idf := math.Log1p(n/float64(sm.df[term])) / math.Log1p(n)
		rarity += idf
		if sm.query[term] {
			queryMatch += idf
		}
	}
	return rarePoints*rarity/float64(len(s.terms)) + s.bonus + queryPoints*queryMatch
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
