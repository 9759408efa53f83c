package recall

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"unsafe"
)

// maxText is how many bytes of a text are read. At most as many terms come of it, so places and counts fit 16 bits.
const maxText = 64 << 10

// BM25's usual constants, of the range that Robertson and Zaragoza (2009, 3.4) report to be good in many circumstances.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// inverted finds documents by their terms. Documents are numbers that its owner hands out, small ones: they index
// arrays. Each term knows where it is listed for each of its documents and the other way round, so that a document
// comes and goes in time in proportion to its own terms, and can be looked at alone.
//
// Reads may run at the same time. Scores do not depend on the order of the lists.
type inverted struct {
	ids      map[string]uint32 // of terms
	terms    []term
	idle     []uint32    // ids of terms that are gone
	mentions [][]mention // by document, ascending by term
	lengths  []uint32    // by document, in terms with their repetitions
	count    int         // of documents
	length   uint64      // of all documents together
	bytes    int         // held, estimated

	found  []mention // scratch of put
	counts []uint16
	sums   sync.Pool // of *sums
}

type term struct {
	name  string
	lists []listed
	nth   uint32 // its place in the document that is being put, counted from 1
}

// listed says that a document has a term.
type listed struct {
	document uint32
	nth      uint16 // where in the document's mentions
	count    uint16
}

// mention says where a term of a document is listed.
type mention struct{ term, at uint32 }

// What things take in memory, in bytes. A list that grows has room for a half more than it holds, on the average, a
// long one for less; a map is two thirds full.
const (
	bytesPerMention = int(unsafe.Sizeof(mention{}) + unsafe.Sizeof(listed{})*3/2)
	bytesPerTerm    = int(unsafe.Sizeof(term{})*5/4) + 24*3/2 + 16
)

// put adds a document that is not there.
func (v *inverted) put(number uint32, text string) {
	if v.ids == nil {
		v.ids = make(map[string]uint32)
	}
	found, counts := v.found[:0], v.counts[:0]
	length := uint32(0)
	eachTerm(text[:min(len(text), maxText)], func(name []byte) {
		t := v.term(name)
		if v.terms[t].nth == 0 {
			found, counts = append(found, mention{term: t}), append(counts, 0)
			v.terms[t].nth = uint32(len(found))
		}
		counts[v.terms[t].nth-1]++
		length++
	})
	mentions := slices.Clone(found)
	slices.SortFunc(mentions, func(a, b mention) int { return cmp.Compare(a.term, b.term) })
	for nth := range mentions {
		t := &v.terms[mentions[nth].term]
		mentions[nth].at = uint32(len(t.lists))
		t.lists = append(t.lists, listed{number, uint16(nth), counts[t.nth-1]})
		t.nth = 0
	}
	v.found, v.counts = found, counts

	for int(number) >= len(v.lengths) {
		v.mentions, v.lengths = append(v.mentions, nil), append(v.lengths, 0)
	}
	v.mentions[number], v.lengths[number] = mentions, length
	v.count++
	v.length += uint64(length)
	v.bytes += len(mentions) * bytesPerMention
}

// term is the id of a term, a new one if need be.
func (v *inverted) term(name []byte) uint32 {
	if id, ok := v.ids[string(name)]; ok {
		return id
	}
	t := term{name: string(name)}
	var id uint32
	if n := len(v.idle); n > 0 {
		id, v.idle = v.idle[n-1], v.idle[:n-1]
		v.terms[id] = t
	} else {
		id = uint32(len(v.terms))
		v.terms = append(v.terms, t)
	}
	v.ids[t.name] = id
	v.bytes += bytesPerTerm + len(t.name)
	return id
}

// drop removes a document that is there. The last one of each list takes its place.
func (v *inverted) drop(number uint32) {
	mentions := v.mentions[number]
	for _, m := range mentions {
		t := &v.terms[m.term]
		last := len(t.lists) - 1
		moved := t.lists[last]
		t.lists[m.at] = moved
		v.mentions[moved.document][moved.nth].at = m.at
		t.lists = t.lists[:last]
		switch {
		case last == 0:
			delete(v.ids, t.name)
			v.idle = append(v.idle, m.term)
			v.bytes -= bytesPerTerm + len(t.name)
			*t = term{}
		case last < cap(t.lists)/4:
			t.lists = append(make([]listed, 0, 2*last), t.lists...)
		}
	}
	v.count--
	v.length -= uint64(v.lengths[number])
	v.bytes -= len(mentions) * bytesPerMention
	v.mentions[number], v.lengths[number] = nil, 0
}

// asked is a term of a query that some document has, and what it counts at the most: its share of the inverse document
// frequencies of the query's terms. No document reaches the sum of the shares, which is 1.
type asked struct {
	term  uint32
	share float64
}

