package similar

import (
	"cmp"
	"math/bits"
)

// sketchIndex holds a sketch of each set: a bitmap in which each element sets the bit of its hash. Two sketches give an upper bound of the
// intersection. Each bit that is set only in the sketch of A comes from an element of A that B lacks, and different bits come from
// different elements. So
//
//	|A∩B| ≤ |A| − |bits(A) \ bits(B)|
//
// and the same with A and B exchanged. For given sizes, Jaccard's index grows with |A∩B|. So a set whose bound is too low can be skipped,
// and no match is missed. Also, Jaccard's index is at most the size of the smaller set divided by that of the larger one. So sets are
// grouped in size classes, one for each power of two, and classes of too different sizes are skipped. The sketches of a class are wide
// enough that most bits are unset.
//
// Reading all sketches takes time proportional to the number of texts, about 25 ns for a short one, independent of
// their content. Prefix filtering (Chaudhuri, Ganti and Kaushik 2006; Bayardo, Ma and Srikant 2007) reads less if
// texts have rare words. But texts on one subject share their words, and texts with the same beginning share nearly
// all of them.
type sketchIndex struct {
	classes [33]sizeClass // by bit length of the set size: class i has the sizes from 1<<(i-1) to 1<<i - 1
}

// sizeClass holds the sketches of sets with sizes from one power of two up to the next.
type sizeClass struct {
	width    int      // size of a sketch in 64-bit words
	sketches []uint64 // one after the other
	rows     []row    // one for each sketch
}

type row struct {
	entry      *entry
	size, bits int32 // size of the set, and number of bits set in its sketch
}

// bitsPerElement is the number of bits per element for the smallest sets of a class; the largest sets have half as many. It must be a power of
// two. The value was measured on 10,000 texts of one subject. With 4, a search takes a third less time among short texts, but six times as
// long among texts of 2 KB, because their bounds are weak. With 16, it is not faster.
const bitsPerElement = 8

// setBits sets the bits of a set in an empty sketch and returns their number.
func setBits(sketch []uint64, s set) (n int) {
	shift := 64 - bits.Len(uint(64*len(sketch)-1))
	for _, key := range s {
		at := key * 0x9e3779b97f4a7c15 >> shift // Fibonacci hashing (Knuth 6.4)
		sketch[at/64] |= 1 << (at % 64)
	}
	for _, w := range sketch {
		n += bits.OnesCount64(w)
	}
	return n
}

// add stores the sketch of an entry's set. It ignores the empty set.
func (s *sketchIndex) add(e *entry, elements set, k setKind) {
	if len(elements) == 0 {
		return
	}
	l := &s.classes[bits.Len(uint(len(elements)))]
	l.width = max(1, bitsPerElement<<(bits.Len(uint(len(elements)))-1)/64)
	from := len(l.sketches)
	l.sketches = append(l.sketches, make([]uint64, l.width)...)
	n := setBits(l.sketches[from:], elements)
	e.sizes[k], e.rows[k] = int32(len(elements)), int32(len(l.rows))
	l.rows = append(l.rows, row{e, e.sizes[k], int32(n)})
}

// drop removes the sketch of an entry's set. The last one of its class moves into the free position.
func (s *sketchIndex) drop(e *entry, k setKind) {
	if e.sizes[k] == 0 {
		return
	}
	l := &s.classes[bits.Len(uint(e.sizes[k]))]
	at, last := int(e.rows[k]), len(l.rows)-1
	l.rows[at] = l.rows[last]
	l.rows[at].entry.rows[k] = int32(at)
	copy(l.sketches[at*l.width:], l.sketches[last*l.width:])
	l.rows[last] = row{}
	l.rows, l.sketches = l.rows[:last], l.sketches[:last*l.width]
}

// candidates appends the entries whose Jaccard index with a set may reach minSimilarity, each with its upper bound.
func (s *sketchIndex) candidates(found []candidate, elements set, k setKind, minSimilarity float64) []candidate {
	if len(elements) == 0 {
		return found
	}
	for i := range s.classes {
		l := &s.classes[i]
		if len(l.rows) == 0 {
			continue
		}
		smallest, largest := 1<<i>>1, 1<<i-1
		nearest := min(max(len(elements), smallest), largest) // the most similar size in this class
		if float64(min(len(elements), nearest))/float64(max(len(elements), nearest)) >= minSimilarity {
			found = l.candidates(found, elements, k, minSimilarity)
		}
	}
	return found
}

// candidates appends the entries of one class.
func (l *sizeClass) candidates(found []candidate, elements set, k setKind, minSimilarity float64) []candidate {
	own := make([]uint64, l.width)
	ownBits := setBits(own, elements)
	for i, r := range l.rows {
		sketch := l.sketches[i*l.width:][:len(own)]
		common := 0 // bits in both sketches
		for j, w := range own {
			common += bits.OnesCount64(w & sketch[j])
		}
		shared := min(len(elements)-(ownBits-common), int(r.size)-(int(r.bits)-common)) // upper bound
		if bound := jaccard(shared, len(elements), int(r.size)); bound >= minSimilarity {
			found = append(found, candidate{r.entry, bound, k})
		}
	}
	return found
}

// candidate is an entry with the upper bound of its similarity, by one kind of set.
type candidate struct {
	entry *entry
	bound float64
	kind  setKind
}

// compareFirst orders candidates by their bounds, the highest first.
func compareFirst(a, b candidate) int { return cmp.Compare(b.bound, a.bound) }
