package sliding

import "strings"

// How many user turns a query gets to see.
const (
	fewTurns   = 3 // of a query of fewer than fewWords words
	someTurns  = 5
	manyTurns  = 7 // of a query that takes up a larger piece of work
	fewWords   = 5
	queryBytes = 2 << 10 // of a query, what is read to see what it wants; what follows is mostly pasted
)

var largeWork = set(`refactor refactors refactored refactoring refactorings
	implement implements implemented implementing implementation implementations reimplement reimplementing
	design designs designed designing redesign redesigns redesigned redesigning`)

// Turns is how many of the last user turns a query needs to be seen with: 3 with fewer than 5 words, whatever they are;
// 7 if it wants to refactor, implement or design something (these words, their inflections, and again: redesign); else
// 5. An ideograph counts as a word. The first 2 KB are read.
func Turns(query string) int {
	query = query[:min(len(query), queryBytes)]
	switch {
	case wordCount(query) < fewWords:
		return fewTurns
	case mentions(query, largeWork):
		return manyTurns
	}
	return someTurns
}

// wordCount counts as people do: "don't", "GitHub" and "main.go" are one word each.
func wordCount(text string) (n int) {
	for field := range strings.FieldsSeq(text) {
		rest := 0
		for _, r := range field {
			switch in, alone := wordRune(r); {
			case alone:
				n++
			case in:
				rest = 1
			}
		}
		n += rest
	}
	return n
}

func mentions(text string, list map[string]bool) bool {
	for w := range words(text) {
		if list[w] {
			return true
		}
	}
	return false
}
