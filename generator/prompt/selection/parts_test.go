package selection

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/events/chat"
	"debrief/playbook"
)

var drawText = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "a", "a\nb\n", "] (\n### x", "tool_use", "\xff\n\n"}))

// TestRenderedPartsEqualRender checks that the parts used for the budget add up to the rendered playbook.
func TestRenderedPartsEqualRender(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(rapid.Bool().Draw(t, "votes"))
		var bullets []*playbook.Bullet
		title, headers, owns := "", map[string]string{}, map[string]string{}
		for range rapid.IntRange(1, 6).Draw(t, "bullets") {
			b := &playbook.Bullet{
				ID: playbook.BulletID(drawText.Draw(t, "id")), Section: drawText.Draw(t, "section"), Content: drawText.Draw(t, "content"),
				Helpful: rapid.Int().Draw(t, "helpful"),
			}
			section := b.Section
			if rapid.Bool().Draw(t, "new") {
				b.Experiment, section = &playbook.Experiment{Standing: playbook.StandingNew}, "\xff behind all others"
			}
			above, header, own := x.renderedParts(b)
			bullets = append(bullets, b)
			title, headers[section] = cmp.Or(title, above), header
			owns[section] += own
		}
		want := title
		for _, section := range slices.Sorted(maps.Keys(headers)) {
			want += headers[section] + owns[section]
		}
		if got := x.render(bullets); got != want {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// TestBudgetHoldsWithLowEstimates uses estimates that are too low, as with another tokenizer.
func TestBudgetHoldsWithLowEstimates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(false)
		x.Update(playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
			for i := range rapid.IntRange(0, 40).Draw(t, "bullets") {
				b := &playbook.Bullet{
					ID: playbook.MintID("others", uint64(i)), Section: "others", Content: strings.Repeat("word ", rapid.IntRange(1, 60).Draw(t, "words")),
					Helpful: i, Pinned: i%7 == 0,
				}
				if !yield(b) {
					return
				}
			}
		}))
		for at := range x.rows {
			x.rows[at].tokens = 1 + x.rows[at].tokens/rapid.IntRange(1, 9).Draw(t, "too low by")
		}
		o := Options{Now: time.Unix(1e9, 0), Tokens: rapid.IntRange(-1, 1500).Draw(t, "tokens"), MaxBullets: rapid.IntRange(0, 50).Draw(t, "most")}
		s := x.Select(o)
		if got := chat.Tokens(x.render(s.Bullets)); got > max(0, o.Tokens) || got != s.Tokens {
			t.Fatalf("%d tokens of %d, %d said", got, o.Tokens, s.Tokens)
		}
		left := 0
		for _, l := range s.Left {
			left += l.Count
		}
		if left+len(s.Bullets) != len(x.rows) {
			t.Fatalf("%d shown and %d left out of %d", len(s.Bullets), left, len(x.rows))
		}
	})
}

func TestUpdateReadsChangedBullets(t *testing.T) {
	t.Parallel()
	x := NewIndex(false)
	for i, b := range []playbook.Bullet{
		{ID: "b", Section: "s", Content: "one"}, {ID: "b", Section: "s", Content: "two three", Pinned: true}, {ID: "b", Section: "t", Content: "two three"},
	} {
		x.Update(playbook.Restore(uint64(i), 0, slices.Values([]*playbook.Bullet{&b})))
		fresh := NewIndex(false)
		fresh.Update(playbook.Restore(uint64(i), 0, slices.Values([]*playbook.Bullet{&b})))
		got, want := x.rows[0], fresh.rows[0]
		got.round = want.round
		if !reflect.DeepEqual(got, want) || !reflect.DeepEqual(x.sectionIDs, fresh.sectionIDs) || !reflect.DeepEqual(x.sections, fresh.sections) {
			t.Errorf("change %d: got %+v in %+v, want %+v in %+v", i, got, x.sections, want, fresh.sections)
		}
	}
}

