package similar

import (
	"slices"
	"strings"

	"debrief/playbook"
	"debrief/playbook/text"
)

// Two bullets are on one subject if they share at least minShared rare words, and if the coefficient of Dice (1945) of their rare words is at least
// minSubject. Six wordings of one rule in a public bug report have a coefficient of 0.71 or more, but a Similarity of only 0.29 to 0.67.
const (
	minShared  = 3
	minSubject = 0.6
)

// SameSubject groups bullets on one subject by their rare words: the stems of words that are not common in English and not numbers.
// The bullets of a group may be wordings of one rule, or contradict each other; only a model or a person can tell. Bullets are not on
// one subject if isOtherCase reports so, for example the rules for two currencies.
//
// SameSubject returns the groups with several bullets, in order. Each bullet of a group is on one subject with the first one, and no
// bullet is in two groups. 10,000 bullets with few different words take two seconds, 100,000 take minutes.
func SameSubject(bullets []*playbook.Bullet) [][]*playbook.Bullet {
	all := subjects{withWord: make(map[uint64][]int)}
	for _, bullet := range bullets {
		all.add(bullet)
	}
	var several [][]*playbook.Bullet
	for _, g := range all.groups {
		if len(g.bullets) > 1 {
			several = append(several, g.bullets)
		}
	}
	return several
}

// subjects are groups of bullets on one subject.
type subjects struct {
	groups   []*subject
	withWord map[uint64][]int // by word: the indices of the groups whose first bullet has it
	shared   []int            // by group: number of rare words in common with the bullet that is added; 0 between two bullets
}

// subject is a group of bullets.
type subject struct {
	bullets []*playbook.Bullet
	words   set // rare words of the first bullet
}

// add adds a bullet to the group on its subject, or to a new one.
func (s *subjects) add(b *playbook.Bullet) {
	words := rareWords(b.When + " " + b.Advice())
	if g := s.find(b, words); g >= 0 {
		s.groups[g].bullets = append(s.groups[g].bullets, b)
		return
	}
	for _, word := range words {
		s.withWord[word] = append(s.withWord[word], len(s.groups))
	}
	s.groups = append(s.groups, &subject{[]*playbook.Bullet{b}, words})
	s.shared = append(s.shared, 0)
}

// find returns the index of the group on the subject of a bullet with these rare words, or -1. Of several groups it returns the one with the most
// words in common, and of equal ones the first.
func (s *subjects) find(b *playbook.Bullet, words set) int {
	var near []int // groups with a word in common
	for _, word := range words {
		for _, g := range s.withWord[word] {
			if s.shared[g]++; s.shared[g] == 1 {
				near = append(near, g)
			}
		}
	}
	best := -1
	for _, g := range near {
		n := s.shared[g]
		dice := 2 * float64(n) / float64(len(words)+len(s.groups[g].words))
		onSubject := n >= minShared && dice >= minSubject
		isBetter := best < 0 || n > s.shared[best] || n == s.shared[best] && g < best
		if onSubject && isBetter && !isOtherCase(s.groups[g].bullets[0], b) {
			best = g
		}
	}
	for _, g := range near {
		s.shared[g] = 0
	}
	return best
}

// rareWords returns the set of the rare words of a text, by their stems.
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

// isOtherCase reports whether two bullets are for different cases: a number, an identifier or a negation in their conditions differs, or each
// advice has an identifier that the other lacks.
func isOtherCase(a, b *playbook.Bullet) bool {
	if a.When != "" && b.When != "" {
		switch Difference(a.When, b.When).Kind {
		case Numbers, Identifiers, Negations:
			return true
		}
	}
	x, y := parseTerms(a.Advice()), parseTerms(b.Advice())
	return firstExtra(x, y, Identifiers) != nil && firstExtra(y, x, Identifiers) != nil
}
