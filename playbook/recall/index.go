package recall

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
	"unsafe"
)

// Options of an Index. The zero value is no cap and excerpts of 240 bytes.
type Options struct {
	MaxBytes int // of memory to hold; beyond it the oldest items go. 0 is no cap
	Excerpt  int // bytes to keep of each text
}

// Index finds items by their words and by their vectors. Safe for concurrent use: searches run at the same time, a
// change waits for them.
type Index struct {
	options Options

	mu             sync.RWMutex
	inverted       inverted
	models         map[string]*vectors
	groups         map[string]*group
	numbers        map[string]uint32 // of items, by key
	items          []item
	idle           []uint32 // numbers that are free
	oldest, newest uint32   // ends of the list of items; meaningless if there are none
	bytes          int      // what the inverted index holds is counted there
	evicted        uint64

	similarities sync.Pool // of *[]float32
}

type item struct {
	key, excerpt string
	groups       []membership
	vectors      *vectors // those of its model; nil if it has none
	row          uint32
	older, newer uint32 // neighbours in the list, itself at its ends
}

// group is the items of a group, in no order.
type group struct {
	name    string
	members []uint32
}

type membership struct {
	group *group
	at    uint32 // in its members
}

// What things take in memory, in bytes, slices and maps with the room they have to spare.
const (
	bytesPerItem       = int(unsafe.Sizeof(item{})*5/4) + (16+4)*3/2 + 24 + 4
	bytesPerMembership = int(unsafe.Sizeof(membership{})) + 4*5/4
	bytesPerGroup      = (16+8)*3/2 + int(unsafe.Sizeof(group{})) + 16
)

// Stats are what an Index holds. Bytes is an estimate that leaves out what searches use while they run.
type Stats struct {
	Items   int
	Bytes   int
	Evicted uint64 // items that went because of the cap
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

// Stats says what the index holds.
func (x *Index) Stats() Stats {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return Stats{len(x.numbers), x.bytes + x.inverted.bytes, x.evicted}
}

// Has reports whether there is an item of this key.
func (x *Index) Has(key string) bool {
	x.mu.RLock()
	defer x.mu.RUnlock()
	_, ok := x.numbers[key]
	return ok
}

// Put adds an item, or replaces the one of its key; either way it is now the newest. If the index holds too much after
// that, the oldest items go, but never the one just put. After an error, a DimensionError or a vector that holds what is
// no finite number, all is as it was: put it again without the vector, and it is found by its words.
func (x *Index) Put(i Item) error {
	vector, err := unit(i.Vector)
	if err != nil {
		return fmt.Errorf("put %q: %w", i.Key, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.fits(i.Model, vector); err != nil {
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

// Drop removes the item of a key, if there is one.
func (x *Index) Drop(key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.drop(key)
}

// fits returns a DimensionError for a vector that cannot be compared with those of its model.
func (x *Index) fits(model string, vector []float32) error {
	if v := x.models[model]; v != nil && vector != nil && v.dimension != len(vector) {
		return &DimensionError{Want: v.dimension, Got: len(vector)}
	}
	return nil
}

func (x *Index) add(i Item, vector []float32) {
	number := uint32(len(x.items))
	if n := len(x.idle); n > 0 {
		number, x.idle = x.idle[n-1], x.idle[:n-1]
	} else {
		x.items = append(x.items, item{})
	}
	it := &x.items[number]
	*it = item{key: strings.Clone(i.Key), excerpt: excerpt(i.Text, x.options.Excerpt), older: number, newer: number}
	if len(x.numbers) == 0 {
		x.oldest = number
	} else {
		it.older = x.newest
		x.items[x.newest].newer = number
	}
	x.newest = number
	x.numbers[it.key] = number
	x.join(number, i.Groups)
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

// join makes an item a member of groups.
func (x *Index) join(number uint32, names []string) {
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

// drop takes an item out of everything that knows of it, if there is one of this key.
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
	x.leave(it.groups)
	switch {
	case x.oldest == number:
		x.oldest = it.newer
		x.items[it.newer].older = it.newer
		if x.newest == number {
			break // it was the only one
		}
	case x.newest == number:
		x.newest = it.older
		x.items[it.older].newer = it.older
	default:
		x.items[it.older].newer, x.items[it.newer].older = it.newer, it.older
	}
	delete(x.numbers, key)
	x.items[number] = item{}
	x.idle = append(x.idle, number)
}

// leave takes an item out of its groups. The last member takes its place.
func (x *Index) leave(memberships []membership) {
	for _, m := range memberships {
		g := m.group
		last := len(g.members) - 1
		moved := g.members[last]
		g.members[m.at] = moved
		g.members = g.members[:last]
		of := x.items[moved].groups
		of[slices.IndexFunc(of, func(o membership) bool { return o.group == g })].at = m.at
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

// excerpt is the beginning of a text, at most so many bytes and valid UTF-8, with a "…" behind it if it is not all.
func excerpt(text string, most int) string {
	cut := strings.ToValidUTF8(text[:min(len(text), most+utf8.UTFMax)], "\uFFFD")
	if len(cut) <= most && len(text) <= most {
		return strings.Clone(cut)
	}
	end := min(len(cut), most)
	for end > 0 && end < len(cut) && !utf8.RuneStart(cut[end]) {
		end--
	}
	return cut[:end] + "…"
}
