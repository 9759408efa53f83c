package worlds

import (
	"encoding/binary"
	"hash/fnv"
)

// Draw returns a pseudo-random number: a hash of the seed, the purpose and the texts.
func Draw(seed uint64, purpose string, texts ...string) uint64 {
	h := fnv.New64a()
	write := func(n uint64) { _, _ = h.Write(binary.BigEndian.AppendUint64(nil, n)) }
	write(seed)
	for _, text := range append([]string{purpose}, texts...) {
		write(uint64(len(text)))
		_, _ = h.Write([]byte(text))
	}
	return Mix(h.Sum64())
}

// Hash returns the FNV hash of a text.
func Hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	return h.Sum64()
}

// Mix mixes the bits of an FNV hash. The last bytes of the input of such a hash change only its low bits. It is the
// finaliser of MurmurHash3.
func Mix(x uint64) uint64 {
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Uniform returns a number from 0 to 1, without 1, from Draw.
func Uniform(seed uint64, purpose string, texts ...string) float64 {
	return float64(Draw(seed, purpose, texts...)>>11) / (1 << 53)
}

// Chance returns true for a share of the texts. A rate of 0 is never, 1 is always.
func Chance(rate float64, seed uint64, purpose string, texts ...string) bool {
	return rate > 0 && Uniform(seed, purpose, texts...) < rate
}

// Dice draws pseudo-random numbers for one prompt. Draws for different purposes are independent.
type Dice uint64

// Draw returns the number for a purpose.
func (d Dice) Draw(purpose string) uint64 { return Draw(uint64(d), purpose) }

// Chance returns true with the given probability.
func (d Dice) Chance(rate float64, purpose string) bool {
	return Chance(rate, uint64(d), purpose)
}
