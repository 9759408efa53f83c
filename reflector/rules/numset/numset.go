// Package numset stores sets of small numbers in little memory: a data set has millions of them.
package numset

import (
	"encoding/binary"
	"iter"
	"slices"
)

// Set is a set of numbers: the differences of the sorted numbers as varints, so most numbers take one byte. Equal sets are equal
// strings. The zero value is empty.
type Set string

// New returns the set of the numbers. It sorts the slice; duplicates have no effect.
func New(numbers []uint32) Set {
	slices.Sort(numbers)
	b := make([]byte, 0, len(numbers)+8)
	last := uint32(0)
	for i, n := range numbers {
		if i == 0 || n != last {
			b = binary.AppendUvarint(b, uint64(n-last))
			last = n
		}
	}
	return Set(b)
}

// All yields the numbers in ascending order.
func (s Set) All() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		sum, shift, n := uint32(0), 0, uint32(0)
		for i := range len(s) {
			n |= uint32(s[i]&0x7f) << shift
			if shift += 7; s[i] >= 0x80 {
				continue
			}
			sum += n
			if !yield(sum) {
				return
			}
			shift, n = 0, 0
		}
	}
}

// Contains reports whether the number is in the set.
func (s Set) Contains(n uint32) bool {
	for m := range s.All() {
		if m >= n {
			return m == n
		}
	}
	return false
}