// read reads a query: its terms, each once, the rarest first. Scores are summed in this order, so that they are the same
// to the last bit on every way to them.
func (v *inverted) read(query string) []asked {
	var ids []uint32
	eachTerm(query[:min(len(query), maxText)], func(name []byte) {
		if id, ok := v.ids[string(name)]; ok {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	ids = slices.Compact(ids)
	q, sum := make([]asked, len(ids)), 0.0
	for i, id := range ids {
		with := float64(len(v.terms[id].lists))
		// With the 1 that Log1p adds no term counts for nothing, nor for less.
		q[i] = asked{id, math.Log1p((float64(v.count) - with + 0.5) / (with + 0.5))}
		sum += q[i].share
	}
	for i := range q {
		q[i].share /= sum
	}
	slices.SortStableFunc(q, func(a, b asked) int { return cmp.Compare(b.share, a.share) })
	return q
}

// weigher computes BM25's weight of a term in a document, without the constant factor k1+1: below its share, and the
// nearer the more often it is there and the shorter the document is.
type weigher struct{ constant, perTerm float64 }

func (v *inverted) weigher() weigher {
	return weigher{bm25K1 * (1 - bm25B), bm25K1 * bm25B * float64(v.count) / float64(max(v.length, 1))}
}

func (g weigher) weight(share float64, count uint16, length uint32) float64 {
	return share * float64(count) / (float64(count) + g.constant + g.perTerm*float64(length))
}

// work is how many entries of lists there are to read.
func (v *inverted) work(q []asked) (n int) {
	for _, a := range q {
		n += len(v.terms[a.term].lists)
	}
	return n
}

// sums are scores by document, and the documents that have one. They are taken and given back.
type sums struct {
	of    []float64
	found []uint32
}

func (v *inverted) take() *sums {
	s, _ := v.sums.Get().(*sums)
	if s == nil {
		s = new(sums)
	}
	if len(s.of) < len(v.lengths) {
		s.of = make([]float64, cap(v.lengths))
	}
	return s
}

func (v *inverted) giveBack(s *sums) {
	for _, number := range s.found {
		s.of[number] = 0
	}
	s.found = s.found[:0]
	v.sums.Put(s)
}

// add adds what a term is worth to the documents that have it.
func (v *inverted) add(s *sums, a asked) {
	g := v.weigher()
	for _, l := range v.terms[a.term].lists {
		sum := s.of[l.document]
		if sum == 0 {
			s.found = append(s.found, l.document)
		}
		s.of[l.document] = sum + g.weight(a.share, l.count, v.lengths[l.document])
	}
}

// best offers h the documents that are best for a query. It reads the lists of rare terms first. Once what the others
// can add brings nothing new among the best, it reads them no more, and looks at the few documents for which they may
// matter: the MaxScore of Turtle and Flood, "Query evaluation: strategies and optimizations" (1995). Common terms have
// the longest lists and count the least.
func (v *inverted) best(q []asked, h *ranking) {
	s := v.take()
	defer v.giveBack(s)
	for i, a := range q {
		if len(v.terms[a.term].lists) > len(s.found) && v.finish(s, q[i:], h) {
			return
		}
		v.add(s, a)
	}
	for _, number := range s.found {
		h.offer(number, s.of[number])
	}
}

// finish offers h the documents that are best, if those are among the ones found so far: if as many as are wanted have
// more already than the terms not read yet can give to any other. If not, it does nothing.
func (v *inverted) finish(s *sums, unread []asked, h *ranking) bool {
	sofar, rest := ranking{n: h.n, key: h.key, admit: h.admit}, 0.0
	for _, a := range unread {
		rest += a.share
	}
	for _, number := range s.found {
		sofar.offer(number, s.of[number])
	}
	if len(sofar.kept) < h.n || h.n <= 0 || sofar.kept[0].score < rest {
		return false
	}
	for _, k := range sofar.kept {
		h.offer(k.number, v.score(unread, k.number, k.score))
		s.of[k.number] = -1 - rest // is done
	}
	for _, number := range s.found {
		if sum := s.of[number]; sum+rest >= h.kept[0].score {
			h.offer(number, v.score(unread, number, sum))
		}
	}
	return true
}

// score adds to a sum what terms are worth to one document.
func (v *inverted) score(q []asked, number uint32, sum float64) float64 {
	g, length, mentions := v.weigher(), v.lengths[number], v.mentions[number]
	for _, a := range q {
		at, ok := slices.BinarySearchFunc(mentions, a.term, func(m mention, t uint32) int { return cmp.Compare(m.term, t) })
		if ok {
			sum += g.weight(a.share, v.terms[a.term].lists[mentions[at].at].count, length)
		}
	}
	return sum
}
