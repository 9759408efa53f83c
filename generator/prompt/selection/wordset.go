package selection

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"

	"debrief/playbook/text"
)

// wordSet is the set of words of a bullet's content, for a similarity that is cheap enough for every selection. It
// only prevents repetition in prompts; the Curator detects duplicates.
type wordSet struct {
	words         []uint32 // hashes of the words, in ascending order; words with a digit are last because of digitBit
	withoutDigits int      // number of words without a digit
	sketch        uint64   // has the bit hash % 64 of each word
}

const digitBit = 1 << 31 // set in the hash of a word with a digit

// maxRead is the number of bytes read of a content.
const maxRead = 4 << 10

func newWordSet(content string) *wordSet {
	w := new(wordSet)
	for word := range text.Words(content[:min(len(content), maxRead)]) {
		h := uint32(text.Hash(word)) &^ digitBit
		if strings.ContainsFunc(word, unicode.IsNumber) {
			h |= digitBit
		}
		w.words = append(w.words, h)
	}
	slices.Sort(w.words)
	w.words = slices.Clip(slices.Compact(w.words))
	w.withoutDigits, _ = slices.BinarySearch(w.words, digitBit)
	for _, h := range w.words {
		w.sketch |= 1 << (h % 64)
	}
	return w
}

// nearlyEquals reports whether the Jaccard index of two sets is above 3/4: for example, one of eight words differs. It is false if the words with
// digits differ, because texts with different numbers differ in meaning.
func (w *wordSet) nearlyEquals(v *wordSet) bool {
	a, b := len(w.words), len(v.words)
	// Each bit that only one sketch has stands for a word that the other set lacks. So maxShared is an upper bound of the number of common
	// words. It is compared first because it is fast to compute.
	maxShared := min(a-bits.OnesCount64(w.sketch&^v.sketch), b-bits.OnesCount64(v.sketch&^w.sketch))
	isNear := func(shared int) bool { return 4*shared > 3*(a+b-shared) }
	return isNear(maxShared) && slices.Equal(w.words[w.withoutDigits:], v.words[v.withoutDigits:]) && isNear(intersection(w.words, v.words))
}

// intersection returns the number of common elements of two ascending lists.
func intersection(a, b []uint32) (n int) {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0] == b[0]:
			n++
			a, b = a[1:], b[1:]
		case a[0] < b[0]:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return n
}
