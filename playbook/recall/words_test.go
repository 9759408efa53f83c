package recall_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"debrief/playbook/recall"

	"pgregory.net/rapid"
)

// bm25 is the formula of Robertson and Zaragoza (2009) without the factor k1+1, divided by its maximum for the query.
func bm25(query string, texts map[string]string) []recall.Match {
	total := 0.0
	for _, text := range texts {
		total += float64(len(strings.Fields(text)))
	}
	terms := strings.Fields(query)
	slices.Sort(terms)
	scores := map[string]float64{}
	most := 0.0
	for _, term := range slices.Compact(terms) {
		with := 0.0
		for _, text := range texts {
			if slices.Contains(strings.Fields(text), term) {
				with++
			}
		}
		if with == 0 {
			continue
		}
		idf := math.Log(1 + (float64(len(texts))-with+0.5)/(with+0.5))
		most += idf
		for key, text := range texts {
			words := strings.Fields(text)
			tf := 0.0
			for _, w := range words {
				if w == term {
					tf++
				}
			}
			if tf > 0 {
				scores[key] += idf * tf / (tf + 1.2*(1-0.75+0.75*float64(len(words))/(total/float64(len(texts)))))
			}
		}
	}
	matches := []recall.Match{}
	for key, score := range scores {
		matches = append(matches, recall.Match{Key: key, Score: score / most})
	}
	return inOrder(matches)
}

func inOrder(matches []recall.Match) []recall.Match {
	slices.SortFunc(matches, func(a, b recall.Match) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), strings.Compare(a.Key, b.Key))
	})
	return matches
}

// alike reports whether scores are equal except for rounding, in any order of equal scores.
func alike(got, want []recall.Match) bool {
	scores := map[string]float64{}
	for _, m := range want {
		scores[m.Key] = m.Score
	}
	return slices.EqualFunc(got, want, func(a, b recall.Match) bool {
		own, ok := scores[a.Key]
		return ok && math.Abs(a.Score-own) < 1e-12 && math.Abs(a.Score-b.Score) < 1e-12
	})
}

func TestWordsAgreeWithTheFormula(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.Custom(func(t *rapid.T) string {
			words := rapid.SliceOfN(rapid.IntRange(100, 115), 0, 12).Draw(t, "words")
			return strings.Trim(fmt.Sprint(words), "[]")
		})
		var w recall.WordIndex
		texts := map[string]string{}
		for range rapid.IntRange(0, 30).Draw(t, "steps") {
			key := fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "key"))
			if rapid.IntRange(0, 3).Draw(t, "drop") == 0 {
				w.Drop(key)
				delete(texts, key)
				continue
			}
			texts[key] = text.Draw(t, "text")
			w.Put(key, texts[key])
		}
		query := text.Draw(t, "query")
		want := bm25(query, texts)
		all := w.Top(query, len(texts))
		for _, m := range all {
			if m.Score <= 0 || m.Score >= 1 {
				t.Fatalf("score of %q is %v", m.Key, m.Score)
			}
		}
		if !alike(all, want) || w.Len() != len(texts) {
			t.Fatalf("%d texts, %q: got %v\nwant %v", w.Len(), query, all, want)
		}
		n := rapid.IntRange(0, 10).Draw(t, "n")
		if got := w.Top(query, n); !slices.Equal(got, all[:min(n, len(all))]) {
			t.Fatalf("first %d: got %v\nwant %v", n, got, all)
		}
	})
}

// A small Top stops reading early. One that returns all texts reads everything.
func TestTopIsThePrefixOfAllMatches(t *testing.T) {
	t.Parallel()
	a := archive{rand.New(rand.NewPCG(9, 9))}
	var w recall.WordIndex
	for i := range 3000 {
		w.Put(fmt.Sprint(i), a.text(1+i%60))
		if i%3 == 0 {
			w.Drop(fmt.Sprint(i / 2))
		}
	}
	for range 100 {
		query := a.text(1 + a.IntN(12))
		all := w.Top(query, w.Len())
		for _, n := range []int{0, 1, 3, 10, 100, 10_000} {
			if got := w.Top(query, n); !slices.Equal(got, all[:min(n, len(all))]) {
				t.Errorf("first %d for %q: got %d, such as %v\nwant %d, such as %v", n, query, len(got), got[:min(n, 10, len(got))], len(all), all[:min(n, 10, len(all))])
			}
		}
	}
}

