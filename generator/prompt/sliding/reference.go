package sliding

import (
	"math"
	"math/bits"
	"strings"

	"debrief/playbook/text"
)

// ordinals map a word to an index from 0; -1 is the last one.
var ordinals = map[string]int{
	"first": 0, "initial": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4,
	"last": -1, "latest": -1, "previous": -1, "earlier": -1, "preceding": -1, "prior": -1, "recent": -1,
}

// kindTests map the nouns for an interaction, as stems, to a test of its text. A nil test accepts every interaction.
var kindTests = func() map[string]func(string) bool {
	m := make(map[string]func(string) bool)
	for list, shows := range map[string]func(string) bool{
		"command": hasWord("command commands run ran running bash shell terminal cmd sh execute executed install"),
		"error exception failure crash traceback": func(text string) bool { return detectKeywords(text)&failure != 0 },
		"file document":   hasPath,
		"function method": hasWord("function functions func def method methods lambda"),
		"query":           hasWord("query queries sql select search where"),
		"test":            hasWord("test tests tested testing pytest unittest"),
		"answer reply response question request task problem issue approach solution fix step result output change edit suggestion " +
			"idea option example explanation calculation attempt try thing procedure message topic conversation discussion trick bug code": nil,
	} {
		for noun := range strings.FieldsSeq(list) {
			m[text.Stem(noun)] = shows
		}
	}
	return m
}()

func hasWord(list string) func(string) bool {
	wanted := text.Set(list)
	return func(text string) bool { return containsWord(text, wanted) }
}

func hasPath(text string) bool {
	for _, f := range factsIn(text) {
		if f.kind == path {
			return true
		}
	}
	return false
}

// FindReferenced returns the index of the earlier interaction that a query refers to, as in "the same command as before",
// "like the first time", "what we did with the parser" or "do that for the other file too". There are n candidates,
// oldest first; candidate returns the text of one and is called only if the query refers back. The result is -1 if
// the query does not refer back, or if no candidate has the topic that it names.
//
// Only the phrases in this package's tables count as a reference; shared words alone do not. A query that only points
// back ("do that for Y too") means the last candidate. For other queries the candidates are filtered by the kind that
// the query names (command, error, file, function, query, test), then by the rarest words shared with the query. An
// ordinal selects among the rest; without one the last is chosen. Referred reads the first 2 KB of the query and the
// first 8 KB of each candidate.
func FindReferenced(query string, n int, candidate func(int) string) int {
	if n <= 0 {
		return -1
	}
	query = query[:min(len(query), queryBytes)]
	ts := tokens(query)
	maskMatches(nonReferences, ts)
	if containsAny(lastTurnPhrases, ts) {
		return n - 1
	}
	topicRequired := !containsAny(kindPhrases, ts)
	if topicRequired && !containsAny(topicPhrases, ts) {
		return -1
	}

	texts, pool := make([]string, n), make([]int, n)
	for i := range n {
		c := candidate(i)
		texts[i], pool[i] = c[:min(len(c), maxRead)], i
	}
	kind, nth := kindAndOrdinal(ts)
	if hasKind := kindTests[kind]; hasKind != nil {
		pool = filterOrAll(pool, func(i int) bool { return hasKind(texts[i]) })
	}
	topic := topicWords(query)
	best, shared := mostSimilar(topic, texts, pool)
	if topicRequired && len(topic) > 0 && !shared {
		return -1
	}
	if nth < 0 || nth >= len(best) {
		return best[len(best)-1]
	}
	return best[nth]
}

// filterOrAll returns the elements of the pool that keep accepts, or the whole pool if it accepts none.
func filterOrAll(pool []int, keep func(int) bool) []int {
	var some []int
	for _, i := range pool {
		if keep(i) {
			some = append(some, i)
		}
	}
	if some == nil {
		return pool
	}
	return some
}

// kindAndOrdinal returns the stem of the first kind that the tokens name, or "", and the ordinal before a kind, or
// -1.
func kindAndOrdinal(ts []token) (kind string, nth int) {
	nth = -1
	for i, t := range ts {
		k := text.Stem(t.word)
		_, is := kindTests[k]
		if is && kind == "" {
			kind = k
		}
		if n, ordinal := ordinals[previousWord(ts, i)]; ordinal && nth < 0 && (is || t.word == "time" || t.word == "one") {
			nth = n
		}
	}
	return kind, nth
}

func previousWord(ts []token, i int) string {
	if i == 0 {
		return ""
	}
	return ts[i-1].word
}

// topicWords returns the stems of the content words of a query, without words that only express the reference. Each
// stem has its own bit; there are at most 64.
func topicWords(query string) map[string]uint64 {
	m := make(map[string]uint64)
	for w := range words(query) {
		s := text.Stem(w)
		_, kind := kindTests[s]
		_, ordinal := ordinals[w]
		if _, known := m[s]; known || kind || ordinal || !isContentWord(w) || referenceWords[w] || isPastTense(w) && irregularPast[w] {
			continue
		}
		if m[s] = 1 << len(m); len(m) == 64 {
			break
		}
	}
	return m
}

// referenceWords express a reference and no topic, in addition to stopWords.
var referenceWords = text.Set(`remember repeat redo rerun replay run try use apply show tell explain said mentioned discussed suggested asked
	talked agreed decided above previously already yesterday back like way thing things everything still exact other let look`)

// mostSimilar returns the elements of the pool that share the most words with the topic. A word that df of the n
// texts contain weighs log(1 + n/df). If no text shares a word, it returns the whole pool.
func mostSimilar(topic map[string]uint64, texts []string, pool []int) (best []int, shared bool) {
	if len(topic) == 0 {
		return pool, false
	}
	found := make([]uint64, len(pool))
	var df [64]int
	for k, i := range pool {
		for w := range words(texts[i]) {
			found[k] |= topic[text.Stem(w)]
		}
		for rest := found[k]; rest != 0; rest &= rest - 1 {
			df[bits.TrailingZeros64(rest)]++
		}
	}
	highest := 0.0
	for k, i := range pool {
		sum := 0.0
		for rest := found[k]; rest != 0; rest &= rest - 1 {
			sum += math.Log1p(float64(len(pool)) / float64(df[bits.TrailingZeros64(rest)]))
		}
		if sum > highest {
			best, highest = best[:0], sum
		}
		if sum == highest {
			best = append(best, i)
		}
	}
	return best, highest > 0
}
