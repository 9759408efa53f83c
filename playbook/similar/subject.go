package similar

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strings"

	"debrief/playbook/text"
)

// Two rules are on one subject if they share at least minShared rare words, and minSubject of all their rare words (Dice, 1945). Two groups of
// wordings are joined if their rules share minSubject of them on average, so that a chain of similar rules does not become one group.
const (
	minShared  = 3
	minSubject = 0.55
)

// These limits bound the time for many copies of one rule, and for a playbook with few different words.
const (
	maxOthers   = 2000 // rules that are looked up for one word, the last ones
	maxCompared = 100  // rules with minShared rare words that are compared with a rule, the first that share its rarest words
	maxRead     = 50   // of these, the nearest that are read in full
	maxNear     = 10   // of these, the nearest that are joined with it
)

// Rule is a text with the condition under which it holds, "" if it always holds.
type Rule struct{ When, Content string }

// Subject has rules that are perhaps one rule in other words, or two rules that perhaps contradict each other. Only a model or a person can tell.
type Subject[T any] struct {
	Items []T
	// Contradiction says why two rules perhaps contradict each other, for people. It is empty for wordings of one rule.
	Contradiction string
}

// SameSubject finds rules on one subject by their rare words: words that are not common in English, by their stems and without numbers. It
// returns the groups of wordings, then the pairs of contradictions, each in the order of the items. An item is in at most one group of
// wordings. A contradiction between two groups has their two most similar rules.
//
// Rules are not on one subject if each of them has an identifier that the other lacks, or if their conditions differ in a name, a number or a
// single word, such as the rules for two currencies.
func SameSubject[T any](items []T, ruleOf func(T) Rule) []Subject[T] {
	rules := make([]subjectRule, len(items))
	for i, item := range items {
		rules[i] = newSubjectRule(ruleOf(item))
	}
	s := subjects{rules: rules, groups: make([][]int, len(rules)), groupOf: make([]int, len(rules)), opponents: make([][]int, len(rules))}
	for i := range rules {
		s.groups[i], s.groupOf[i] = []int{i}, i
	}
	s.join(findNear(rules))

	var all []Subject[T]
	for _, group := range s.groups {
		if len(group) > 1 {
			slices.Sort(group)
			all = append(all, Subject[T]{Items: pick(items, group)})
		}
	}
	for _, p := range s.contradictions {
		all = append(all, Subject[T]{Items: pick(items, []int{p.a, p.b}), Contradiction: p.reason})
	}
	return all
}

func pick[T any](items []T, at []int) (picked []T) {
	for _, i := range at {
		picked = append(picked, items[i])
	}
	return picked
}

// subjectRule is a rule that is prepared for the comparison with others.
type subjectRule struct {
	words         set    // hashes of the stems of the rare words
	plain         set    // those that are not negated
	negated       set    // those that are negated
	sketch        uint64 // has a bit for each word
	others        int    // number of words that are not among the rarest
	terms         []term
	content, when keys
	isRestriction bool // has a word such as "only", which reverses a rule without a negation
}

// stemLength is the number of letters of a stem that are compared, so that "convert" and "conversion" are one word.
const stemLength = 5

// endsNegation are the words that end the scope of a negation: "do not pay before the goods arrive" asks for the goods.
var endsNegation = text.Set("before until unless without except")

func newSubjectRule(r Rule) subjectRule {
	s := subjectRule{terms: parseTerms(r.Content)}
	s.content, s.when = keysOf(s.terms), keysOf(parseTerms(r.When))
	s.addWords(r.When)
	s.addWords(expandNegation.Replace(r.Content))
	for _, words := range []*set{&s.words, &s.plain, &s.negated} {
		words.sort()
	}
	for _, word := range s.words {
		s.sketch |= 1 << (word % 64)
	}
	return s
}

// expandNegation separates the "not" of an auxiliary.
var expandNegation = strings.NewReplacer("n't", " not", "n’t", " not")

