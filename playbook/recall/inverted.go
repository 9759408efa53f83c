package recall

import (
	"cmp"
	"slices"
	"sync"
	"unsafe"

	"debrief/playbook/heap"
)

// maxText is the number of bytes of a text that are read. It also bounds the number of terms of a text, so that the fields of a posting fit
// into 16 bits.
const maxText = 64 << 10

// Usual constants of BM25, in the range that Robertson and Zaragoza (2009, 3.4) recommend.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// invertedIndex finds documents by terms. The owner assigns the document numbers; they are array indices and should be small.
//
// Each term has a list of postings, one for each document that contains the term. Each document has a list of references to its postings.
// Posting and reference point to each other. So adding or removing a document takes time proportional to its own terms, and a single
// document can be scored alone.
//
// Reads may run concurrently. Scores do not depend on the order of the postings.
type invertedIndex struct {
	ids       map[string]uint32 // term ids by name
	terms     []term
	freeTerms []uint32    // ids of removed terms
	termRefs  [][]termRef // by document, in ascending order of terms
	lengths   []uint32    // number of terms by document, with repetitions
	count     int         // number of documents
	length    uint64      // sum of lengths
	bytes     int         // estimated memory

	found        []uint32  // reused by put
	accumulators sync.Pool // of *accumulator
}

type term struct {
	name     string
	postings []posting
}

// posting records the occurrences of a term in a document.
type posting struct {
	document uint32
	nth      uint16 // index in the document's termRefs
	count    uint16
}

// termRef is the position of a posting in the list of its term.
type termRef struct{ term, position uint32 }

// Estimated memory in bytes, with the spare capacity: a short list has on average half as much again, a long list a quarter, and a map is two
// thirds full.
const (
	bytesPerTermRef = int(unsafe.Sizeof(termRef{}) + unsafe.Sizeof(posting{})*3/2)
	bytesPerTerm    = int(unsafe.Sizeof(term{})*5/4) + 24*3/2 + 16
)

// put adds a document. Its number must be unused.
func (v *invertedIndex) put(number uint32, text string) {
	if v.ids == nil {
		v.ids = make(map[string]uint32)
	}
	found := v.found[:0]
	eachTerm(text[:min(len(text), maxText)], func(name []byte) { found = append(found, v.intern(name)) })
	slices.Sort(found)
	var refs []termRef
	for i, id := range found {
		t := &v.terms[id]
		if i > 0 && id == found[i-1] { // the term occurs again
			t.postings[len(t.postings)-1].count++
			continue
		}
		t.postings = append(t.postings, posting{document: number, nth: uint16(len(refs)), count: 1})
		refs = append(refs, termRef{term: id, position: uint32(len(t.postings) - 1)})
	}
	v.found = found

	for int(number) >= len(v.lengths) {
		v.termRefs, v.lengths = append(v.termRefs, nil), append(v.lengths, 0)
	}
	v.termRefs[number], v.lengths[number] = slices.Clone(refs), uint32(len(found))
	v.count++
	v.length += uint64(len(found))
	v.bytes += len(refs) * bytesPerTermRef
}

// intern returns the id of a term and assigns a new id to an unknown term.
func (v *invertedIndex) intern(name []byte) uint32 {
	if id, ok := v.ids[string(name)]; ok {
		return id
	}
	t := term{name: string(name)}
	var id uint32
	if n := len(v.freeTerms); n > 0 {
		id, v.freeTerms = v.freeTerms[n-1], v.freeTerms[:n-1]
		v.terms[id] = t
	} else {
		id = uint32(len(v.terms))
		v.terms = append(v.terms, t)
	}
	v.ids[t.name] = id
	v.bytes += bytesPerTerm + len(t.name)
	return id
}

// drop removes an existing document. The last posting of each list moves into the free position.
func (v *invertedIndex) drop(number uint32) {
	refs := v.termRefs[number]
	for _, ref := range refs {
		t := &v.terms[ref.term]
		last := len(t.postings) - 1
		moved := t.postings[last]
		t.postings[ref.position] = moved
		v.termRefs[moved.document][moved.nth].position = ref.position
		t.postings = t.postings[:last]
		switch {
		case last == 0:
			delete(v.ids, t.name)
			v.freeTerms = append(v.freeTerms, ref.term)
			v.bytes -= bytesPerTerm + len(t.name)
			*t = term{}
		case last < cap(t.postings)/4: // give memory back
			t.postings = append(make([]posting, 0, 2*last), t.postings...)
		}
	}
	v.count--
	v.length -= uint64(v.lengths[number])
	v.bytes -= len(refs) * bytesPerTermRef
	v.termRefs[number], v.lengths[number] = nil, 0
}

