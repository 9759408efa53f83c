package assembly

import (
	"math"
	"slices"
	"strings"
	"testing"

	"debrief/events"
)

func TestExplainScoresWindow(t *testing.T) {
	t.Parallel()
	list := session(6, strings.Repeat("a long answer about the shelves of the library ", 30))
	list[5].Question = "Why does the import fail with an error?"
	in := Input{
		Window: list, Query: "and the next one?", Explain: true,
		Marks:   []events.MarkedInteraction{{Mark: events.Pin, Interaction: *list[1]}},
		Similar: func(text string) float64 { return float64(strings.Count(text, "error")) / 2 },
	}
	limits := Limits{Window: 5, Texts: AllText, Conversation: 800}
	c := assemble(t, in, limits)
	if len(c.WindowScores) == 0 {
		t.Fatal("got no scores")
	}
	shown, hidden := 0, 0
	for _, s := range c.WindowScores {
		if sum := s.Recency + s.Flags + s.Semantic + s.Source; math.Abs(sum-s.Total) > 1e-9 {
			t.Errorf("%s %s: got a total of %v, want the sum %v", s.Kind, s.Ref, s.Total, sum)
		}
		in := slices.ContainsFunc(c.Manifest.Parts, func(p events.Part) bool { return p.Ref == s.Ref && p.Kind == s.Kind })
		if in != s.Shown {
			t.Errorf("%s %s: shown is %t, but the manifest says %t", s.Kind, s.Ref, s.Shown, in)
		}
		if !s.Shown && s.Why == "" {
			t.Errorf("%s %s: not shown without a reason", s.Kind, s.Ref)
		}
		if s.Shown {
			shown++
		} else {
			hidden++
		}
		if s.Kind == events.PartUser && strings.HasPrefix(s.Ref, string(list[5].Execution)) && (s.Semantic == 0 || s.Flags == 0) {
			t.Errorf("got %+v, want a similarity and the flag of an error", s)
		}
	}
	if shown == 0 || hidden == 0 {
		t.Errorf("got %d shown and %d hidden items, want both", shown, hidden)
	}
	pinned := func(s events.WindowScore) bool { return s.Why == whyPinned }
	if !slices.ContainsFunc(c.WindowScores, pinned) {
		t.Errorf("got %+v, want the pinned turn with its reason", c.WindowScores)
	}

	in.Explain = false
	plain := assemble(t, in, limits)
	if plain.WindowScores != nil || !slices.EqualFunc(plain.Manifest.Parts, c.Manifest.Parts, func(a, b events.Part) bool { return a == b }) {
		t.Error("the explanation changes the context")
	}
}
