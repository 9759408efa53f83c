package similar

import (
	"slices"
	"strings"

	"debrief/playbook/text"
)

// Two texts are on one subject if they share at least minShared rare words, and if Dice's coefficient (1945) of their rare words is at least
// minSubject. Six wordings of one rule in a public bug report have a coefficient of 0.71 or more, and a Similarity of only 0.29 to 0.67.
const (
	minShared  = 3
	minSubject = 0.6
)

// SameSubject groups items with texts on one subject by their rare words: the stems of words that are not common in English and not numbers.
// The texts of a group are perhaps wordings of one rule, or they contradict each other; only a model or a person can tell. Texts are not on
// one subject if each of them has an identifier that the other lacks, such as the rules for two currencies.
//
// SameSubject returns the groups with several items, in order. Each text of a group is on one subject with the first text of the group, and no
// item is in two groups.
func SameSubject[T any](items []T, textOf func(T) string) [][]T {
	type group struct {
		items []T
		first string // text of the first item
		words set
	}
	var all []*group
	withWord := make(map[uint64][]int) // by word: the groups whose first text has it
	for _, item := range items {
		s := textOf(item)
		words := rareWords(s)
		shared := make(map[int]int) // by group
		for _, word := range words {
			for _, g := range withWord[word] {
				shared[g]++
			}
		}
		best := -1
		for g, n := range shared {
			dice := 2 * float64(n) / float64(len(words)+len(all[g].words))
			isNearer := best < 0 || n > shared[best] || n == shared[best] && g < best
			if n >= minShared && dice >= minSubject && isNearer && !isOtherCase(all[g].first, s) {
				best = g
			}
		}
		if best >= 0 {
			all[best].items = append(all[best].items, item)
			continue
		}
		for _, word := range words {
			withWord[word] = append(withWord[word], len(all))
		}
		all = append(all, &group{[]T{item}, s, words})
	}
	var several [][]T
	for _, g := range all {
		if len(g.items) > 1 {
			several = append(several, g.items)
		}
	}
	return several
}

// rareWords returns the set of the hashes of the rare words of a text.
func rareWords(s string) (words set) {
	for word := range text.Words(s) {
		word = fold(word)
		isNumber := strings.Trim(word, "0123456789") == ""
		if !isNumber && !text.IsCommon(word) {
			words = append(words, text.Hash(text.Stem(word)))
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}

// isOtherCase reports whether each of two texts has an identifier that the other lacks.
func isOtherCase(a, b string) bool {
	x, y := parseTerms(a), parseTerms(b)
	return firstMissing(x, y, identifier) != nil && firstMissing(y, x, identifier) != nil
}