// TestListsAreConsistent checks all lists and counts of an index against its rows, after random updates.
func TestListsAreConsistent(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(false)
		for version := range rapid.Uint64Range(1, 8).Draw(t, "versions") {
			p := playbook.Restore(version, 0, func(yield func(*playbook.Bullet) bool) {
				for i := range 12 {
					b := &playbook.Bullet{
						ID: playbook.MintID("s", uint64(i+1)), Section: rapid.SampledFrom([]string{"s", "t"}).Draw(t, "section"), Content: "advice",
						Status: rapid.SampledFrom([]playbook.Status{playbook.Active, playbook.Probation}).Draw(t, "status"),
						Pinned: rapid.IntRange(0, 3).Draw(t, "pinned") == 0, Helpful: rapid.IntRange(0, 1).Draw(t, "helpful"),
					}
					if rapid.Bool().Draw(t, "experiment") {
						b.Experiment = &playbook.Experiment{Number: 1, Standing: rapid.SampledFrom([]playbook.Standing{
							"", playbook.StandingNew, playbook.StandingSuspect, playbook.StandingTrusted, playbook.StandingProven, playbook.StandingKept,
						}).Draw(t, "standing")}
						b.Experiment.Cited[3] = rapid.IntRange(0, 1).Draw(t, "outcomes")
					}
					if rapid.IntRange(0, 2).Draw(t, "dropped") > 0 && !yield(b) {
						return
					}
				}
			})
			p.SetGate(rapid.SampledFrom([]playbook.Gate{"", playbook.GateOff, playbook.GateStrict}).Draw(t, "gate"))
			x.Update(p)
			checkLists(t, x)
		}
	})
}

func checkLists(t *rapid.T, x *Index) {
	shares, sections, tokens := map[int]int{}, map[string]int{}, 0
	var members [rowKinds][]int32
	untried := map[uint32][]int32{}
	for at := range x.rows {
		at := int32(at)
		b := x.rows[at].bullet
		if x.rowOf[b.ID] != at {
			t.Fatalf("%s is row %d, want %d", b.ID, x.rowOf[b.ID], at)
		}
		if share := shareOf(b); share > 0 {
			shares[share]++
		}
		if b.Pinned {
			members[pinnedRows] = append(members[pinnedRows], at)
		}
		if b.Status == playbook.Probation {
			members[probationRows] = append(members[probationRows], at)
		}
		if !b.Pinned && isUntried(b) {
			bucket := x.rows[at].hash % buckets
			untried[bucket] = append(untried[bucket], at)
		}
		section := b.Section
		if !b.Established() {
			section = newerSection
		}
		sections[section]++
		tokens += x.rows[at].tokens
	}
	if !maps.Equal(shares, x.shares) || tokens != x.tokens || len(x.rowOf) != len(x.rows) {
		t.Fatalf("got shares %v, %d tokens, %d ids, want %v, %d, %d", x.shares, x.tokens, len(x.rowOf), shares, tokens, len(x.rows))
	}
	for name, rows := range sections {
		if at, some := x.sectionIDs[name]; !some || x.sections[at].rows != rows || x.sections[at].name != name {
			t.Fatalf("section %q: got %+v, want %d rows", name, x.sections, rows)
		}
	}
	if len(x.sectionIDs) != len(sections) {
		t.Fatalf("got sections %v, want %v", x.sectionIDs, sections)
	}
	equal := func(name string, got, want []int32) {
		if !slices.Equal(slices.Sorted(slices.Values(got)), want) {
			t.Fatalf("%s: got rows %v, want %v", name, got, want)
		}
	}
	for list := range untriedRows {
		equal(fmt.Sprint("list ", list), x.lists[list], members[list])
		for i, at := range x.lists[list] {
			if x.rows[at].places[list] != int32(i+1) {
				t.Fatalf("list %d: row %d is at %d, want %d", list, at, x.rows[at].places[list], i+1)
			}
		}
	}
	for bucket, rows := range x.untried {
		equal(fmt.Sprint("bucket ", bucket), rows, untried[uint32(bucket)])
	}
}

// TestEmptySectionsAreReused checks that renaming sections does not grow the index.
func TestEmptySectionsAreReused(t *testing.T) {
	t.Parallel()
	x := NewIndex(false)
	for i := range 20 {
		x.Update(playbook.Restore(uint64(i), 0, slices.Values([]*playbook.Bullet{
			{ID: "b", Section: strings.Repeat("s", i), Content: "one"}, {ID: playbook.BulletID(strings.Repeat("c", i+1)), Section: strings.Repeat("t", i+1), Content: "one"},
		})))
	}
	if len(x.sections) > 4 || len(x.sectionIDs) != 2 {
		t.Errorf("%d places and %d names for 2 sections", len(x.sections), len(x.sectionIDs))
	}
}

