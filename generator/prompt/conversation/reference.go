package conversation

import (
	"math"
	"regexp"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// FindReferenced returns the index of the earlier interaction that a query refers to, as in "the same command as before",
// "like the first time", "what we did with the parser" or "do that for the other file too". There are n candidates,
// oldest first; candidate returns the text of one and is called only if the query refers back. The result is -1 if
// the query does not refer back, or if no candidate has the topic that it names.
//
// Only the phrases in this package's tables count as a reference; shared words alone do not. A query that only points
// back ("do that for Y too") means the last candidate. For other queries FindReferenced keeps the candidates of the kind that
// the query names (command, error, file, function, query, test), and of these the ones with the rarest words of the query. An
// ordinal in the query selects one of them; without an ordinal it is the last one. FindReferenced reads the first 2 KB of the query and
// the first 8 KB of each candidate.
func FindReferenced(query string, n int, candidate func(int) string) int {
	if n <= 0 {
		return -1
	}
	query = query[:min(len(query), queryBytes)]
	normalized := nonReferences().ReplaceAllLiteralString(normalizeQuery(query), otherText)
	if lastTurnPhrases().MatchString(normalized) {
		return n - 1
	}
	topicRequired := !kindPhrases().MatchString(normalized)
	if topicRequired && !topicPhrases().MatchString(normalized) {
		return -1
	}

	texts, pool := make([]string, n), make([]int, n) // pool has the indices of the candidates that are left
	for i := range n {
		c := candidate(i)
		texts[i], pool[i] = c[:min(len(c), maxRead)], i
	}
	if shows := kinds[firstKind(normalized)]; shows != nil {
		ofKind := slices.DeleteFunc(slices.Clone(pool), func(i int) bool { return !shows(texts[i]) })
		if len(ofKind) > 0 {
			pool = ofKind
		}
	}
	topic := topicWords(query)
	best, shared := mostSimilar(topic, texts, pool)
	if topicRequired && len(topic) > 0 && !shared {
		return -1
	}
	ordinal, _, _ := strings.Cut(ordinalPhrase().FindString(normalized), " ")
	if position, ok := ordinals[ordinal]; ok && 0 <= position && position < len(best) {
		return best[position]
	}
	return best[len(best)-1]
}

// ordinals are the words for a position: an index from 0, or -1 for the last one.
var ordinals = map[string]int{
	"first": 0, "initial": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4,
	"last": -1, "latest": -1, "previous": -1, "earlier": -1, "preceding": -1, "prior": -1, "recent": -1,
}

// kindTable has the nouns that a query can use for an interaction, with a test of its text. A nil test accepts every interaction.
var kindTable = []struct {
	nouns string
	shows func(text string) bool
}{
	{"command", hasWord("command commands run ran running bash shell terminal cmd sh execute executed install")},
	{"error exception failure crash traceback", func(text string) bool { return keywordFlags(text)&failure != 0 }},
	{"file document", hasPath},
	{"function method", hasWord("function functions func def method methods lambda")},
	{"query", hasWord("query queries sql select search where")},
	{"test", hasWord("test tests tested testing pytest unittest")},
	{"answer reply response question request task problem issue approach solution fix step result output change edit suggestion " +
		"idea option example explanation calculation attempt try thing procedure message topic conversation discussion trick bug code", nil},
}

// kinds has the tests of kindTable by the stems of the nouns.
var kinds = func() map[string]func(string) bool {
	m := make(map[string]func(string) bool)
	for _, kind := range kindTable {
		for noun := range strings.FieldsSeq(kind.nouns) {
			m[text.Stem(noun)] = kind.shows
		}
	}
	return m
}()

// hasWord returns a function that reports whether a text has a word of a list.
func hasWord(list string) func(string) bool {
	wanted := text.Set(list)
	return func(text string) bool { return containsWord(text, wanted) }
}

func hasPath(text string) bool {
	return slices.ContainsFunc(factsIn(text), func(f fact) bool { return f.kind == path })
}

// firstKind returns the stem of the first noun of kindTable in a normalized query, or "".
func firstKind(normalized string) string {
	for w := range strings.FieldsSeq(normalized) {
		stem := text.Stem(w)
		if _, ok := kinds[stem]; ok {
			return stem
		}
	}
	return ""
}

// topicWords returns the stems of the content words of a query, without words that only express the reference.
func topicWords(query string) (topic []string) {
	for w := range words(query) {
		s := text.Stem(w)
		_, isKind := kinds[s]
		_, isOrdinal := ordinals[w]
		if isKind || isOrdinal || referenceWords[w] {
			continue
		}
		if isContentWord(w) && !slices.Contains(topic, s) {
			topic = append(topic, s)
		}
	}
	return topic
}

// referenceWords express a reference and no topic, in addition to common words.
var referenceWords = text.Set(`remember repeat redo rerun replay run try use apply show tell explain said mentioned discussed suggested asked
	talked agreed decided above previously already yesterday back like way thing things everything still exact other let look ` + irregularPast)

// mostSimilar returns the elements of the pool whose texts share the most words with the topic. A word that df of the n texts in the
// pool contain weighs log(1 + n/df). If no text shares a word, it returns the whole pool, and shared is false.
func mostSimilar(topic, texts []string, pool []int) (best []int, shared bool) {
	found := make([]map[string]bool, len(pool)) // the stems of each text
	df := make(map[string]int)
	for k, i := range pool {
		stems := make(map[string]bool)
		for w := range words(texts[i]) {
			stems[text.Stem(w)] = true
		}
		for _, s := range topic {
			if stems[s] {
				df[s]++
			}
		}
		found[k] = stems
	}
	highest := 0.0
	for k, i := range pool {
		sum := 0.0
		for _, s := range topic {
			if found[k][s] {
				sum += math.Log1p(float64(len(pool)) / float64(df[s]))
			}
		}
		if sum > highest {
			best, highest = nil, sum
		}
		if sum == highest {
			best = append(best, i)
		}
	}
	return best, highest > 0
}

// Words that replace parts of a query. The query's own words are in lower case.
const (
	clauseEnd = "END"
	otherText = "_" // in place of a quotation, or of a phrase that is no reference
)

var (
	contractions = strings.NewReplacer("n't", " not", "n’t", " not", " re-", " re")
	quotation    = regexp.MustCompile("\"[^\"]*\"|`[^`]*`|[“„][^”]*”|«[^»]*»")
	endOfClause  = regexp.MustCompile(`[?!,;:\n()。？！，；]|\.(\s|$)`)
	betweenWords = regexp.MustCompile(`[^\pL\pN\pM_]+`)
)

// normalizeQuery returns the words of a query, separated by single spaces, with END around each clause. "Don't" becomes
// "do not", "re-run" becomes "rerun", and "we've" becomes "we ve".
func normalizeQuery(query string) string {
	query = contractions.Replace(" " + strings.ToLower(strings.ToValidUTF8(query, " ")))
	query = quotation.ReplaceAllLiteralString(query, " "+otherText+" ")
	query = endOfClause.ReplaceAllLiteralString(query, " "+clauseEnd+" ")
	return betweenWords.ReplaceAllLiteralString(clauseEnd+" "+query+" "+clauseEnd, " ")
}
