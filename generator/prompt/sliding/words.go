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

// isContentWord reports whether a word carries meaning: it is a digit or not common.
func isContentWord(w string) bool {
	if len(w) == 1 {
		return '0' <= w[0] && w[0] <= '9'
	}
	return !text.IsCommon(w)
}

func containsWord(text string, list map[string]bool) bool {
	for w := range words(text) {
		if list[w] {
			return true
		}
	}
	return false
}