// queryTerm is a term of a query that some document contains. share is its inverse document frequency, divided by the sum of those of all
// terms of the query. The weight of the term in a document is below its share. The shares sum to 1, so scores are below 1.
type queryTerm struct {
	term  uint32
	share float64
}

// parseQuery returns the terms of a query without duplicates, the rarest first. All functions sum scores in this
// order, so that results are equal to the last bit.
func (v *invertedIndex) parseQuery(query string) []queryTerm {
	var ids []uint32
	eachTerm(query[:min(len(query), maxText)], func(name []byte) {
		if id, ok := v.ids[string(name)]; ok {
			ids = append(ids, id)
		}
	})
	slices.Sort(ids)
	ids = slices.Compact(ids)
	q, sum := make([]queryTerm, len(ids)), 0.0
	for i, id := range ids {
		q[i] = queryTerm{id, v.rarity(len(v.terms[id].postings))}
		sum += q[i].share
	}
	for i := range q {
		q[i].share /= sum
	}
	slices.SortStableFunc(q, func(a, b queryTerm) int { return cmp.Compare(b.share, a.share) })
	return q
}

// weigher computes BM25's weight of a term in a document, without the constant factor k1+1. The weight is below the share of the term. It grows
// with the count of the term and falls with the length of the document. Its two fields are the parts of the denominator that do not depend
// on the document.
type weigher struct{ constant, perTerm float64 }

func (v *invertedIndex) weigher() weigher {
	return weigher{bm25K1 * (1 - bm25B), bm25K1 * bm25B * float64(v.count) / float64(max(v.length, 1))}
}

// weight returns the weight of a term with a share that occurs count times in a document of length terms.
func (g weigher) weight(share float64, count uint16, length uint32) float64 {
	return share * float64(count) / (float64(count) + g.constant + g.perTerm*float64(length))
}

// cost returns the number of postings of the terms of a query.
func (v *invertedIndex) cost(q []queryTerm) (n int) {
	for _, a := range q {
		n += len(v.terms[a.term].postings)
	}
	return n
}

// accumulator holds the scores of one search. acquire and release reuse accumulators.
type accumulator struct {
	scores []float64 // by document
	found  []uint32  // documents with a score
}

func (v *invertedIndex) acquire() *accumulator {
	s, _ := v.accumulators.Get().(*accumulator)
	if s == nil {
		s = new(accumulator)
	}
	if len(s.scores) < len(v.lengths) {
		s.scores = make([]float64, cap(v.lengths))
	}
	return s
}

func (v *invertedIndex) release(s *accumulator) {
	for _, number := range s.found {
		s.scores[number] = 0
	}
	s.found = s.found[:0]
	v.accumulators.Put(s)
}

// addWeights adds the weight of a term to the score of each document with the term.
func (v *invertedIndex) addWeights(s *accumulator, a queryTerm) {
	g := v.weigher()
	for _, p := range v.terms[a.term].postings {
		sum := s.scores[p.document]
		if sum == 0 {
			s.found = append(s.found, p.document)
		}
		s.scores[p.document] = sum + g.weight(a.share, p.count, v.lengths[p.document])
	}
}

// top offers each document with a score to best, except those that skip reports; nil skips none.
func (v *invertedIndex) top(q []queryTerm, best *heap.Top[scored], skip func(number uint32) bool) {
	s := v.acquire()
	defer v.release(s)
	for _, a := range q {
		v.addWeights(s, a)
	}
	for _, number := range s.found {
		if skip == nil || !skip(number) {
			best.Offer(scored{number, s.scores[number]})
		}
	}
}

// score returns the score of one document: the sum of the weights of the terms.
func (v *invertedIndex) score(q []queryTerm, number uint32) (sum float64) {
	g := v.weigher()
	length := v.lengths[number]
	refs := v.termRefs[number]
	for _, a := range q {
		at, ok := slices.BinarySearchFunc(refs, a.term, func(ref termRef, t uint32) int { return cmp.Compare(ref.term, t) })
		if ok {
			sum += g.weight(a.share, v.terms[a.term].postings[refs[at].position].count, length)
		}
	}
	return sum
}
