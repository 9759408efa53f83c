package similar_test

import (
	"cmp"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook/similar"
)

// near is the definition of Near: it compares with every text.
func near(texts map[string]string, text string, min float64, skip func(string) bool) (best similar.Match, ok bool) {
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		if l := similar.Similarity(text, texts[id]); l > best.Similarity && l >= min && (skip == nil || !skip(id)) {
			best, ok = similar.Match{ID: id, Similarity: l}, true
		}
	}
	return best, ok
}

// drawText draws a text that shares much with others: a few words, or an edit of an existing text.
func drawText(t *rapid.T, there []string) string {
	words := rapid.SampledFrom(strings.Fields("tax Tax fee round rounds before after the the, gold 7 % invoice customers ~ don't ö 税率 ..."))
	text := rapid.OneOf(
		rapid.Map(rapid.SliceOfN(words, 0, 14), func(w []string) string { return strings.Join(w, " ") }),
		rapid.Map(rapid.SliceOfN(words, 14, 40), func(w []string) string { return strings.Join(w, " ") }),
		rapid.StringN(0, 12, -1),
	).Draw(t, "text")
	if len(there) == 0 || rapid.IntRange(0, 3).Draw(t, "new") == 0 {
		return text
	}
	edited := strings.Fields(rapid.SampledFrom(there).Draw(t, "of"))
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		at := rapid.IntRange(0, len(edited)).Draw(t, "at")
		if at < len(edited) && rapid.Bool().Draw(t, "cut") {
			edited = slices.Delete(edited, at, at+1)
		} else {
			edited = slices.Insert(edited, at, words.Draw(t, "word"))
		}
	}
	return strings.Join(edited, " ")
}

// TestNearEqualsFullSearch checks that after any sequence of changes the index answers like the definition, also for
// equal similarities and exact thresholds.
func TestNearEqualsFullSearch(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var x similar.Index
		texts := make(map[string]string)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			there := slices.Sorted(maps.Values(texts))
			id := "b" + strconv.Itoa(rapid.IntRange(1, 25).Draw(t, "id"))
			switch rapid.IntRange(0, 5).Draw(t, "step") {
			case 0:
				x.Drop(id)
				delete(texts, id)
			case 1:
				asked := drawText(t, there)
				min := rapid.OneOf(rapid.SampledFrom([]float64{0.7, 0.88, 1, 0, 0.3, -1, 1.1, math.NaN()}), rapid.Float64Range(0.5, 1)).Draw(t, "min")
				if len(there) > 0 && rapid.Bool().Draw(t, "exactly") {
					min = similar.Similarity(asked, rapid.SampledFrom(there).Draw(t, "as"))
				}
				checkNear(t, &x, texts, asked, min, rapid.IntRange(0, 3).Draw(t, "skip"))
			default:
				text := drawText(t, there)
				x.Put(id, text)
				texts[id] = text
			}
			if x.Len() != len(texts) {
				t.Fatalf("got %d texts, want %d", x.Len(), len(texts))
			}
		}
		for _, text := range texts {
			checkNear(t, &x, texts, text, 0.7, 0)
		}
	})
}

// checkNear compares Near with near. It skips every skip-th id, none for 0.
func checkNear(t *rapid.T, x *similar.Index, texts map[string]string, asked string, min float64, skip int) {
	t.Helper()
	var out func(string) bool
	if skip > 0 {
		out = func(id string) bool { n, _ := strconv.Atoi(id[1:]); return n%skip == 0 }
	}
	want, wantOK := near(texts, asked, orNothing(min), out)
	got, ok := x.Nearest(asked, min, out)
	if got != want || ok != wantOK {
		t.Fatalf("Near(%q, %v): got %v %v, want %v %v", asked, min, got, ok, want, wantOK)
	}
}

// orNothing returns the lowest threshold for NaN.
func orNothing(min float64) float64 {
	if math.IsNaN(min) {
		return 0
	}
	return min
}

