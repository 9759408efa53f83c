package recall

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"unsafe"

	"debrief/playbook"
)

// maxText is the maximum number of bytes that are read of a text. A text then has fewer than 2^16 terms, so that the fields of a posting fit
// into 16 bits.
const maxText = 64 << 10

// Usual constants of BM25, in the range that Robertson and Zaragoza (2009, 3.4) recommend.
const (
	bm25K1 = 1.2
	bm25B  = 0.75
)

// invertedIndex finds documents by terms. Its owner assigns the numbers of the documents. They are indices of slices, so they should be small.
//
// Each term has a list of postings, one for each document that contains the term. Each document has a list of termRefs, one for each of its
// terms. A posting and its termRef point to each other. Therefore the time to add, remove or score one document depends on its own terms only.
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

	accumulators sync.Pool // of *accumulator
}

// term is a term with its documents.
type term struct {
	name     string
	postings []posting
}

// posting records the occurrences of a term in a document.
type posting struct {
	document uint32
	refIndex uint16 // index in the document's termRefs
	count    uint16 // number of occurrences
}

// termRef points to a posting: term is the id of its term, and position the index in term.postings.
type termRef struct{ term, position uint32 }

// Estimated memory in bytes. The factors are for the spare capacity: 3/2 for a short slice and for a map, 5/4 for a long slice.
const (
	bytesPerTermRef = int(unsafe.Sizeof(termRef{}) + unsafe.Sizeof(posting{})*3/2)
	bytesPerTerm    = int(unsafe.Sizeof(term{})*5/4) + 24*3/2 + 16
)

// put adds a document. Its number must be unused.
func (v *invertedIndex) put(number uint32, text string) {
	if v.ids == nil {
		v.ids = make(map[string]uint32)
	}
	var ids []uint32 // of all terms of the document, with repetitions
	eachTerm(text[:min(len(text), maxText)], func(name []byte) { ids = append(ids, v.intern(name)) })
	slices.Sort(ids)
	var refs []termRef
	for i, id := range ids {
		t := &v.terms[id]
		if i > 0 && id == ids[i-1] { // the term occurs again
			t.postings[len(t.postings)-1].count++
			continue
		}
		t.postings = append(t.postings, posting{document: number, refIndex: uint16(len(refs)), count: 1})
		refs = append(refs, termRef{term: id, position: uint32(len(t.postings) - 1)})
	}
	for int(number) >= len(v.lengths) {
		v.termRefs, v.lengths = append(v.termRefs, nil), append(v.lengths, 0)
	}
	v.termRefs[number], v.lengths[number] = slices.Clone(refs), uint32(len(ids)) // Clone drops the spare capacity
	v.count++
	v.length += uint64(len(ids))
	v.bytes += len(refs) * bytesPerTermRef
}

// intern returns the id of a term. An unknown term gets a new id.
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
		v.termRefs[moved.document][moved.refIndex].position = ref.position
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

// queryTerm is a term of a query that some document contains. The weight of a term in a document is below its share, so scores are below 1.
type queryTerm struct {
	term  uint32  // id
	share float64 // inverse document frequency, as a share of the sum over all terms of the query
}

// parseQuery returns the terms of a query without duplicates, the rarest first. All functions add the weights in this
// order: another order would round the scores differently.
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
		sum += q[i].share // so far the inverse document frequency itself
	}
	for i := range q {
		q[i].share /= sum
	}
	slices.SortStableFunc(q, func(a, b queryTerm) int { return cmp.Compare(b.share, a.share) })
	return q
}

// weigher computes the BM25 weight of a term in a document, without the constant factor k1+1. It has the parts of the denominator that are the
// same for all documents, see weight.
type weigher struct{ constant, perTerm float64 }

func (v *invertedIndex) weigher() weigher {
	return weigher{bm25K1 * (1 - bm25B), bm25K1 * bm25B * float64(v.count) / float64(max(v.length, 1))}
}

// weight returns the weight of a term that occurs count times in a document with length terms. share is that of the queryTerm.
func (w weigher) weight(share float64, count uint16, length uint32) float64 {
	return share * float64(count) / (float64(count) + w.constant + w.perTerm*float64(length))
}

// commonTexts is the number of documents that may contain a term without making it common.
const commonTexts = 500

// isCommon reports whether more than half of the documents, and more than commonTexts of them, contain a term.
func (v *invertedIndex) isCommon(term uint32) bool {
	n := len(v.terms[term].postings)
	return n > commonTexts && n > v.count/2
}

// rarity returns the inverse document frequency of a term in a number of documents. It is above 0 also for a term in all of them.
func (v *invertedIndex) rarity(documents int) float64 {
	n := float64(documents)
	return math.Log1p((float64(v.count) - n + 0.5) / (n + 0.5))
}

// cost returns the number of postings of the terms of a query.
func (v *invertedIndex) cost(terms []queryTerm) (n int) {
	for _, t := range terms {
		n += len(v.terms[t.term].postings)
	}
	return n
}

// accumulator holds the scores of one search. Between searches it is in the pool, and all scores are 0.
type accumulator struct {
	scores []float64 // by document
	found  []uint32  // documents with a score above 0
}

// acquire returns an accumulator for all documents. The caller must release it.
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

// release sets the scores to 0 and returns the accumulator to the pool.
func (v *invertedIndex) release(s *accumulator) {
	for _, number := range s.found {
		s.scores[number] = 0
	}
	s.found = s.found[:0]
	v.accumulators.Put(s)
}

// addWeights adds the weight of a term to the scores of documents with the term. postings are all of the term, or a part.
func (v *invertedIndex) addWeights(s *accumulator, share float64, postings []posting) {
	w := v.weigher()
	for _, p := range postings {
		sum := s.scores[p.document]
		if sum == 0 {
			s.found = append(s.found, p.document)
		}
		s.scores[p.document] = sum + w.weight(share, p.count, v.lengths[p.document])
	}
}

// top scores the documents with a term of the query and offers them to best. It leaves out those for which skip returns true; nil skips none.
func (v *invertedIndex) top(terms []queryTerm, best *playbook.Top[scored], skip func(number uint32) bool) {
	s := v.acquire()
	defer v.release(s)
	for _, t := range terms {
		v.addWeights(s, t.share, v.terms[t.term].postings)
	}
	for _, number := range s.found {
		if skip == nil || !skip(number) {
			best.Offer(scored{number, s.scores[number]})
		}
	}
}

// score returns the score of one document: the sum of the weights of the terms.
func (v *invertedIndex) score(terms []queryTerm, number uint32) (sum float64) {
	w := v.weigher()
	length := v.lengths[number]
	refs := v.termRefs[number]
	for _, t := range terms {
		i, ok := slices.BinarySearchFunc(refs, t.term, func(ref termRef, id uint32) int { return cmp.Compare(ref.term, id) })
		if ok {
			sum += w.weight(t.share, v.terms[t.term].postings[refs[i].position].count, length)
		}
	}
	return sum
}

// scored is the number of a document or item with its score.
type scored struct {
	number uint32
	score  float64
}

// newTop keeps the n highest scores. tie orders equal scores.
func newTop(n int, tie func(a, b uint32) int) *playbook.Top[scored] {
	return playbook.NewTop(n, func(a, b scored) int {
		if a.score != b.score { // cmp.Or would call tie for every pair
			return cmp.Compare(b.score, a.score)
		}
		return tie(a.number, b.number)
	})
}
