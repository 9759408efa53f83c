package conversation

import (
	"iter"
	"strings"

	"debrief/playbook/text"
)

// maxRead is the number of bytes that are read of a text, from its beginning, unless a smaller limit is stated.
const maxRead = 8 << 10

// words yields the words of a text in lower case, see [text.Words]. A word such as ValueError is split into its [text.Parts].
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

// containsWord reports whether a text has a word of a list.
func containsWord(text string, list map[string]bool) bool {
	for w := range words(text) {
		if list[w] {
			return true
		}
	}
	return false
}
