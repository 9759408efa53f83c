package conversation

import (
	"maps"
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
// back ("do that for Y too") means the last candidate. For other queries FindReferenced keeps the candidates with the rarest words of the query; a
// noun such as command, error, function, query or test also matches the usual words of such an interaction, see kinds. An
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
	// "Like the first time" needs no topic in common with a candidate. "What we did with the parser" needs a candidate about the parser.
	refersToKind := kindPhrases().MatchString(normalized)
	if !refersToKind && !topicPhrases().MatchString(normalized) {
		return -1
	}

	texts := make([]string, n)
	for i := range texts {
		c := candidate(i)
		texts[i] = c[:min(len(c), maxRead)]
	}
	topic := topicOf(query)
	best, shared := mostSimilar(topic, texts)
	if !refersToKind && len(topic) > 0 && !shared {
		return -1
	}
	ordinal, _, _ := strings.Cut(ordinalPhrase().FindString(normalized), " ")
	if position, ok := ordinals[ordinal]; ok && 0 <= position && position < len(best) {
		return best[position]
	}
	return best[len(best)-1] // also for an ordinal of -1, or one that is too large
}

// ordinals are the words for a position: an index from 0, or -1 for the last one.
var ordinals = map[string]int{
	"first": 0, "initial": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4,
	"last": -1, "latest": -1, "previous": -1, "earlier": -1, "preceding": -1, "prior": -1, "recent": -1,
}

// kinds has the words that show the interactions of a kind, by the nouns for it. An empty list stands for any interaction.
var kinds = map[string]string{
	"command":                         "command run ran bash shell terminal cmd sh execute executed install",
	"error exception crash traceback": "error exception traceback crash",
	"function method":                 "function func def method lambda",
	"query":                           "query sql select",
	"test":                            "test tested pytest unittest",
	"file document failure answer reply response question request task problem issue approach solution fix step result output change edit " +
		"suggestion idea option example explanation calculation attempt try thing procedure message topic conversation discussion trick bug code": "",
}

// wordsOfKind has the stems of the words of a kind, by the stem of each noun.
var wordsOfKind = func() map[string][]string {
	m := make(map[string][]string)
	for nouns, list := range kinds {
		for noun := range strings.FieldsSeq(nouns) {
			m[text.Stem(noun)] = slices.Sorted(maps.Keys(stems(list)))
		}
	}
	return m
}()

// topicOf returns the topic of a query, as lists of stems: one for each content word, and one for a noun that stands for a kind of interaction. Words
// that only express the reference are left out.
func topicOf(query string) (topic [][]string) {
	seen := make(map[string]bool)
	for w := range words(query) {
		s := text.Stem(w)
		_, isOrdinal := ordinals[w]
		ofKind, isKind := wordsOfKind[s]
		switch {
		case seen[s] || isOrdinal || referenceWords[w]:
		case isKind && len(ofKind) > 0:
			topic = append(topic, ofKind)
		case !isKind && isContentWord(w):
			topic = append(topic, []string{s})
		}
		seen[s] = true
	}
	return topic
}

// referenceWords express a reference and no topic, in addition to common words.
var referenceWords = text.Set(`remember repeat redo rerun replay run try use apply show tell explain said mentioned discussed suggested asked
	talked agreed decided above previously already yesterday back like way thing things everything still exact other let look ` + irregularPast)

// mostSimilar returns the indices of the texts that share the most with the topic. An element of the topic that df of the n texts contain weighs
// log(1 + n/df). If no text shares an element, it returns all indices, and shared is false.
func mostSimilar(topic [][]string, texts []string) (best []int, shared bool) {
	weights := make([]float64, len(texts))
	found := make([]map[string]bool, len(texts)) // the stems of each text
	for i := range texts {
		found[i] = make(map[string]bool)
		for w := range words(texts[i]) {
			found[i][text.Stem(w)] = true
		}
	}
	for _, element := range topic {
		var having []int
		for i := range texts {
			if slices.ContainsFunc(element, func(stem string) bool { return found[i][stem] }) {
				having = append(having, i)
			}
		}
		for _, i := range having {
			weights[i] += math.Log1p(float64(len(texts)) / float64(len(having)))
		}
	}
	highest := slices.Max(weights)
	for i, weight := range weights {
		if weight == highest {
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
