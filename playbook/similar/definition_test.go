package similar_test

import (
	"cmp"
	"maps"
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

// drawText draws a rule of some words: a new one, or an edit of an existing text.
func drawText(t *rapid.T, there []string) string {
	words := rapid.SampledFrom(strings.Fields("tax Tax fee round rounds before after the the, gold 7 % invoice customers ~ don't ö 税率 ..."))
	if len(there) == 0 || rapid.IntRange(0, 3).Draw(t, "new") == 0 {
		return "gold " + strings.Join(rapid.SliceOfN(words, 1, 40).Draw(t, "text"), " ")
	}
	edited := strings.Fields(rapid.SampledFrom(there).Draw(t, "of"))
	for range rapid.IntRange(0, 3).Draw(t, "edits") {
		at := rapid.IntRange(1, len(edited)).Draw(t, "at")
		if at < len(edited) && rapid.Bool().Draw(t, "cut") {
			edited = slices.Delete(edited, at, at+1)
		} else {
			edited = slices.Insert(edited, at, words.Draw(t, "word"))
		}
	}
	return strings.Join(edited, " ")
}

// TestNearestEqualsFullSearch checks that after any sequence of changes the index answers like a comparison with every text, also for
// equal similarities and exact thresholds. All texts have a word in common, and there are fewer than a search compares.
func TestNearestEqualsFullSearch(t *testing.T) {
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
				limit := rapid.OneOf(rapid.SampledFrom([]float64{0.7, 0.88, 1, 0, 0.3, -1, 1.1}), rapid.Float64Range(0.5, 1)).Draw(t, "limit")
				if len(there) > 0 && rapid.Bool().Draw(t, "exactly") {
					limit = similar.Similarity(asked, rapid.SampledFrom(there).Draw(t, "as"))
				}
				checkNearest(t, &x, texts, asked, limit, rapid.IntRange(0, 3).Draw(t, "skip"))
			default:
				text := drawText(t, there)
				x.Put(id, text)
				texts[id] = text
			}
		}
	})
}

// nearest compares with every text.
func nearest(texts map[string]string, asked string, limit float64, skip func(string) bool) (best similar.Match) {
	for _, id := range slices.Sorted(maps.Keys(texts)) {
		if s := similar.Similarity(asked, texts[id]); s > best.Similarity && s >= limit && !skip(id) {
			best = similar.Match{ID: id, Similarity: s}
		}
	}
	return best
}

// checkNearest compares Nearest with a comparison with every text. It skips every skip-th id, none for 0.
func checkNearest(t *rapid.T, x *similar.Index, texts map[string]string, asked string, limit float64, skip int) {
	t.Helper()
	out := func(id string) bool { n, _ := strconv.Atoi(id[1:]); return skip > 0 && n%skip == 0 }
	want := nearest(texts, asked, limit, out)
	if got, ok := x.Nearest(asked, limit, out); got != want || ok != (want.ID != "") {
		t.Fatalf("Nearest(%q, %v): got %v %v, want %v", asked, limit, got, ok, want)
	}
}

// TestNearestFindsEditsAmongThousands looks for rules of which a word or two were changed, among many rules of one trade.
func TestNearestFindsEditsAmongThousands(t *testing.T) {
	t.Parallel()
	x, texts := library(5000)
	write := newTrade(11)
	for range 200 {
		of := texts[write.IntN(len(texts))]
		asked := write.edited(of)
		limit := similar.Similarity(asked, of)
		if got, ok := x.Nearest(asked, limit, nil); !ok {
			t.Errorf("Nearest(%q, %v): got %v, want %q", asked, limit, got, of)
		}
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
			want := nearest(texts, text, 0.7, func(string) bool { return false })
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