// TestNearInAllSizeClasses uses texts from one line to several pages, so that all size classes occur.
func TestNearInAllSizeClasses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	write := newTrade(11)
	var x similar.Index
	texts := make(map[string]string)
	page := func() string {
		text := write.bullet()
		for range write.IntN(4) * write.IntN(4) {
			text += " " + write.bullet()
		}
		return text
	}
	put := func(i int, text string) {
		id := strconv.Itoa(i)
		x.Put(id, text)
		texts[id] = text
	}
	for i := range 200 {
		put(i, page())
	}
	for i := range 24 {
		id := strconv.Itoa(i * 8)
		asked := write.edited(write.edited(texts[id]))
		want, wantOK := near(texts, asked, 0.7, nil)
		got, ok := x.Nearest(asked, 0.7, nil)
		if got != want || ok != wantOK {
			t.Errorf("Near(%q): got %v %v, want %v %v", asked, got, ok, want, wantOK)
		}
		above := math.Nextafter(want.Similarity, 2) // some upper bounds still reach it
		if got, ok := x.Nearest(asked, above, nil); ok {
			t.Errorf("Near(%q, %v): got %v, want nothing", asked, above, got)
		}
		if i%3 == 0 {
			x.Drop(id)
			delete(texts, id)
		}
		put(write.IntN(200), asked)
	}
}

// TestLikenessEqualsDefinition compares with a direct implementation of the definition for normalized texts.
func TestLikenessEqualsDefinition(t *testing.T) {
	t.Parallel()
	jaccard := func(a, b map[string]bool) float64 {
		both := 0
		for v := range a {
			if b[v] {
				both++
			}
		}
		return float64(both) / float64(cmp.Or(len(a)+len(b)-both, 1))
	}
	words := func(s string) map[string]bool {
		set := make(map[string]bool)
		for _, w := range strings.Fields(s) {
			set[w] = true
		}
		return set
	}
	threes := func(s string) map[string]bool {
		set := make(map[string]bool)
		for runes := []rune(" " + s + " "); len(runes) >= 3; runes = runes[1:] {
			set[string(runes[:3])] = true
		}
		return set
	}
	text := rapid.Map(rapid.SliceOfN(rapid.StringMatching(`[abcö1税]{1,4}`), 0, 12), func(w []string) string { return strings.Join(w, " ") })
	rapid.Check(t, func(t *rapid.T) {
		a, b := text.Draw(t, "a"), text.Draw(t, "b")
		want := max(jaccard(words(a), words(b)), jaccard(threes(a), threes(b)))
		if got := similar.Similarity(a, b); got != want {
			t.Fatalf("Likeness(%q, %q): got %v, want %v", a, b, got, want)
		}
		prepared := similar.Prepare(a)
		if got := prepared.Similarity(b); got != want {
			t.Fatalf("Likeness(%q, %q) of a prepared text: got %v, want %v", a, b, got, want)
		}
	})
}

// TestPublishedPlaybook uses bullets written by models. The data is outside the repository.
func TestPublishedPlaybook(t *testing.T) {
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../shared/data")
	raw, err := os.ReadFile(filepath.Join(dir, "ace/appworld_online_trained_playbook.txt"))
	if err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	var x similar.Index
	texts := make(map[string]string)
	for i, text := range regexp.MustCompile(`(?m)^\[[a-z]+-\d+\] `).Split(string(raw), -1) {
		id := strconv.Itoa(i)
		if i%12 == 0 {
			want, _ := near(texts, text, 0.7, nil)
			if got, _ := x.Nearest(text, 0.7, nil); got != want {
				t.Errorf("Near(%q): %s", text, gocmp.Diff(want, got))
			}
		}
		x.Put(id, text)
		texts[id] = text
	}
	if len(texts) < 300 {
		t.Errorf("got %d bullets, want over 300", len(texts))
	}
}
