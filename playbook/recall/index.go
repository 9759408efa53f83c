package recall

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// Index searches items by words and by vectors. It is safe for concurrent use. Searches run in parallel; a change is
// exclusive.
type Index struct {
	maxBytes int // memory limit; 0 means no limit

	mu      sync.RWMutex
	words   WordIndex           // the texts of the items; it assigns the numbers of the items
	items   []item              // by number
	models  map[string]*vectors // the vectors of each model, by its name
	groups  map[string]*group   // by name
	ages    list.List           // of numbers, the oldest item first
	bytes   int                 // estimated memory without the inverted index, which counts its own
	evicted uint64              // number of items evicted because of the memory limit
}

// group is a set of items, by their numbers.
type group struct {
	name    string
	members map[uint32]struct{}
}

// item has the data of an item that the WordIndex does not have.
type item struct {
	groups  []*group
	vectors *vectors      // vectors of its model; nil without a vector
	row     uint32        // of its vector in vectors; undefined without a vector
	age     *list.Element // in Index.ages
}

// Estimated memory in bytes. The factors are for the spare capacity: 5/4 for a slice, 3/2 for a map.
const (
	bytesPerItem = int(unsafe.Sizeof(item{})*5/4+unsafe.Sizeof(list.Element{})) +
		(16+4)*3/2 + // numbers of WordIndex: key and number
		(16+8)*5/4 + // keys and hashes of WordIndex
		24 + 4 // termRefs and lengths of the inverted index
	bytesPerMembership = 8*2 + 4*5/2               // group in the item, number in a set that is often small
	bytesPerGroup      = (16+8)*3/2 + 24 + 48 + 48 // name and group in the map, the group, and an empty set
)

// Stats describe the contents of an Index.
type Stats struct {
	Items   int
	Bytes   int    // estimated memory, without that of running searches
	Evicted uint64 // number of items evicted because of the memory limit
}

// New returns an empty index with a memory limit of maxBytes; 0 means no limit. Put evicts the oldest items to keep the limit.
func New(maxBytes int) *Index {
	return &Index{maxBytes: maxBytes, models: make(map[string]*vectors), groups: make(map[string]*group)}
}

// Stats returns statistics of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Stats{Items: x.words.Len(), Bytes: x.size(), Evicted: x.evicted}
}

// size returns the estimated memory in bytes.
func (x *Index) size() int { return x.bytes + x.words.inverted.bytes }

// Has reports whether the index contains the key.
func (x *Index) Has(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.words.numbers[key]
	return ok
}

// Put adds an item or replaces the item with the same key. The item is then the newest. If the index exceeds its memory limit,
// Put evicts the oldest items, but never the new one.
//
// Put returns an error for a vector that checkDimension or normalize refuses. The index is then unchanged, and the caller can put the item
// without its vector.
func (x *Index) Put(i Item) error {
	vector, err := normalize(i.Vector)
	if err != nil {
		return fmt.Errorf("put %q: %w", i.Key, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.checkDimension(i.Model, vector); err != nil {
		return fmt.Errorf("put %q: %w", i.Key, err)
	}
	x.drop(i.Key)
	x.add(i, vector)
	for x.maxBytes > 0 && x.size() > x.maxBytes && x.words.Len() > 1 {
		oldest := x.ages.Front().Value.(uint32)
		x.drop(x.words.keys[oldest])
		x.evicted++
	}
	return nil
}

// Drop removes the item of a key. It does nothing for an unknown key.
func (x *Index) Drop(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
}

// checkDimension returns an error if the vector has another dimension than the other vectors of its model. It accepts nil.
func (x *Index) checkDimension(model string, vector []float32) error {
	if v := x.models[model]; v != nil && vector != nil && v.dimension != len(vector) {
		return fmt.Errorf("vector has dimension %d, the model has %d", len(vector), v.dimension)
	}
	return nil
}

// add adds an item with a new key. It copies the strings that it keeps, because they may be parts of long texts. vector has length 1; it is nil
// without a vector.
func (x *Index) add(i Item, vector []float32) {
	number := x.words.put(strings.Clone(i.Key), i.Text)
	if int(number) == len(x.items) {
		x.items = append(x.items, item{})
	}
	it := &x.items[number]
	*it = item{age: x.ages.PushBack(number)}
	for _, name := range i.Groups {
		g := x.groups[name]
		if slices.Contains(it.groups, g) {
			continue
		}
		if g == nil {
			g = &group{strings.Clone(name), make(map[uint32]struct{})}
			x.groups[g.name] = g
			x.bytes += bytesPerGroup + len(name)
		}
		g.members[number] = struct{}{}
		it.groups = append(it.groups, g)
	}
	if vector != nil {
		v := x.models[i.Model]
		if v == nil {
			v = &vectors{model: strings.Clone(i.Model), dimension: len(vector)}
			x.models[v.model] = v
		}
		it.vectors, it.row = v, v.add(number, vector)
	}
	x.bytes += it.bytes() + len(i.Key)
}

// drop removes the item of a key, if there is one.
func (x *Index) drop(key string) {
	number, ok := x.words.numbers[key]
	if !ok {
		return
	}
	x.words.Drop(key)
	it := &x.items[number]
	x.bytes -= it.bytes() + len(key)
	x.ages.Remove(it.age)
	for _, g := range it.groups {
		delete(g.members, number)
		if len(g.members) == 0 {
			delete(x.groups, g.name)
			x.bytes -= bytesPerGroup + len(g.name)
		}
	}
	if v := it.vectors; v != nil {
		moved := v.drop(it.row) // number of the item whose vector is now in this row
		x.items[moved].row = it.row
		if len(v.owners) == 0 {
			delete(x.models, v.model)
		}
	}
	*it = item{}
}

// bytes returns the estimated memory of an item, without its key.
func (it *item) bytes() int {
	n := bytesPerItem + len(it.groups)*bytesPerMembership
	if it.vectors != nil {
		n += 4*it.vectors.dimension + 4*5/4
	}
	return n
}