// addWords adds the rare words of a text, and each two neighbouring characters of a script without spaces. A negation holds up to the end of
// its clause. "Without" is a restriction: what is incomplete without a fee needs the fee.
func (r *subjectRule) addWords(content string) {
	for clause := range strings.FieldsFuncSeq(content, func(r rune) bool { return strings.ContainsRune(",;:.()", r) }) {
		isNegated, last := false, ""
		for word := range text.Words(clause) {
			word = fold(word)
			before := last
			last = word
			switch negation := negations[word]; {
			case isNegated && endsNegation[word]:
				isNegated = false
				r.isRestriction = r.isRestriction || word != "before"
			case word == "without" || negation == "only" || negation == "unless" || negation == "except":
				r.isRestriction = true
			case word == "avoid" && before == "to": // the purpose of a rule that is not negated
			case negation == "not" || negation == "nor" || word == "cannot" || word == "skip":
				isNegated = !isNegated
			}
			isNumber := strings.Trim(word, "0123456789") == ""
			letters := []rune(text.Stem(word))
			switch {
			case isNumber || text.IsCommon(word):
			case !text.Unspaced(letters[0]):
				r.addWord(string(letters[:min(len(letters), stemLength)]), isNegated)
			case text.Unspaced([]rune(before + " ")[0]):
				r.addWord(before+word, isNegated)
			}
		}
	}
}

func (r *subjectRule) addWord(word string, isNegated bool) {
	hash := text.Hash(word)
	r.words = append(r.words, hash)
	if isNegated {
		r.negated = append(r.negated, hash)
	} else {
		r.plain = append(r.plain, hash)
	}
}

// shared returns the number of rare words in both rules, and their share of all rare words.
func (r *subjectRule) shared(other *subjectRule) (n int, dice float64) {
	n = r.words.shared(other.words)
	return n, 2 * float64(n) / float64(max(1, len(r.words)+len(other.words)))
}

// nearPair is two rules on one subject.
type nearPair struct {
	a, b       int // indexes, a < b
	similarity float64
	reason     string // why they contradict each other
}

// findNear returns the pairs of rules on one subject, the most similar first. It reads an index of the rarest words of the rules before.
func findNear(rules []subjectRule) (pairs []nearPair) {
	rarity := make(map[uint64]int) // by word: number of rules
	for i := range rules {
		for _, word := range rules[i].words {
			rarity[word]++
		}
	}
	withWord := make(map[uint64][]int32) // by word: the rules before this one that have it among their rarest words
	shared := make([]int, len(rules))    // number of the rarest words in common with this rule
	for i := range rules {
		rule := &rules[i]
		words := rule.rarest(rarity)
		rule.others = len(rule.words) - len(words)
		var candidates []int32
		unread := 0 // words of which not all rules are looked up
		for _, word := range words {
			if len(withWord[word]) > maxOthers {
				unread++
			}
			for _, other := range last(withWord[word], maxOthers) {
				if shared[other]++; shared[other] == minShared {
					candidates = append(candidates, other)
				}
			}
		}
		near := candidates[:0]
		for _, other := range candidates {
			if len(near) == maxCompared {
				break
			}
			if rule.canBeNear(&rules[other], shared[other]+unread+max(rule.others, rules[other].others)) {
				near = append(near, other)
			}
		}
		pairs = append(pairs, nearest(rules, i, near)...)
		for _, word := range words {
			for _, other := range last(withWord[word], maxOthers) {
				shared[other] = 0
			}
			withWord[word] = append(withWord[word], int32(i))
		}
	}
	slices.SortFunc(pairs, compareNear)
	return pairs
}

func last[T any](all []T, n int) []T { return all[max(0, len(all)-n):] }

// canBeNear reports whether two rules with at most limit words in common may be on one subject. Each bit that only one sketch has is a word that
// the other rule lacks, see sketchIndex.
func (r *subjectRule) canBeNear(other *subjectRule, limit int) bool {
	limit = min(limit, len(r.words)-bits.OnesCount64(r.sketch&^other.sketch), len(other.words)-bits.OnesCount64(other.sketch&^r.sketch))
	return 2*float64(limit) >= minSubject*float64(len(r.words)+len(other.words))
}

// rarest returns so many of the rarest words of a rule that each rule on its subject has minShared of them among its own rarest words: prefix
// filtering (Chaudhuri, Ganti and Kaushik, "A Primitive Operator for Similarity Joins in Data Cleaning", 2006).
func (r *subjectRule) rarest(rarity map[uint64]int) set {
	words := slices.Clone(r.words)
	slices.SortFunc(words, func(a, b uint64) int { return cmp.Or(cmp.Compare(rarity[a], rarity[b]), cmp.Compare(a, b)) })
	least := int(math.Ceil(minSubject / (2 - minSubject) * float64(len(words)))) // number of words in common with the shortest rule
	return words[:min(len(words), len(words)-least+minShared)]
}

