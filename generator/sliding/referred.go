package sliding

import (
	"math"
	"math/bits"
	"strings"
)

// ordinals say which one of several is meant, from 0; the last ones count as -1.
var ordinals = map[string]int{
	"first": 0, "initial": 0, "second": 1, "third": 2, "fourth": 3, "fifth": 4,
	"last": -1, "latest": -1, "previous": -1, "earlier": -1, "preceding": -1, "prior": -1, "recent": -1,
}

// kinds are what an interaction can be named by, as stems, and how its text shows that it is one of that kind; nil where
// every interaction is.
var kinds = func() map[string]func(string) bool {
	m := make(map[string]func(string) bool)
	for list, shows := range map[string]func(string) bool{
		"command": hasWord("command commands run ran running bash shell terminal cmd sh execute executed install"),
		"error exception failure crash traceback": func(text string) bool { return readSigns(text)&failure != 0 },
		"file document":   hasPath,
		"function method": hasWord("function functions func def method methods lambda"),
		"query":           hasWord("query queries sql select search where"),
		"test":            hasWord("test tests tested testing pytest unittest"),
		"answer reply response question request task problem issue approach solution fix step result output change edit suggestion " +
			"idea option example explanation calculation attempt try thing procedure message topic conversation discussion trick bug code": nil,
	} {
		for noun := range strings.FieldsSeq(list) {
			m[stem(noun)] = shows
		}
	}
	return m
}()

func hasWord(list string) func(string) bool {
	wanted := set(list)
	return func(text string) bool { return mentions(text, wanted) }
}

func hasPath(text string) bool {
	for _, f := range factsIn(text) {
		if f.kind == path {
			return true
		}
	}
	return false
}

// Referred is the index of the earlier interaction that a query refers to ("the same command as before", "like the first
// time", "what we did with the parser", "do that for the other file too"), of the n that it can be, oldest first. Candidate
// is the text of one; it is asked for only where the query refers back. It is -1 where the query refers to none, and where it names something that none of them is about.
//
// Only phrases that refer back make it look at the candidates at all (see cues.go); words in common do not. Then, in
// this order: what only points ("do that for Y too") is the last one; the others are narrowed down to those of the
// kind that the query names (command, error, file, function, query, test), then to those that share the rarest words
// with it, and of these the ordinal decides, where there is none the last. The first 2 KB of the query and the first 8
// KB of each candidate are read.
func Referred(query string, n int, candidate func(int) string) int {
	if n <= 0 {
		return -1
	}
	query = query[:min(len(query), queryBytes)]
	ts := tokens(query)
	blank(falseFriends, ts)
	if fits(pointing, ts) {
		return n - 1
	}
	topical := !fits(back, ts)
	if topical && !fits(about, ts) {
		return -1
	}

	texts, pool := make([]string, n), make([]int, n)
	for i := range n {
		c := candidate(i)
		texts[i], pool[i] = c[:min(len(c), maxRead)], i
	}
	kind, nth := named(ts)
	if shows := kinds[kind]; shows != nil {
		pool = narrowed(pool, func(i int) bool { return shows(texts[i]) })
	}
	asked := subject(query)
	best, shared := closest(asked, texts, pool)
	if topical && len(asked) > 0 && !shared {
		return -1
	}
	if nth < 0 || nth >= len(best) {
		return best[len(best)-1]
	}
	return best[nth]
}

// narrowed is those of the pool that a test lets through, all of them if it lets none.
func narrowed(pool []int, through func(int) bool) []int {
	var some []int
	for _, i := range pool {
		if through(i) {
			some = append(some, i)
		}
	}
	if some == nil {
		return pool
	}
	return some
}

// named is the stem of the first kind that the tokens name, "" for none, and the ordinal before one, -1 for none.
func named(ts []token) (kind string, nth int) {
	nth = -1
	for i, t := range ts {
		k := stem(t.word)
		_, is := kinds[k]
		if is && kind == "" {
			kind = k
		}
		if n, ordinal := ordinals[before(ts, i)]; ordinal && nth < 0 && (is || t.word == "time" || t.word == "one") {
			nth = n
		}
	}
	return kind, nth
}

func before(ts []token, i int) string {
	if i == 0 {
		return ""
	}
	return ts[i-1].word
}

// subject is the stems of what a query is about, each with its bit: its telling words without those that refer.
func subject(query string) map[string]uint64 {
	m := make(map[string]uint64)
	for w := range words(query) {
		s := stem(w)
		_, kind := kinds[s]
		_, ordinal := ordinals[w]
		if _, known := m[s]; known || kind || ordinal || !telling(w) || referring[w] || isPast(w) && irregular[w] {
			continue
		}
		if m[s] = 1 << len(m); len(m) == 64 {
			break
		}
	}
	return m
}

// referring words are those by which queries refer, beside the small ones.
var referring = set(`remember repeat redo rerun replay run try use apply show tell explain said mentioned discussed suggested asked
	talked agreed decided above previously already yesterday back like way thing things everything still exact other let look`)

// closest is those of the pool that share most with what is asked, by the weights of the words they share: log(1 + n/df)
// for a word that df of n texts have. All of the pool where none shares anything.
func closest(asked map[string]uint64, texts []string, pool []int) (best []int, shared bool) {
	if len(asked) == 0 {
		return pool, false
	}
	has := make([]uint64, len(pool))
	var df [64]int
	for k, i := range pool {
		for w := range words(texts[i]) {
			has[k] |= asked[stem(w)]
		}
		for rest := has[k]; rest != 0; rest &= rest - 1 {
			df[bits.TrailingZeros64(rest)]++
		}
	}
	most := 0.0
	for k, i := range pool {
		sum := 0.0
		for rest := has[k]; rest != 0; rest &= rest - 1 {
			sum += math.Log1p(float64(len(pool)) / float64(df[bits.TrailingZeros64(rest)]))
		}
		if sum > most {
			best, most = best[:0], sum
		}
		if sum == most {
			best = append(best, i)
		}
	}
	return best, most > 0
}
