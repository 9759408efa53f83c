package conversation

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// phrases returns the pattern of a table, which has a phrase on each line. A phrase is a regular expression for a part of a normalized query, see
// normalizeQuery. END is the beginning or the end of a clause, and phraseNames has the other names in capitals. All groups become
// groups without capture. The pattern is compiled at its first use, because most programs with this package have no conversations.
func phrases(table string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp {
		lines := strings.FieldsFunc(table, func(r rune) bool { return r == '\n' || r == '\t' })
		pattern := phraseNames.Replace(strings.Join(lines, "|"))
		return regexp.MustCompile(`\b(` + strings.ReplaceAll(pattern, "(", "(?:") + `)\b`)
	})
}

// phraseNames replaces the names in the tables of phrases by regular expressions. It does not replace END, which is a word of a normalized query.
var phraseNames = strings.NewReplacer(
	" ... ", "( [^ A-Z]+){0,5} ", // up to five words of the same clause
	"KIND", kindPattern(),
	"ORD", "("+strings.Join(slices.Sorted(maps.Keys(ordinals)), "|")+")",
	"DID", "("+strings.ReplaceAll(irregularPast, " ", "|")+"|[a-z]{2,}[a-df-z]ed)",
	"WE", "(we|you)",
)

// kindPattern returns a regular expression for the nouns of kinds.
func kindPattern() string {
	var nouns []string
	for _, list := range slices.Sorted(maps.Keys(kinds)) {
		for noun := range strings.FieldsSeq(list) {
			if base, ok := strings.CutSuffix(noun, "y"); ok {
				noun = base + "(y|ie)"
			}
			nouns = append(nouns, noun+"(s|es)?")
		}
	}
	return "(" + strings.Join(nouns, "|") + ")"
}

// irregularPast has past tenses and participles without -ed.
const irregularPast = "did ran wrote made had found used said got saw gave chose put set built sent took told thought began went came left met read " +
	"done seen written made shown given taken chosen begun"

// ordinalPhrase matches an ordinal that selects among interactions.
var ordinalPhrase = phrases(`ORD (KIND|time|one)`)

// nonReferences look like references to an earlier turn but are not.
var nonReferences = phrases(`
	at the same time
	(in|into|at|of|on|from|within|have|has|having|share|shares|return|returns|both) the same
	the same KIND (for|in) (all|both|each|every|any)
	(over and over|again and) again
	(if|when|whenever|until|unless|who|never|not|cannot) ... again
	(never|not|ever) ... (before|earlier)
	(day|night|week|month|year|line|hour|minute|row|word|long|just|right|shortly) (before|earlier)
	(no|any|an|much|hours?|minutes|days) earlier
	(earlier|before) than
	(last|previous|first|earlier) KIND (in|of|on|from) (an?|the|each|every|all|this)
	KIND of (an?|the|all|each|every)
	for the (first|last) time
	(did|do) you (know|mean|hear|ever)
	(repeat|rerun|redo) (it|this|that) ... (times|each|every|until)
	remember to
`)

// lastTurnPhrases refer to the last turn without naming it.
var lastTurnPhrases = phrases(`
	(do|run|try|apply|make|repeat|use) (that|this|it|so) ... (too|again|as well)
	(do|does|did) the same( thing)? (END|for|with|to|on|in|here|there|again|but|now)
	END ((and|now|then|ok|please) )*(the )?same (END|for|with|on|in|here|there|again)
	END ((and|now|then) )*do (that|it) (for|with|on|in)
	END (please )?(repeat|redo|rerun|replay)( that| it| this| them| those)?( please)? END
	END (please )?(repeat|redo|rerun|replay) (that|it|this) (for|with|on|but|once)
	END (please )?((try|run|execute|do) )?((it|that|this) )?again END
	(it|that|this) ... again END
	(once more|one more time)( please)? END
`)

// kindPhrases refer to an earlier interaction. The other words of the query identify it; without such words it is the
// last one.
var kindPhrases = phrases(`
	(as|like|from) (before|earlier|previously|above|yesterday)
	(as|like|from|for) ((the|that|our|your) )?(ORD|other) (time|one|occasion|attempt|try)
	last time (END|WE)
	(the|that|this|those|these|your|my|our) (earlier|previous|preceding|prior) KIND
	(your|our|my) ORD KIND
	the last KIND (END|WE|again|for|with|but|on)
	(use|run|rerun|apply|execute|repeat|try|call|follow|get|got|getting|see|seeing|hit|hitting|still) ((the|that|very|exact) )*same KIND
	(need|want|give|show|send|do|take|make|edit|open|change|is|as) ((the|that|very|exact) )*same KIND
	(with|using) the same (command|arguments?|options?|settings|parameters|query|approach|flags)
	same (way|trick|thing) (END|again|as|here)
	same as ((the|your|our) )?(ORD|above)
	(repeat|redo|rerun|replay) (the|your|that|what|our) (last|previous|same|earlier|first|second|third)
	END ((please|now|then|can|could|let|you|s) )*(run|rerun|try|do|show|repeat|execute|call|build|test|check|open|send) ... again (END|with|for|on|but|and|using|now|please)
	END ((please|now|then|can|could|let|you|s) )*(give|tell|list|print|explain|deploy|start) ... again (END|with|for|on|but|and|using|now|please)
	KIND again END
	(what|which|how|where|who|when) ... again END
	KIND (from )?(before|earlier|above|previously) END
	above KIND
	(mentioned|discussed|described|shown|said|used|seen|agreed) (above|earlier|before|previously)
	(previously|earlier|already) (mentioned|discussed|described|shown|used|agreed)
	earlier (WE|i)
	(WE|i) DID ... (before|earlier|previously|already|yesterday) END
`)

// topicPhrases refer to the earlier interaction whose topic the other words of the query name. Without a matching
// interaction they refer to nothing.
var topicPhrases = phrases(`
	(what|how|as|like|way|things?|where|when|that|which|all|everything) WE ((have|ve|had) )?((already|just) )?DID
	KIND ((that|which) )?WE ((have|ve|had) )?((already|just) )?DID
	(what|how|why|which|where|when|whose)( KIND)? did (we|you|i)
	what (was|were) (that|your|our|the) KIND
	what (was|were) (it|that) WE DID
	(do|did) ((you|we|i) )?(still )?remember
	remember (when|how|what|where|why) (WE|i|the)
	WE (suggested|mentioned|said|showed|gave|proposed|recommended|listed|described|explained|discussed|agreed|decided|covered)
	i (asked|told|said|mentioned|showed|gave|sent|pasted)
	END (please )?(let s )?(go|get|come|going|coming) back to (the|that|your|our|what)
`)