// TestSimilarityEqualsDefinition compares with a direct implementation on sets of words.
func TestSimilarityEqualsDefinition(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom(strings.Fields("a b c D 7 x8 e f g h i j k l m n o 令 牌"))
	rapid.Check(t, func(t *rapid.T) {
		texts := [2]string{}
		sets := [2]map[string]bool{{}, {}}
		figures := [2]map[string]bool{{}, {}}
		words := rapid.SliceOfN(word, 0, 16).Draw(t, "words")
		for i := range texts {
			for range i * rapid.IntRange(0, 5).Draw(t, "changes") {
				if at := rapid.IntRange(0, len(words)).Draw(t, "at"); at < len(words) && rapid.Bool().Draw(t, "deleted") {
					words = slices.Delete(words, at, at+1)
				} else {
					words = slices.Insert(words, at, word.Draw(t, "word"))
				}
			}
			texts[i] = strings.Join(words, rapid.SampledFrom([]string{" ", ", ", "\n", " -- "}).Draw(t, "between"))
			for _, w := range words {
				sets[i][strings.ToLower(w)] = true
				if strings.ContainsAny(w, "78") {
					figures[i][w] = true
				}
			}
		}
		both, either := 0, maps.Clone(sets[0])
		for w := range sets[1] {
			if sets[0][w] {
				both++
			}
			either[w] = true
		}
		want := maps.Equal(figures[0], figures[1]) && both > 0 && float64(both)/float64(len(either)) > 0.75
		v, w := newWordSet(texts[0]), newWordSet(texts[1])
		if got := v.nearlyEquals(w); got != want || got != w.nearlyEquals(v) {
			t.Fatalf("%q and %q: got %v and %v, want %v", texts[0], texts[1], got, w.nearlyEquals(v), want)
		}
	})
}

func FuzzWording(f *testing.F) {
	f.Add("check the page token", "check the\xffpage 令牌 7")
	f.Add("", strings.Repeat("令", maxRead))
	f.Fuzz(func(t *testing.T, a, b string) {
		v, w := newWordSet(a), newWordSet(b)
		if got := v.nearlyEquals(w); got != w.nearlyEquals(v) {
			t.Errorf("got %v, in the other order %v", got, !got)
		}
		if !v.nearlyEquals(newWordSet(a)) && len(v.words) > 0 {
			t.Errorf("%q differs from itself", a)
		}
	})
}

// TestRenderedTokensEqualTokensOfRendering compares the sum of the costs with the tokens of the rendered text.
func TestRenderedTokensEqualTokensOfRendering(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := NewIndex(rapid.Bool().Draw(t, "votes"))
		newest := rapid.SampledFrom([]string{"none", "some", "all"}).Draw(t, "newer bullets")
		x.Update(playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
			for i := range rapid.IntRange(0, 8).Draw(t, "bullets") {
				b := &playbook.Bullet{
					ID: playbook.BulletID(fmt.Sprint(i, drawText.Draw(t, "id"))), Section: drawText.Draw(t, "section"),
					Content: drawText.Draw(t, "content"), Helpful: rapid.IntRange(0, 2000).Draw(t, "helpful"),
				}
				if newest == "all" || newest == "some" && rapid.Bool().Draw(t, "newer") {
					b.Experiment = &playbook.Experiment{Standing: playbook.StandingNew}
				}
				if !yield(b) {
					return
				}
			}
		}))
		rows := make([]int32, len(x.rows))
		for at := range rows {
			rows[at] = int32(at)
		}
		slices.SortFunc(rows, x.byPlace)
		bullets := make([]*playbook.Bullet, len(rows))
		for i, at := range rows {
			bullets[i] = x.rows[at].bullet
		}
		if got, want := x.renderedTokens(rows), chat.Tokens(x.render(bullets)); got != want {
			t.Fatalf("%d tokens, %d rendered: %q", got, want, x.render(bullets))
		}
	})
}
