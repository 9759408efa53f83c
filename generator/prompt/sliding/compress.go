package sliding

import (
	"cmp"
	"math"
	"slices"
	"strings"

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
// Compress reads the first 8 KB of each text, in linear time. It replaces control characters and white space by
// single spaces and removes code fences, so a text cannot start a new line in the summary. The words themselves stay
// untrusted.
func Summarize(texts []string, tokens int, query string) string {
	if tokens <= 0 {
		return ""
	}
	sm := newSummarizer(query)
	for from, text := range texts {
		for s := range sentences(text[:min(len(text), maxRead)]) {
			sm.add(s, from)
		}
	}
	chosen := sm.choose(tokens)
	for len(chosen) > 0 {
		inOrder := slices.Sorted(slices.Values(chosen))
		var b strings.Builder
		for k, i := range inOrder {
			if k > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(bullet + sm.sentences[i].text)
		}
		if chat.Tokens(b.String()) <= tokens {
			return b.String()
		}
		chosen = chosen[:len(chosen)-1] // the estimate for the whole may exceed the sum over its lines
	}
	return ""
}

const bullet = "- "

// sentence is a candidate for the summary.
type sentence struct {
	text  string
	from  int     // index of its text
	terms []int   // its content words and facts, without duplicates
	bonus float64 // points for facts, errors and decisions
}

// summarizer holds the sentences of all texts and their terms. Slices of terms are indexed by term id.
type summarizer struct {
	sentences []sentence     // the useful ones
	total     int            // number of all sentences
	terms     map[string]int // ids by stem; a fact is its exact text after a NUL
	df        []int          // number of sentences with the term
	query     []bool         // the query contains the term
	lastSeen  []int          // number of the last sentence with the term, from 1
}

func newSummarizer(query string) *summarizer {
	sm := &summarizer{terms: make(map[string]int)}
	for w := range words(query[:min(len(query), queryBytes)]) {
		if isContentWord(w) {
			t := sm.termID(text.Stem(w))
			sm.query[t] = true
		}
	}
	return sm
}

func (sm *summarizer) termID(key string) int {
	t, ok := sm.terms[key]
	if !ok {
		t = len(sm.df)
		sm.terms[key] = t
		sm.df, sm.query, sm.lastSeen = append(sm.df, 0), append(sm.query, false), append(sm.lastSeen, 0)
	}
	return t
}

func (sm *summarizer) add(line string, from int) {
	s := sentence{text: line, from: from}
	sm.total++
	matchesQuery := false
	addTerm := func(key string) {
		t := sm.termID(key)
		if sm.lastSeen[t] != sm.total {
			sm.lastSeen[t] = sm.total
			sm.df[t]++
			s.terms = append(s.terms, t)
			matchesQuery = matchesQuery || sm.query[t]
		}
	}
	wordCount, isDecision, last := 0, false, "" // wordCount excludes numbers
	for w := range words(line) {
		isDecision = isDecision || decisionWords[w] || w == "use" && useSubjects[last]
		last = w
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
	if detectKeywords(line)&failure != 0 {
		s.bonus += failurePoints
	}
	if isDecision {
		s.bonus += decisionPoints
	}
	if wordCount >= minContentWords || wordCount > 0 && (s.bonus > 0 || matchesQuery) { // a number alone is not useful
		sm.sentences = append(sm.sentences, s)
	}
}

// minContentWords is the minimum number of content words of a sentence without facts, error, decision or query word.
const minContentWords = 3

// choose returns the sentences that fit into the token limit, the highest value per length first.
func (sm *summarizer) choose(tokens int) (chosen []int) {
	values := make([]float64, len(sm.sentences))
	cost := make([]int, len(sm.sentences))
	order := make([]int, len(sm.sentences))
	for i := range sm.sentences {
		order[i], cost[i] = i, chat.Tokens(bullet+sm.sentences[i].text+"\n")
		values[i] = sm.value(&sm.sentences[i]) / float64(lineOverhead+cost[i])
	}
	byValue := func(a, b int) int { return cmp.Or(cmp.Compare(values[b], values[a]), cmp.Compare(a, b)) }
	slices.SortFunc(order, byValue)
	rankInText := make(map[int]int) // number of sentences seen so far, by text
	for _, i := range order {
		from := sm.sentences[i].from
		values[i] /= 1 + float64(rankInText[from])/textPenalty
		rankInText[from]++
	}
	slices.SortFunc(order, byValue)
	covered := make([]bool, len(sm.df))
	for _, i := range order {
		if cost[i] > tokens {
			continue
		}
		adds := false
		for _, t := range sm.sentences[i].terms {
			adds = adds || !covered[t]
			covered[t] = true
		}
		if adds {
			chosen = append(chosen, i)
			tokens -= cost[i]
		}
	}
	return chosen
}

func (sm *summarizer) value(s *sentence) float64 {
	if len(s.terms) == 0 {
		return 0
	}
	rarity, queryMatch := 0.0, 0.0
	n := float64(sm.total)
	for _, t := range s.terms {
		idf := math.Log1p(n/float64(sm.df[t])) / math.Log1p(n)
		rarity += idf
		if sm.query[t] {
			queryMatch += idf
		}
	}
	return rarePoints*rarity/float64(len(s.terms)) + s.bonus + queryPoints*queryMatch
}

// decisionWords indicate a decision. The word "use" indicates one after useSubjects.
var (
	decisionWords = text.Set(`decided decide decision agreed chose chosen must always never require requires required requirement prefer prefers
		preferred important constraint deadline instead conclusion`)
	useSubjects = map[string]bool{"": true, "we": true, "will": true, "ll": true, "s": true} // "Use", "we'll use", "let's use"
)
