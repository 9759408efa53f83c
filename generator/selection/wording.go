package selection

import (
	"math/bits"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wording is a bullet's content as a set of words, for a likeness that is cheap enough to take of every choice. Whether
// two bullets say the same is for the Curator to find out; this is about prompts that repeat themselves.
type wording struct {
	words  []uint32 // hashes, ascending, each once; those of words with a digit come last, by their highest bit
	plain  int      // words without a digit
	sketch uint64   // with the bit of each word
}

const figure = 1 << 31 // the bit of the words with a digit

// maxRead bounds what is read of a content, in bytes: texts that begin alike for so long are alike.
const maxRead = 4 << 10

func newWording(content string) *wording {
	w := new(wording)
	text := strings.ToLower(content[:min(len(content), maxRead)])
	from := -1
	var mark uint32
	end := func(to int) {
		if from >= 0 {
			w.words = append(w.words, hash(text[from:to])&^figure|mark)
		}
		from, mark = -1, 0
	}
	for i, r := range text {
		switch {
		case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana): // no space between words: each stands alone
			end(i)
			from = i
			end(i + utf8.RuneLen(r))
		case unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r):
			if from < 0 {
				from = i
			}
			if unicode.IsNumber(r) {
				mark = figure
			}
		default:
			end(i)
		}
	}
	end(len(text))
	slices.Sort(w.words)
	w.words = slices.Clip(slices.Compact(w.words))
	w.plain, _ = slices.BinarySearch(w.words, figure)
	for _, h := range w.words {
		w.sketch |= 1 << (h % 64)
	}
	return w
}

// hash is FNV-1a.
func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// alike is the Jaccard index from which on two wordings are nearly the same: of seven words one is another.
const alike = 0.75

// sameness is 0 for wordings that differ and rises from there to 1 for the same words: the Jaccard index of the two sets,
// counted from alike on. With other numbers in them two texts say different things, however alike they are.
func (w *wording) sameness(v *wording) float64 {
	a, b := len(w.words), len(v.words)
	if float64(min(a, b)) < alike*float64(max(a, b)) {
		return 0
	}
	// Each bit that only one sketch has stands for a word that the other text has not.
	most := min(a-bits.OnesCount64(w.sketch&^v.sketch), b-bits.OnesCount64(v.sketch&^w.sketch))
	if jaccard(most, a, b) <= alike || !slices.Equal(w.words[w.plain:], v.words[v.plain:]) {
		return 0
	}
	return max(0, (jaccard(shared(w.words, v.words), a, b)-alike)/(1-alike))
}

func shared(a, b []uint32) (n int) {
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

// jaccard is what two sets of these sizes share over what they have together.
func jaccard(shared, a, b int) float64 {
	if shared == 0 {
		return 0
	}
	return float64(shared) / float64(a+b-shared)
}
