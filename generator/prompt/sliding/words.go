package sliding

import (
	"iter"
	"strings"

	"debrief/playbook/text"
)

// maxRead is the number of bytes read of one text, from its beginning. Some callers use smaller limits.
const maxRead = 8 << 10

// words yields the words of a text in lower case; see [text.Words]. A capital after a small letter begins a new word, so
// "ValueError" contains "error".
func words(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for word := range text.Words(s) {
			for part := range text.Parts(word) {
				if !yield(strings.ToLower(part)) {
					return
				}
			}
		}
	}
}

// isContentWord reports whether a word carries meaning: it is a digit or not a stop word.
func isContentWord(w string) bool {
	if len(w) == 1 {
		return '0' <= w[0] && w[0] <= '9'
	}
	return !stopWords[w]
}

// stopWords are so common that they carry no topic.
var stopWords = text.Set(`a about after again all also an and any are as at be because been before being both but by can cannot could
	d did didn do does doesn doing don done down each few for from further get give go got had has have having he her here hers him his
	how i if in into is isn it its itself just ll let like m make may me might more most much must my need no nor not now of off
	ok on once one only or other our out over own please put re s same shall she should show so some such t take than thank thanks
	that the their them then there these they this those time to too try under until up use used using ve very want was way we well were
	what when where which while who whom why will with would yes yet you your`)