func TestTerms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcdef", 1000)
	for _, tt := range []struct{ text, query string }{
		{"Prices were rounded", "rounding a price"},
		{"The policies carried over", "carry policy"},
		{"It stopped; planning goes on", "stop plan"},
		{"Ada’s boxes", "ada box"},
		{"call get_user_id first", "getUserID"},
		{"HTTPServer", "server"},
		{"parseHTTPHeader", "http header"},
		{"__init__", "init"},
		{"1,000 CHF", "1000"},
		{"a rate of 2.5", "2.5"},
		{"version 1.2.3.", "1.2.3"},
		{"ΑΘΗΝΑΣ", "αθηνας"},
		{"Straße in Köln", "KÖLN"},
		{"ＦＵＬＬ　ＷＩＤＴＨ", "full width"},
		{"東京都に住む", "東京"},
		{"東京都に住む", "京都"}, // a limit of character pairs
		{"猫 です", "猫"},
		{"สวัสดีครับ", "สวัสดี"},
		{"hash " + long, long},
		{"\xff\xfebroken\x00bytes\xff", "bytes broken"},
	} {
		var w recall.WordIndex
		w.Put("it", tt.text)
		if got := w.Top(tt.query, 1); len(got) != 1 {
			t.Errorf("%.40q does not find %.40q", tt.query, tt.text)
		}
	}
	for _, tt := range []struct{ text, query string }{
		{"1,000", "1"},
		{"2.5", "5"},
		{"1,00", "100"},
		{"the of and", "the of and"},
		{"", ""},
		{"东 京", "东京"},
		{strings.Repeat("fooBar", 100), "foo"},
	} {
		var w recall.WordIndex
		w.Put("it", tt.text)
		if got := w.Top(tt.query, 1); len(got) != 0 {
			t.Errorf("%q finds %q", tt.query, tt.text)
		}
	}
}

// Two texts that both match very well do not both have score 1, and rare words decide.
func TestScoresDoNotSaturate(t *testing.T) {
	t.Parallel()
	var w recall.WordIndex
	for i := range 100 {
		w.Put(fmt.Sprintf("other-%02d", i), "round the amount of the invoice")
	}
	w.Put("once", "invoice of Zweibrücken, rounded")
	w.Put("twice", "invoice of Zweibrücken to Zweibrücken, rounded")
	w.Put("part", "invoice of Zweibrücken")
	got := w.Top("round invoices for Zweibrücken", 4)
	if len(got) != 4 || got[0].Key != "twice" || got[3].Score > got[2].Score/4 {
		t.Errorf("got %v", got)
	}
	for i, m := range got[:3] {
		if m.Score < 0.3 || m.Score >= 0.8 || i > 0 && m.Score == got[i-1].Score {
			t.Errorf("got %v", got)
		}
	}
}