// nearest returns the pairs of a rule and the candidates that are on its subject.
func nearest(rules []subjectRule, i int, candidates []int32) (pairs []nearPair) {
	rule := &rules[i]
	var near []nearPair
	for _, other := range candidates {
		if n, similarity := rule.shared(&rules[other]); n >= minShared && similarity >= minSubject {
			near = append(near, nearPair{a: int(other), b: i, similarity: similarity})
		}
	}
	slices.SortFunc(near, compareNear)
	for _, p := range near[:min(len(near), maxRead)] {
		if len(pairs) < maxNear && !rules[p.a].isOtherCase(rule, p.similarity) {
			p.reason = rules[p.a].contradiction(rule)
			pairs = append(pairs, p)
		}
	}
	return pairs
}

func compareNear(p, q nearPair) int {
	return cmp.Or(cmp.Compare(q.similarity, p.similarity), cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b))
}

// isOtherCase reports whether two rules with a similarity are for two cases.
func (r *subjectRule) isOtherCase(other *subjectRule, similarity float64) bool {
	isOtherNumber := similarity < minOpposed && differInBoth(r.content.numbers, other.content.numbers)
	return isOtherNumber || differInBoth(r.content.identifiers, other.content.identifiers) || isOtherCondition(&r.when, &other.when)
}

// keys are the hashes of the keys of terms.
type keys struct{ all, numbers, identifiers, negations set }

func keysOf(terms []term) (k keys) {
	for i := range terms {
		hash := text.Hash(terms[i].key())
		k.all = append(k.all, hash)
		switch terms[i].kind {
		case number:
			k.numbers = append(k.numbers, hash)
		case identifier:
			k.identifiers = append(k.identifiers, hash)
		case negation:
			k.negations = append(k.negations, hash)
		}
	}
	for _, s := range []*set{&k.all, &k.numbers, &k.identifiers, &k.negations} {
		s.sort()
	}
	return k
}

// differInBoth reports whether each of two sets has an element that the other lacks.
func differInBoth(a, b set) bool {
	n := a.shared(b)
	return n < len(a) && n < len(b)
}

// isOtherCondition reports whether two conditions are for two cases: they differ in an identifier, a number or a negation, or each has one word
// that the other lacks, such as gold and silver.
func isOtherCondition(a, b *keys) bool {
	if len(a.all) == 0 || len(b.all) == 0 {
		return false
	}
	if (len(a.negations) > 0) != (len(b.negations) > 0) || differInBoth(a.numbers, b.numbers) || differInBoth(a.identifiers, b.identifiers) {
		return true
	}
	n := a.all.shared(b.all)
	return n == len(a.all)-1 && n == len(b.all)-1
}

// opposites are words of which one rule has the one and the other rule has the other if they contradict each other.
var opposites = opposed("up down, first last, before after, include exclude, enable disable, allow forbid, allow deny, keep drop, keep remove, keep delete, " +
	"ascending descending, newest oldest, increase decrease, minimum maximum, more less, more fewer, above below, open close, accept reject, " +
	"add subtract, upper lower, largest smallest, highest lowest, earliest latest, start end, left right, skip run, inner outer, with without")

func opposed(list string) map[string][]string {
	all := make(map[string][]string)
	for pair := range strings.SplitSeq(list, ", ") {
		a, b, _ := strings.Cut(pair, " ")
		a, b = text.Stem(a), text.Stem(b)
		all[a], all[b] = append(all[a], b), append(all[b], a)
	}
	return all
}

// Two rules contradict each other only if they share minOpposed of their rare words, because in other words the opposite may be the same:
// "ship after the payment" and "do not ship before the payment". At least minReversed of these words are negated in only one of them.
const (
	minOpposed  = 0.7
	minReversed = 0.5
)

// contradiction returns the reason why two rules on one subject perhaps contradict each other, or "".
func (r *subjectRule) contradiction(other *subjectRule) string {
	n, dice := r.shared(other)
	switch {
	case differInBoth(r.content.numbers, other.content.numbers):
		return fmt.Sprintf("numbers differ: %s and %s", firstMissing(other.terms, r.terms, number), firstMissing(r.terms, other.terms, number))
	case dice < minOpposed || r.isRestriction != other.isRestriction:
		return ""
	case r.excludes(other) && other.excludes(r):
		return "each excludes something that the other asks for"
	case float64(r.reversed(other)) >= minReversed*float64(n):
		return "only one of them is negated"
	}
	return opposite(r.terms, other.terms)
}

