package sliding

import (
	"strings"

	"debrief/playbook/text"
)

// The number of user turns for a query.
const (
	fewTurns   = 3 // for a query of fewer than fewWords words
	someTurns  = 5
	manyTurns  = 7 // for a query that begins a larger piece of work
	fewWords   = 5
	queryBytes = 2 << 10 // bytes read of a query; the text after them is mostly pasted
)

var largeTaskWords = text.Set(`refactor refactors refactored refactoring refactorings
	implement implements implemented implementing implementation implementations reimplement reimplementing
	design designs designed designing redesign redesigns redesigned redesigning`)

// TurnCount returns the number of recent user turns to show with a query: 3 for fewer than 5 words, 7 if it mentions
// refactoring, implementing or designing in any form, else 5. An ideograph counts as a word. Turns reads the first 2
// KB.
func TurnCount(query string) int {
	query = query[:min(len(query), queryBytes)]
	switch {
	case wordCount(query) < fewWords:
		return fewTurns
	case containsWord(query, largeTaskWords):
		return manyTurns
	}
	return someTurns
}

// wordCount counts words as a reader does: "don't", "GitHub" and "main.go" are one word each.
func wordCount(s string) (n int) {
	for field := range strings.FieldsSeq(s) {
		rest := 0
		for _, r := range field {
			switch {
			case text.Unspaced(r):
				n++
			case text.InWord(r):
				rest = 1
			}
		}
		n += rest
	}
	return n
}

func containsWord(text string, list map[string]bool) bool {
	for w := range words(text) {
		if list[w] {
			return true
		}
	}
	return false
}
