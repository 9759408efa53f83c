package sliding

import (
	"slices"
	"strings"
	"unicode"

	"debrief/playbook/text"
)

// token is a word of a query.
type token struct {
	word        string
	first, last bool // in its clause
}

// tokens splits a query into lower-case tokens. Quoted text and code are not the user's own words, so each becomes
// one token without a word. "We've" is two words and "re-run" is one.
func tokens(query string) (all []token) {
	begins := true
	end := func() {
		if len(all) > 0 {
			all[len(all)-1].last = true
		}
		begins = true
	}
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			all = append(all, token{word.String(), begins, false})
			begins = false
			word.Reset()
		}
	}
	runes := []rune(strings.ToLower(strings.ToValidUTF8(query, " ")))
	for i := 0; i < len(runes); i++ {
		switch r := runes[i]; {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			word.WriteRune(r)
		case (r == '\'' || r == '’') && i+1 < len(runes) && word.Len() > 0:
			if runes[i+1] == 't' { // don't
				word.WriteByte('\'')
			} else {
				flush()
			}
		case r == '-' && word.String() == "re":
		default:
			flush()
			if closing := quotes[r]; closing != 0 {
				if n := slices.Index(runes[i+1:], closing); n >= 0 {
					all = append(all, token{"", begins, false})
					begins = false
					i += n + 1
					continue
				}
			}
			if strings.ContainsRune(".?!,;:\n()。？！，；", r) && (r != '.' || i+1 == len(runes) || unicode.IsSpace(runes[i+1])) {
				end()
			}
		}
	}
	flush()
	end()
	return all
}

var quotes = map[rune]rune{'"': '"', '`': '`', '“': '”', '„': '“', '«': '»'}

// phrase is a pattern over tokens, written as elements separated by spaces. An element is a list of alternatives
// separated by "|"; an alternative that ends in "?" makes the element optional. "*" matches up to five words, "."
// matches the end of a clause and "^" its beginning. Elements in capitals are word classes, see wordClasses.
type phrase [][]string

func phrases(list string) (all []phrase) {
	for line := range strings.Lines(list) {
		var p phrase
		for element := range strings.FieldsSeq(line) {
			p = append(p, strings.Split(element, "|"))
		}
		if p != nil {
			all = append(all, p)
		}
	}
	return all
}

// wordClasses are the predicates for the class names in phrases.
var wordClasses = map[string]func(string) bool{
	"WE":   func(w string) bool { return w == "we" || w == "you" },
	"KIND": func(w string) bool { _, is := kindTests[text.Stem(w)]; return is },
	"DID":  isPastTense,
	"ORD":  func(w string) bool { _, is := ordinals[w]; return is },
}

// isPastTense reports whether a word is the past tense of a verb. Most such words end in -ed, and few other words do.
func isPastTense(w string) bool {
	return irregularPast[w] || len(w) > 4 && strings.HasSuffix(w, "ed") && !strings.HasSuffix(w, "eed") && w != "embed"
}

var irregularPast = text.Set(`did used ran wrote made had found said got saw gave chose put set built sent took told thought began went came left
	met read done seen written made shown given taken chosen begun`)

const maxWildcard = 5 // maximum number of words that "*" matches

// match returns the number of tokens that the phrase matches at the beginning of ts, or -1. The token before ts is
// nil at the start of a match.
func (p phrase) match(ts []token, before *token) int {
	if len(p) == 0 {
		return 0
	}
	matchRest := func(n int) int {
		last := before
		if n > 0 {
			last = &ts[n-1]
		}
		if rest := p[1:].match(ts[n:], last); rest >= 0 {
			return n + rest
		}
		return -1
	}
	switch p[0][0] {
	case "^":
		if len(ts) == 0 || !ts[0].first {
			return -1
		}
		return matchRest(0)
	case ".":
		if before != nil && !before.last {
			return -1
		}
		return matchRest(0)
	case "*":
		for n := range min(maxWildcard, len(ts)) + 1 {
			if n > 0 && ts[n-1].first && (n > 1 || before != nil) { // the wildcard stays within its clause
				break
			}
			if all := matchRest(n); all >= 0 {
				return all
			}
		}
		return -1
	}
	optional := false
	for _, word := range p[0] {
		word, maybe := strings.CutSuffix(word, "?")
		optional = optional || maybe
		if len(ts) == 0 || ts[0].first && before != nil {
			continue
		}
		if class := wordClasses[word]; ts[0].word == word || class != nil && class(ts[0].word) {
			if all := matchRest(1); all >= 0 {
				return all
			}
		}
	}
	if optional {
		return matchRest(0)
	}
	return -1
}

// containsAny reports whether one of the phrases matches anywhere in the query.
func containsAny(list []phrase, ts []token) bool {
	for i := range ts {
		if longestMatch(list, ts[i:]) > 0 {
			return true
		}
	}
	return false
}

// longestMatch returns the number of tokens of the longest match at the beginning of ts, 0 if no phrase matches.
func longestMatch(list []phrase, ts []token) (n int) {
	for _, p := range list {
		n = max(n, p.match(ts, nil))
	}
	return n
}

