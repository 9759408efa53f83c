package sliding

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"debrief/events/chat"
)

// maxSentence is the most that stands on one line of a summary, in bytes. What is longer is parted at a space.
const maxSentence = 240

// What a sentence is worth besides the weight of its words, in points: each fact a point up to factPoints.
const (
	factPoints     = 4
	failurePoints  = 2
	decisionPoints = 2
	queryPoints    = 3
	rarePoints     = 2

	// lineTokens are added to the length of every sentence before worth is divided by length, so that scraps of three
	// words do not win over sentences.
	lineTokens = 24

	// perText is after how many better ones of its text a sentence is worth half, so that one long listing does not
	// take the place of everything else that was said.
	perText = 4
)

// Compress is what texts said, oldest first, in at most so many tokens by chat.Tokens: their key sentences as they
// stand, in time order, one a line after "- ". It is "" where nothing fits or nothing is said.
//
// Sentences are chosen by worth for length. A sentence is worth the rarity of its words among all sentences (by
// inverse document frequency, Spärck Jones 1972), its facts (numbers, paths, identifiers, names), more if it speaks of an
// error or a decision, and the more of the query's words it has; less if its text has better ones. One that adds no word
// and no fact to those chosen is passed over. Sentences are never reworded: a number or a path stands in the summary as
// it was written or not at all.
//
// The first 8 KB of each text are read, in linear time. Control characters and white space become single spaces and
// code fences go, so that no text can begin a line of its own; what its words say stays untrusted.
func Compress(texts []string, tokens int, query string) string {
	if tokens <= 0 {
		return ""
	}
	d := newDigest(query)
	for from, text := range texts {
		for s := range sentences(text[:min(len(text), maxRead)]) {
			d.add(s, from)
		}
	}
	chosen := d.choose(tokens)
	for len(chosen) > 0 {
		inOrder := slices.Sorted(slices.Values(chosen))
		var b strings.Builder
		for k, i := range inOrder {
			if k > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(bullet + d.sentences[i].text)
		}
		if chat.Tokens(b.String()) <= tokens {
			return b.String()
		}
		chosen = chosen[:len(chosen)-1] // an estimate of the whole may be above the sum of those of the lines
	}
	return ""
}

const bullet = "- "

// sentence is one that could stand in the summary.
type sentence struct {
	text  string
	from  int     // which of the texts it is of
	terms []int   // its telling words and its facts, each once
	bonus float64 // points for facts, an error, a decision
}

// digest is all sentences and the terms in them.
type digest struct {
	sentences []sentence     // those that say something
	read      int            // all that there were
	terms     map[string]int // by stem, or as it is written behind a NUL for a fact
	df        []int          // in how many sentences, by term
	query     []bool         // by term
	seen      []int          // the last sentence that it was met in, from 1, by term
}

func newDigest(query string) *digest {
	d := &digest{terms: make(map[string]int)}
	for w := range words(query[:min(len(query), queryBytes)]) {
		if telling(w) {
			t := d.term(stem(w))
			d.query[t] = true
		}
	}
	return d
}

func (d *digest) term(key string) int {
	t, ok := d.terms[key]
	if !ok {
		t = len(d.df)
		d.terms[key] = t
		d.df, d.query, d.seen = append(d.df, 0), append(d.query, false), append(d.seen, 0)
	}
	return t
}

func (d *digest) add(text string, from int) {
	s := sentence{text: text, from: from}
	d.read++
	asked := false
	put := func(key string) {
		t := d.term(key)
		if d.seen[t] != d.read {
			d.seen[t] = d.read
			d.df[t]++
			s.terms = append(s.terms, t)
			asked = asked || d.query[t]
		}
	}
	names, decides, last := 0, false, "" // names are words that are no numbers
	for w := range words(text) {
		decides = decides || decisive[w] || w == "use" && settles[last]
		last = w
		if telling(w) {
			put(stem(w))
			count(&names, w[0] > '9')
		}
	}
	said := len(s.terms)
	for _, f := range factsIn(text) {
		put("\x00" + f.token)
	}
	s.bonus = float64(min(len(s.terms)-said, factPoints))
	if readSigns(text)&failure != 0 {
		s.bonus += failurePoints
	}
	if decides {
		s.bonus += decisionPoints
	}
	if names >= minWords || names > 0 && (s.bonus > 0 || asked) { // a number alone says nothing
		d.sentences = append(d.sentences, s)
	}
}

// minWords is how many telling words a sentence needs that has nothing else to offer.
const minWords = 3

// choose is the sentences that fit the budget, the one most worth its length first.
func (d *digest) choose(tokens int) (chosen []int) {
	worth := make([]float64, len(d.sentences))
	cost := make([]int, len(d.sentences))
	order := make([]int, len(d.sentences))
	for i := range d.sentences {
		order[i], cost[i] = i, chat.Tokens(bullet+d.sentences[i].text+"\n")
		worth[i] = d.worth(&d.sentences[i]) / float64(lineTokens+cost[i])
	}
	best := func(a, b int) int { return cmp.Or(cmp.Compare(worth[b], worth[a]), cmp.Compare(a, b)) }
	slices.SortFunc(order, best)
	better := make(map[int]int) // by text
	for _, i := range order {
		from := d.sentences[i].from
		worth[i] /= 1 + float64(better[from])/perText
		better[from]++
	}
	slices.SortFunc(order, best)
	told := make([]bool, len(d.df))
	for _, i := range order {
		if cost[i] > tokens {
			continue
		}
		adds := false
		for _, t := range d.sentences[i].terms {
			adds = adds || !told[t]
			told[t] = true
		}
		if adds {
			chosen = append(chosen, i)
			tokens -= cost[i]
		}
	}
	return chosen
}

func (d *digest) worth(s *sentence) float64 {
	if len(s.terms) == 0 {
		return 0
	}
	rare, asked := 0.0, 0.0
	n := float64(d.read)
	for _, t := range s.terms {
		idf := math.Log1p(n/float64(d.df[t])) / math.Log1p(n)
		rare += idf
		if d.query[t] {
			asked += idf
		}
	}
	return rarePoints*rare/float64(len(s.terms)) + s.bonus + queryPoints*asked
}

// decisive words settle something, and so does "use" after those that settle.
var (
	decisive = set(`decided decide decision agreed chose chosen must always never require requires required requirement prefer prefers
		preferred important constraint deadline instead conclusion`)
	settles = map[string]bool{"": true, "we": true, "will": true, "ll": true, "s": true} // "Use", "we'll use", "let's use"
)