// opposite returns two opposite words in the same place of two texts as a reason, or "". The same place has the same word before or after it.
func opposite(x, y []term) string {
	for i := range x {
		for _, word := range opposites[text.Stem(x[i].text)] {
			for j := range y {
				isSamePlace := i > 0 && j > 0 && x[i-1].equalText(&y[j-1]) || i < len(x)-1 && j < len(y)-1 && x[i+1].equalText(&y[j+1])
				if text.Stem(y[j].text) == word && isSamePlace {
					return fmt.Sprintf("opposite words: %s and %s", &x[i], &y[j])
				}
			}
		}
	}
	return ""
}

// reversed returns the number of rare words in both rules that only one of them negates.
func (r *subjectRule) reversed(other *subjectRule) (n int) {
	for _, word := range r.words {
		if slices.Contains(other.words, word) && r.isNegated(word) != other.isNegated(word) {
			n++
		}
	}
	return n
}

// isNegated reports whether a rule has a word in negations only.
func (r *subjectRule) isNegated(word uint64) bool {
	return slices.Contains(r.negated, word) && !slices.Contains(r.plain, word)
}

// excludes reports whether a rule negates a word that the other one asks for.
func (r *subjectRule) excludes(other *subjectRule) bool {
	return slices.ContainsFunc(r.negated, func(word uint64) bool {
		return r.isNegated(word) && slices.Contains(other.plain, word) && !slices.Contains(other.negated, word)
	})
}

// subjects joins rules to groups.
type subjects struct {
	rules          []subjectRule
	groups         [][]int // indexes of the rules of a group; empty after a join with another group
	groupOf        []int   // by rule
	opponents      [][]int // by group: rules that contradict one of its rules
	contradictions []nearPair
}

// join joins the rules of near pairs, the most similar first, and collects the contradictions. Rules that contradict each other stay apart.
func (s *subjects) join(pairs []nearPair) {
	for _, p := range pairs {
		if p.reason != "" {
			s.opponents[p.a], s.opponents[p.b] = append(s.opponents[p.a], p.b), append(s.opponents[p.b], p.a)
		}
	}
	for _, p := range pairs {
		a, b := s.groupOf[p.a], s.groupOf[p.b]
		if len(s.groups[a]) < len(s.groups[b]) {
			a, b = b, a
		}
		if a == b || s.contradict(a, b) || s.likeness(a, b) < minSubject {
			continue
		}
		for _, i := range s.groups[b] {
			s.groupOf[i] = a
		}
		s.groups[a], s.opponents[a] = append(s.groups[a], s.groups[b]...), append(s.opponents[a], s.opponents[b]...)
		s.groups[b], s.opponents[b] = nil, nil
	}
	known := make(map[[2]int]bool)
	for _, p := range pairs {
		groups := [2]int{s.groupOf[p.a], s.groupOf[p.b]}
		slices.Sort(groups[:])
		if p.reason != "" && !known[groups] {
			known[groups] = true
			s.contradictions = append(s.contradictions, p)
		}
	}
	slices.SortFunc(s.contradictions, func(p, q nearPair) int { return cmp.Or(cmp.Compare(p.a, q.a), cmp.Compare(p.b, q.b)) })
}

// likeness returns the mean share of rare words of the rules of two groups, of the first maxNear of each.
func (s *subjects) likeness(a, b int) float64 {
	sum, n := 0.0, 0
	for _, i := range s.groups[a][:min(len(s.groups[a]), maxNear)] {
		for _, j := range s.groups[b][:min(len(s.groups[b]), maxNear)] {
			_, similarity := s.rules[i].shared(&s.rules[j])
			sum += similarity
			n++
		}
	}
	return sum / float64(n)
}

// contradict reports whether a rule of one group contradicts a rule of another group.
func (s *subjects) contradict(a, b int) bool {
	if len(s.opponents[a]) > len(s.opponents[b]) {
		a, b = b, a
	}
	return slices.ContainsFunc(s.opponents[a], func(i int) bool { return s.groupOf[i] == b })
}
