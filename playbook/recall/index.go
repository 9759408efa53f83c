package recall

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"debrief/playbook/text"
)

// Options configure an Index. The zero value means no memory limit and excerpts of 240 bytes.
type Options struct {
	MaxBytes int // memory limit; beyond it the oldest items are evicted. 0 disables the limit
	Excerpt  int // maximum size of an excerpt in bytes; 0 is 240
}

// Index searches items by words and by vectors. It is safe for concurrent use. Searches run in parallel; a change is
// exclusive.
type Index struct {
	options Options

	mu             sync.RWMutex
	inverted       invertedIndex
	models         map[string]*vectors
	groups         map[string]*group
	numbers        map[string]uint32 // item numbers by key
	items          []item
	freeNumbers    []uint32 // unused numbers
	oldest, newest uint32   // ends of the list of items; undefined if it is empty
	bytes          int      // without the inverted index, which counts its own
	evicted        uint64

	similarities sync.Pool // of *[]float32
}

type item struct {
	key, excerpt string
	groups       []membership
	vectors      *vectors // vectors of its model; nil without a vector
	row          uint32
	older, newer uint32 // neighbours in the list; its own number at an end
}

// group holds the items of a group, in no order.
type group struct {
	name    string
	members []uint32
}

type membership struct {
	group    *group
	position uint32 // index in group.members
}

// Estimated memory in bytes, including the spare capacity of slices and maps.
const (
	bytesPerItem       = int(unsafe.Sizeof(item{})*5/4) + (16+4)*3/2 + 24 + 4
	bytesPerMembership = int(unsafe.Sizeof(membership{})) + 4*5/4
	bytesPerGroup      = (16+8)*3/2 + int(unsafe.Sizeof(group{})) + 16
)

// Stats describe the contents of an Index. Bytes is an estimate without the memory of running searches.
type Stats struct {
	Items   int
	Bytes   int
	Evicted uint64 // number of items evicted because of MaxBytes
}

// New returns an empty index.
func New(o Options) *Index {
	if o.Excerpt <= 0 {
		o.Excerpt = 240
	}
	return &Index{
		options: o,
		models:  make(map[string]*vectors),
		groups:  make(map[string]*group),
		numbers: make(map[string]uint32),
	}
}

// Stats returns statistics of the index.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Stats{len(x.numbers), x.bytes + x.inverted.bytes, x.evicted}
}

// Has reports whether the index contains the key.
func (x *Index) Has(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.numbers[key]
	return ok
}

// Put adds an item or replaces the item with the same key, and makes it the newest. If the memory limit is then
// exceeded, Put evicts the oldest items, but never the new one. Put returns an error for a vector with a wrong
// dimension (DimensionError) or with a number that is not finite. The index is then unchanged, and the caller can put
// the item without its vector.
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
	for x.options.MaxBytes > 0 && x.bytes+x.inverted.bytes > x.options.MaxBytes && len(x.numbers) > 1 {
		x.drop(x.items[x.oldest].key)
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

// checkDimension returns a DimensionError if the vector cannot be compared with those of its model.
func (x *Index) checkDimension(model string, vector []float32) error {
	if v := x.models[model]; v != nil && vector != nil && v.dimension != len(vector) {
		return &DimensionError{Want: v.dimension, Got: len(vector)}
	}
	return nil
}

func (x *Index) add(i Item, vector []float32) {
	number := uint32(len(x.items))
	if n := len(x.freeNumbers); n > 0 {
		number, x.freeNumbers = x.freeNumbers[n-1], x.freeNumbers[:n-1]
	} else {
		x.items = append(x.items, item{})
	}
	it := &x.items[number]
	*it = item{key: strings.Clone(i.Key), excerpt: strings.Clone(text.Clip(i.Text, x.options.Excerpt)), older: number, newer: number}
	if len(x.numbers) == 0 {
		x.oldest = number
	} else {
		it.older = x.newest
		x.items[x.newest].newer = number
	}
	x.newest = number
	x.numbers[it.key] = number
	x.joinGroups(number, i.Groups)
	if vector != nil {
		v := x.models[i.Model]
		if v == nil {
			v = &vectors{model: strings.Clone(i.Model), dimension: len(vector)}
			x.models[v.model] = v
		}
		it.vectors, it.row = v, v.add(number, vector)
	}
	x.inverted.put(number, i.Text)
	x.bytes += it.bytes()
}

// joinGroups adds an item to groups.
func (x *Index) joinGroups(number uint32, names []string) {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	memberships := make([]membership, len(names))
	for i, name := range names {
		g := x.groups[name]
		if g == nil {
			g = &group{name: strings.Clone(name)}
			x.groups[g.name] = g
			x.bytes += bytesPerGroup + len(g.name)
		}
		memberships[i] = membership{g, uint32(len(g.members))}
		g.members = append(g.members, number)
	}
	x.items[number].groups = memberships
}

// drop removes an item from all structures, if the key is known.
func (x *Index) drop(key string) {
	number, ok := x.numbers[key]
	if !ok {
		return
	}
	it := x.items[number]
	x.bytes -= it.bytes()
	x.inverted.drop(number)
	if v := it.vectors; v != nil {
		x.items[v.drop(it.row)].row = it.row
		if len(v.owners) == 0 {
			delete(x.models, v.model)
		}
	}
	x.leaveGroups(it.groups)
	switch {
	case x.oldest == number:
		x.oldest = it.newer
		x.items[it.newer].older = it.newer
		if x.newest == number {
			break // it was the only item
		}
	case x.newest == number:
		x.newest = it.older
		x.items[it.older].newer = it.older
	default:
		x.items[it.older].newer, x.items[it.newer].older = it.newer, it.older
	}
	delete(x.numbers, key)
	x.items[number] = item{}
	x.freeNumbers = append(x.freeNumbers, number)
}

// leaveGroups removes an item from its groups. The last member moves into the free position.
func (x *Index) leaveGroups(memberships []membership) {
	for _, m := range memberships {
		g := m.group
		last := len(g.members) - 1
		moved := g.members[last]
		g.members[m.position] = moved
		g.members = g.members[:last]
		memberships := x.items[moved].groups
		memberships[slices.IndexFunc(memberships, func(o membership) bool { return o.group == g })].position = m.position
		if last == 0 {
			delete(x.groups, g.name)
			x.bytes -= bytesPerGroup + len(g.name)
		}
	}
}

func (it *item) bytes() int {
	n := bytesPerItem + len(it.key) + len(it.excerpt) + len(it.groups)*bytesPerMembership
	if it.vectors != nil {
		n += 4*it.vectors.dimension + 4*5/4
	}
	return n
}
