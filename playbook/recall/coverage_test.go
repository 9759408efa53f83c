package recall

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func covered(query, text string, texts ...string) float64 {
	var w WordIndex
	for i, other := range append(texts, text) {
		w.Put(fmt.Sprint(i), other)
	}
	return share(w.Coverage(query), text)
}

func share(c *Coverage, text string) float64 {
	share, _ := c.Share(text)
	return share
}

func TestCoverage(t *testing.T) {
	t.Parallel()
	const (
		north = "For region North the region tax is 8 % of the amount so far."
		south = "For region South the region tax is 5 % of the amount so far."
		small = "For order size small the small order fee is 4.50."
		fee   = "For currency USD the currency fee is 3 % of the amount so far."
	)
	invoice := func(region, size string) string {
		return fmt.Sprintf("Invoice 12345\nregion: %s\norder size: %s\nWhat is the amount due? Steps: small order fee, region tax, currency fee.", region, size)
	}
	far := strings.Repeat("When the courier asks for papers look into drawer seven beside the window and hand him a blue form with two stamps. ", 3)
	for _, test := range []struct {
		name        string
		query, text string
		others      []string
		least, most float64
	}{
		{"what tells it from its neighbour is there", invoice("North", "regular"), north, []string{south, fee}, 0.8, 1},
		{"what tells it from its neighbour is not there", invoice("South", "regular"), north, []string{south, fee}, 0, 0.5},
		{"a word that it has twice is there once", invoice("North", "regular"), small, []string{north, fee}, 0, 0.7},
		{"and twice", invoice("North", "small"), small, []string{north, fee}, 0.99, 1},
		{"alone it asks for most of its words", "the region tax of North region on this amount", north, nil, 0.75, 1},
		{"numbers do not count", "check twelve", "Check 12 345.60 7", nil, 1, 1},
		{"nor does where and when", "round it", "Round down before, after and up", nil, 1, 1},
		{"no word at all is about everything", "?", "12 % … 13", nil, 1, 1},
		{"other endings", "orders paid by couriers", "order courier", nil, 1, 1},
		{"nothing in common", "who are you?", north, nil, 0, 0},
		{"no query", "", north, nil, 0, 0},
		{"a few words of a page", "papers for the courier", far, nil, 0.1, 0.5},
		{"a dozen words of a page", "courier asks papers look drawer seven window hand him blue form stamps beside two", far, nil, 1, 1},
		{"a script without spaces", "東京の地域税は", "東京の地域税", nil, 0.99, 1},
	} {
		if got := covered(test.query, test.text, test.others...); got < test.least || got > test.most {
			t.Errorf("%s: got %.3f, want %.2f to %.2f", test.name, got, test.least, test.most)
		}
	}
	if got := share(new(WordIndex).Coverage("region"), north); got != 0 {
		t.Errorf("text not in the Words: got %v, want 0", got)
	}
}

// TestCoverageIgnoresUnrelatedTexts checks that texts without a shared word change nothing.
func TestCoverageIgnoresUnrelatedTexts(t *testing.T) {
	t.Parallel()
	others := []string{"for region south the tax is lower", "for region west it is higher"}
	before := covered("region north, please", "for region north the tax is high", others...)
	for i := range 1000 {
		others = append(others, fmt.Sprintf("word%d other%d", i, i))
	}
	if after := covered("region north, please", "for region north the tax is high", others...); after != before {
		t.Errorf("got %v among a thousand, %v among three", after, before)
	}
}

func TestCoverageProperties(t *testing.T) {
	t.Parallel()
	words := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("tax fee north south 8 12.5 before userID 東京 ' _ small region \xff")), 0, 40)
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(words.Draw(t, "words"), " ") })
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(text, 1, 8).Draw(t, "texts")
		query, more := text.Draw(t, "query"), text.Draw(t, "more")
		var w WordIndex
		for i, s := range texts {
			w.Put(fmt.Sprint(i), s)
		}
		c, wider := w.Coverage(query), w.Coverage(query+" . "+more)
		for _, s := range append(texts, more) {
			got := share(c, s)
			if math.IsNaN(got) || got < 0 || got > 1 {
				t.Fatalf("got %v of %q", got, s)
			}
			if wide := share(wider, s); wide < got-1e-12 {
				t.Errorf("longer query covers less: %v of %q, %v before", wide, s, got)
			}
		}
		if s := texts[0]; share(w.Coverage(s), s) < 1-1e-12 {
			t.Errorf("got %v for a text and itself: %q", share(w.Coverage(s), s), s)
		}
	})
}