// These amounts are read in milliseconds. With quadratic time this test would not end.
func TestTimeIsLinearInText(t *testing.T) {
	t.Parallel()
	for _, piece := range []string{"a", "aB", "_", "a_", "1,234", "1.", "'", "猫", "word ", "\xff", "ing", "\u00ad", "́"} {
		text := strings.Repeat(piece, 256<<10/len(piece))
		var w recall.WordIndex
		w.Put("long", text)
		w.Top(text, 10)
		recall.HashedVector(text, nil)
		x := recall.New(0)
		if err := x.Put(recall.Item{Key: "long", Text: text}); err != nil {
			t.Fatal(err)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("call get_user_id first", "getUserID")
	f.Add("東京都に住む 1,000.5 naïve", "\xff\x00_a_B")
	f.Fuzz(func(t *testing.T, text, query string) {
		var w recall.WordIndex
		w.Put("other", query+" and more")
		w.Put("it", text)
		for _, m := range w.Top(query, w.Len()) {
			if !(m.Score > 0 && m.Score < 1) {
				t.Errorf("score of %q is %v", m.Key, m.Score)
			}
		}
		before := w.Top(query, 5)
		w.Put("it", query)
		w.Put("it", text)
		if after := w.Top(query, 5); !alike(after, before) {
			t.Errorf("put again: got %v, want %v", after, before)
		}
		w.Drop("it")
		w.Drop("other")
		if got := w.Top(query, 5); len(got) > 0 || w.Len() > 0 {
			t.Errorf("empty index: got %v", got)
		}
		sum := 0.0
		for _, x := range recall.HashedVector(text, nil) {
			sum += float64(x) * float64(x)
		}
		if sum != 0 && math.Abs(sum-1) > 1e-5 {
			t.Errorf("length of a hashed vector is %v", math.Sqrt(sum))
		}
	})
}

func TestHashedComparesSpellings(t *testing.T) {
	t.Parallel()
	similarity := func(a, b string) (sum float64) {
		y := recall.HashedVector(b, make([]float32, 1000))
		for i, x := range recall.HashedVector(a, nil) {
			sum += float64(x) * float64(y[i])
		}
		return sum
	}
	const text = "The billing gateway restarts every night"
	for _, tt := range []struct {
		other       string
		least, most float64
	}{
		{text, 0.999, 1.001},
		{"the BILLING gateway, restarts: every night!", 0.999, 1.001},
		{"Restarting billing gateways each night", 0.75, 1},
		{"The biling gatewya restarts every night", 0.6, 0.95},
		{"Lunch was good on Thursday", -0.15, 0.15},
		{"", 0, 0},
		{"!?", 0, 0},
	} {
		if got := similarity(text, tt.other); got < tt.least || got > tt.most {
			t.Errorf("%q: got %.2f, want %.2f to %.2f", tt.other, got, tt.least, tt.most)
		}
	}
	r := rand.New(rand.NewPCG(1, 1))
	sum, squares := 0.0, 0.0
	const n = 2000
	for range n {
		a := fmt.Sprintf("%x %x %x %x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
		b := fmt.Sprintf("%x %x %x %x", r.Uint64(), r.Uint64(), r.Uint64(), r.Uint64())
		s := similarity(a, b)
		sum += s
		squares += s * s
	}
	if mean, spread := sum/n, math.Sqrt(squares/n); math.Abs(mean) > 0.01 || spread > 0.08 { // 0.05 is 1/√384
		t.Errorf("texts that share nothing: got similarities of %.3f ± %.3f", mean, spread)
	}
}

// TestCommonWordsAreIgnored searches with a word of all texts, of a half of them, and of a few.
func TestCommonWordsAreIgnored(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name                     string
		texts                    int
		all, half, few, together int // texts found
	}{
		{"many texts", 1200, 0, 600, 12, 12},
		{"few texts", 400, 400, 200, 4, 400},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := recall.WordIndex{IgnoreCommon: true}
			for i := range c.texts {
				text := "invoice"
				if i%2 == 0 {
					text += " parcel"
				}
				if i%100 == 0 {
					text += " refund"
				}
				w.Put(fmt.Sprint(i), text)
			}
			for query, want := range map[string]int{"invoice": c.all, "parcel": c.half, "refund": c.few, "refund invoice": c.together} {
				if got := len(w.Top(query, c.texts)); got != want {
					t.Errorf("%q: %d texts, want %d", query, got, want)
				}
			}
		})
	}
}

// TestNewestTextsWithCommonWords: common words find a few of the newest texts, and only if the other words find too few.
func TestNewestTextsWithCommonWords(t *testing.T) {
	t.Parallel()
	w := recall.WordIndex{IgnoreCommon: true, NewestCommon: 20}
	for i := range 1200 {
		w.Put(fmt.Sprint(i), fmt.Sprintf("invoice number %d", i%40))
	}
	for _, c := range []struct {
		query  string
		n      int
		found  int
		oldest int // least number of a found text
	}{
		{query: "invoice", n: 10, found: 10, oldest: 1180},
		{query: "invoice", n: 1200, found: 20, oldest: 1180},
		{query: "invoice 7", n: 20, found: 20, oldest: 7}, // 30 texts have the number
		{query: "invoice 7", n: 1200, found: 50, oldest: 7},
	} {
		matches := w.Top(c.query, c.n)
		oldest := 1200
		for _, m := range matches {
			number, err := strconv.Atoi(m.Key)
			if err != nil {
				t.Fatal(err)
			}
			oldest = min(oldest, number)
		}
		if len(matches) != c.found || oldest < c.oldest {
			t.Errorf("%q: %d texts from number %d, want %d from %d", c.query, len(matches), oldest, c.found, c.oldest)
		}
	}
}

// TestTopOfEqualScores fills two indexes with equal texts in different orders. Both return the same of them, as two Generators
// with one playbook must.
func TestTopOfEqualScores(t *testing.T) {
	t.Parallel()
	var first, second recall.WordIndex
	const n = 300
	for i := range n {
		first.Put(fmt.Sprint("k", i), "add the tax")
		second.Put(fmt.Sprint("k", n-i), "a former text")
	}
	second.Drop(fmt.Sprint("k", n))
	for i := range n {
		second.Put(fmt.Sprint("k", i*7%n), "add the tax")
	}
	if got, want := second.Top("tax", 20), first.Top("tax", 20); len(want) != 20 || !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
