package similar

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"debrief/playbook/text"
)

// setKind is the kind of elements in a set.
type setKind int

const (
	words setKind = iota
	grams         // three neighbouring characters
	setKinds
)

// normalize returns the words and symbols of a text in one case, separated by single spaces, or "" if it has none.
// Words consist of letters, their marks, and numbers.
func normalize(s string) string {
	buf := make([]byte, 0, len(s)+8)
	spaceNeeded := false
	for _, r := range s {
		switch r, class := classify(r); class {
		case inWord, symbol:
			if (spaceNeeded || class == symbol) && len(buf) > 0 {
				buf = append(buf, ' ')
			}
			buf = utf8.AppendRune(buf, r)
			spaceNeeded = class == symbol
		case separator:
			spaceNeeded = true
		}
	}
	return string(buf)
}

// Roles of a character in a text.
const (
	separator = iota
	inWord    // part of a word
	symbol    // a word by itself
	ignored
)

// classify returns a character without case and width, and its role. An apostrophe is ignored, so "don't" is one
// word.
func classify(r rune) (folded rune, class int) {
	switch r = text.Narrow(r); {
	case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
		return r, inWord
	case r >= 'A' && r <= 'Z':
		return r + 'a' - 'A', inWord
	case r == '\'' || r == '’':
		return r, ignored
	case r < utf8.RuneSelf && !strings.ContainsRune("$+<=>|~", r) || r == utf8.RuneError:
		return r, separator
	case text.Invisible(r):
		return r, ignored
	case text.InWord(r):
		return text.Fold(r), inWord
	case unicode.In(r, unicode.Sm, unicode.Sc, unicode.So):
		return r, symbol
	}
	return r, separator
}

// token is an element of a set. For three characters, the key encodes them, and word is empty. For a word, the key is a hash, and word
// distinguishes words with the same hash.
type token struct {
	key  uint64
	word string
}

// tokens appends the elements of a normalized text, with repetitions.
func (k setKind) tokens(dst []token, text string) []token {
	if text == "" {
		return dst
	}
	if k == words {
		for word := range strings.SplitSeq(text, " ") {
			dst = append(dst, token{hash(word), word})
		}
		return dst
	}
	dst = slices.Grow(dst, len(text))
	// A space before and after the text marks its ends, so that even one letter gives three characters.
	const bitsOfRune = 21
	const mask = 1<<(3*bitsOfRune) - 1 // the last three characters
	key := uint64(' ')
	for i, r := range text {
		key = (key<<bitsOfRune | uint64(r)) & mask
		if i > 0 { // before, the key has only the space and one character
			dst = append(dst, token{key: key})
		}
	}
	return append(dst, token{key: (key<<bitsOfRune | ' ') & mask})
}

// hash is FNV-1a.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// bucket maps a key to a number below 1<<(64-shift), by Fibonacci hashing (Knuth 6.4).
func bucket(key uint64, shift int) uint64 { return key * 0x9e3779b97f4a7c15 >> shift }

// tokenSet is a set of tokens that counts the tokens shared with another set. It is a hash table with open addressing that is at most half
// full. Each count is a round: a slot keeps the number of the last round that counted its token, so that repeated tokens count once.
type tokenSet struct {
	slots []slot // their number is a power of two
	shift int    // for bucket
	size  int    // number of tokens
	round uint32 // 1 after reset
}

type slot struct {
	token
	seen uint32 // last round that counted the token; 0 for an empty slot
}

// reset replaces the contents of the set by these tokens.
func (t *tokenSet) reset(tokens []token) {
	log := bits.Len(uint(2 * len(tokens)))
	if n := 1 << log; n <= cap(t.slots) {
		t.slots = t.slots[:n]
		clear(t.slots)
	} else {
		t.slots = make([]slot, n)
	}
	t.shift = 64 - log
	t.size = 0
	t.round = 1
	for _, tok := range tokens {
		if s := t.find(tok); s.seen == 0 {
			*s = slot{tok, t.round}
			t.size++
		}
	}
}

// find returns the slot of a token, or the empty slot for it.
func (t *tokenSet) find(tok token) *slot {
	mask := uint64(len(t.slots) - 1)
	for i := bucket(tok.key, t.shift); ; i++ {
		s := &t.slots[i&mask]
		if s.seen == 0 || s.key == tok.key && s.word == tok.word {
			return s
		}
	}
}

// overlap returns the number of distinct tokens that are in the set.
func (t *tokenSet) overlap(tokens []token) int {
	t.round++
	n := 0
	for _, tok := range tokens {
		if s := t.find(tok); s.seen != 0 && s.seen != t.round {
			s.seen = t.round
			n++
		}
	}
	return n
}

// probe is a text prepared for comparison with others.
type probe struct {
	sets   [setKinds]tokenSet
	tokens []token // of the text that was read last, reused
}

// load sets the text, which must be normalized.
func (p *probe) load(text string) {
	for k := range setKinds {
		p.tokens = k.tokens(p.tokens[:0], text)
		p.sets[k].reset(p.tokens)
	}
}

// likeness returns the Jaccard index of the sets of the probe and of an entry, for one kind of set.
func (p *probe) likeness(e *entry, k setKind) float64 {
	p.tokens = k.tokens(p.tokens[:0], e.text)
	return jaccard(p.sets[k].overlap(p.tokens), p.sets[k].size, int(e.sizes[k]))
}