// maskMatches removes the words of all tokens that the phrases match.
func maskMatches(list []phrase, ts []token) {
	for len(ts) > 0 {
		n := longestMatch(list, ts)
		for i := range n {
			ts[i].word = ""
		}
		ts = ts[max(1, n):]
	}
}

// nonReferences look like references to an earlier turn but are not. Their words are masked before other phrases are
// tried.
var nonReferences = phrases(`
	at the same time
	in|into|at|of|on|from|within|have|has|having|share|shares|return|returns|both the same
	the same KIND for|in all|both|each|every|any
	again and again
	over and over again
	if|when|whenever|until|unless|who|never|not|don't|doesn't|didn't|won't|can't|cannot|isn't|shouldn't * again
	never|not|haven't|hasn't|don't|ever * before|earlier
	day|night|week|month|year|line|hour|minute|row|word|long|just|right|shortly before|earlier
	no|any|an|much|hour|hours|minutes|days earlier
	earlier|before than
	last|previous|first|earlier KIND in|of|on|from a|an|the|each|every|all|this
	KIND of a|an|the|all|each|every
	for the first|last time
	did|do you know|mean|hear|ever
	repeat|rerun|redo it|this|that * times|each|every|until
	remember to
`)

// lastTurnPhrases refer to the previous turn without naming it.
var lastTurnPhrases = phrases(`
	do|run|try|apply|make|repeat|use that|this|it|so * too|again
	do|run|try|apply|make|repeat|use that|this|it|so * as well
	do|does|did the same thing? .
	do|does|did the same thing? for|with|to|on|in|here|there|again|but|now
	^ and|now|then|ok|please? now|then|please? the? same for|with|on|in|here|there|again|.
	^ and|now|then do that|it for|with|on|in
	^ please? repeat|redo|rerun|replay that|it|this|them|those|please? .
	^ please? repeat|redo|rerun|replay that|it|this for|with|on|but|once
	^ please? try|run|execute|do? it|that|this? again
	it|that|this * again .
	once more .
	one more time .
	one more time please .
`)

// kindPhrases refer to an earlier interaction. The other words of the query identify it; without such words it is the
// last one.
var kindPhrases = phrases(`
	as|like|from before|earlier|previously|above|yesterday
	as|like|from|for the|that|our|your? ORD|other time|one|occasion|attempt|try
	last time WE
	last time .
	the|that|this|those|these|your|my|our earlier|previous|preceding|prior KIND
	your|our|my ORD KIND
	the last command|answer|question|query|response|reply|suggestion|approach|attempt|result|output|error|change|edit|message|thing|try|step .
	the last command|answer|question|query|response|reply|suggestion|approach|attempt|result|output|error|change|edit|message|thing|try|step WE|again|for|with|but|on
	use|run|rerun|apply|execute|repeat|try|call|follow|get|got|getting|see|seeing|hit|hitting|still|need|want|give|show|send|do|take|make|edit|open|change|is|as the|that|very|exact? same KIND
	with|using the same command|argument|arguments|option|options|settings|parameters|query|approach|flags
	same way|trick|thing again|as|here|.
	same as the|your|our? ORD|earlier|above
	repeat|redo|rerun|replay the|your|that|what|our last|previous|same|earlier|first|second|third
	^ please|now|then|can|could|let? you|s? please? run|rerun|try|do|show|repeat|execute|call|build|test|check|open|send|give|tell|list|print|explain|deploy|start * again .
	^ please|now|then|can|could|let? you|s? please? run|rerun|try|do|show|repeat|execute|call|build|test|check|open|send|give|tell|list|print|explain|deploy|start * again with|for|on|but|and|using|now|please
	KIND again .
	what|which|how|where|who|when * again .
	KIND from? before|earlier|above|previously .
	above KIND
	mentioned|discussed|described|shown|said|used|seen|agreed above|earlier|before|previously
	previously|earlier|already mentioned|discussed|described|shown|used|agreed
	earlier WE|i
	WE|i DID * before|earlier|previously|already|yesterday .
`)

// topicPhrases refer to the earlier interaction whose topic the other words of the query name. Without a matching
// interaction they refer to nothing.
var topicPhrases = phrases(`
	what|how|as|like|way|thing|things|where|when|that|which|all|everything WE have|ve|had? already|just? DID
	KIND that|which? WE have|ve|had? already|just? DID
	what|how|why|which|where|when|whose did we|you|i
	what|how|why|which|where|when|whose KIND did we|you|i
	what was|were that|your|our|the KIND
	what was|were it|that WE DID
	do|did you|we|i? still? remember
	remember when|how|what|where|why WE|i|the
	WE suggested|mentioned|said|showed|gave|proposed|recommended|listed|described|explained|discussed|agreed|decided|covered
	i asked|told|said|mentioned|showed|gave|sent|pasted
	^ please|let|let's? s? go|get|come|going|coming? back to the|that|your|our|what
`)
