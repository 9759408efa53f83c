package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/cmd/internal/components"

	"pgregory.net/rapid"
)

// anyReport generates valid and invalid points.
func anyReport(t *rapid.T) *Report {
	n := rapid.SampledFrom([]int{0, 1, 2, 5, 50, 1500}).Draw(t, "points")
	r := &Report{Best: Book{Step: rapid.IntRange(-1, 5000).Draw(t, "best")}}
	step, epoch := 0, 0
	most := rapid.SampledFrom([]int{1, 8, 1000, 1_000_000}).Draw(t, "step")
	every := rapid.SampledFrom([]int{1, 10, 1000}).Draw(t, "epoch")
	for i := range n {
		if i%every == 0 {
			epoch++
		}
		step += rapid.IntRange(0, most).Draw(t, "step")
		s := Score{N: rapid.IntRange(0, 40).Draw(t, "n")}
		s.Right = rapid.IntRange(0, s.N).Draw(t, "right")
		if s.N > 0 {
			s.Accuracy = float64(s.Right) / float64(s.N)
		}
		r.Points = append(r.Points, Point{
			Epoch: epoch, Step: step, Score: s,
			Set:  rapid.SampledFrom([]string{"train", "train", "validation", "test", "?"}).Draw(t, "set"),
			Book: Book{Bullets: rapid.IntRange(-1, 10_000).Draw(t, "bullets"), Tokens: rapid.IntRange(0, 3_000_000).Draw(t, "tokens")},
		})
	}
	return r
}

func TestMarksAreInThePlotAndInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := anyReport(t)
		c := newCurve(r)
		for _, ch := range []*components.Chart{c.accuracyChart(r, "wide", 720, 330), c.accuracyChart(r, "narrow", 340, 260), c.sizeChart("Bullets", c.Bullets), c.sizeChart("Tokens", c.Tokens)} {
			if ch.Left <= 0 || ch.Right >= ch.Width || ch.Top <= 0 || ch.Bottom >= ch.Height {
				t.Fatalf("the plot %v is not in its picture", ch)
			}
			inside := func(x, y float64) bool { return x >= ch.Left && x <= ch.Right && y >= ch.Top && y <= ch.Bottom }
			for _, l := range ch.Lines {
				if len(l.Marks) > maxMarks {
					t.Fatalf("%s: got %d marks, want at most %d", l.Name, len(l.Marks), maxMarks)
				}
				var path strings.Builder
				for i, m := range l.Marks {
					if m.HasInterval() && (m.YHigh > m.Y || m.YLow < m.Y || !inside(m.X, m.YLow) || !inside(m.X, m.YHigh)) {
						t.Fatalf("%s: the interval of mark %+v does not contain it", l.Name, m)
					}
					if !inside(m.X, m.Y) {
						t.Fatalf("%s: mark %+v is outside of the plot", l.Name, m)
					}
					if i > 0 && (m.X < l.Marks[i-1].X || m.Step < l.Marks[i-1].Step) {
						t.Fatalf("%s: mark %+v is before %+v", l.Name, m, l.Marks[i-1])
					}
					if i == 0 {
						fmt.Fprintf(&path, "M%g %g", m.X, m.Y)
					} else {
						fmt.Fprintf(&path, "H%gV%g", m.X, m.Y)
					}
				}
				if want := path.String(); l.Class != "size" && l.Path != "" || l.Class == "size" && l.Path != want {
					t.Fatalf("%s: got the line %q, want steps %q for a size and none for accuracies", l.Name, l.Path, want)
				}
			}
			for i, k := range ch.YTicks {
				if k.At < ch.Top || k.At > ch.Bottom || i > 0 && k.At >= ch.YTicks[i-1].At {
					t.Fatalf("tick %+v of %+v", k, ch.YTicks)
				}
			}
			for i, k := range ch.XTicks {
				if k.At < ch.Left || k.At > ch.Right || i > 0 && k.At-ch.XTicks[i-1].At < 25 {
					t.Fatalf("tick %+v of %+v is outside, or on the one before", k, ch.XTicks)
				}
			}
			if len(ch.YTicks) < 2 || len(ch.YTicks) > 6 || len(ch.XTicks) < 2 || len(ch.XTicks) > 9 {
				t.Fatalf("got %d and %d ticks, want a few", len(ch.YTicks), len(ch.XTicks))
			}
		}
	})
}

func TestPoolingCountsEverySampleOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		points := slices.DeleteFunc(anyReport(t).Points, func(p Point) bool { return p.Score.N == 0 })
		n, right, of := 0, 0, map[int]int{}
		for _, p := range points {
			n, right = n+p.Score.N, right+p.Score.Right
			of[p.Epoch] += p.Score.N
		}
		pooled, _ := pool(points)
		for _, p := range pooled {
			n, right = n-p.Score.N, right-p.Score.Right
			if p.Score.N < min(fewSamples, of[p.Epoch]) {
				t.Fatalf("a mark rests on %d samples, and its epoch has %d", p.Score.N, of[p.Epoch])
			}
			if want := float64(p.Score.Right) / float64(p.Score.N); p.Score.Accuracy != want {
				t.Fatalf("got an accuracy of %v for %d of %d", p.Score.Accuracy, p.Score.Right, p.Score.N)
			}
		}
		if n != 0 || right != 0 {
			t.Fatalf("%d samples and %d right ones are lost", n, right)
		}
	})
}

func TestMarkHeights(t *testing.T) {
	t.Parallel()
	r := &Report{}
	for i, right := range []int{0, 25, 50, 100} {
		r.Points = append(r.Points, Point{Step: i * 100, Set: "validation", Score: Score{N: 100, Right: right, Accuracy: float64(right) / 100}})
	}
	ch := newCurve(r).accuracyChart(r, "", 720, 330)
	for i, m := range ch.Lines[0].Marks {
		if tick := ch.YTicks[[]int{0, 1, 2, 4}[i]]; m.Y != tick.At || tick.Label != fmt.Sprintf("%g %%", m.Value) {
			t.Errorf("got %+v, want it on the line of tick %+v", m, tick)
		}
	}
	if first, last := ch.Lines[0].Marks[0], ch.Lines[0].Marks[3]; first.X != ch.Left || last.X != ch.Right {
		t.Errorf("got a line from %v to %v, want the whole width %v to %v", first.X, last.X, ch.Left, ch.Right)
	}
}

func TestBeforeAndAfterAreOnTheCurve(t *testing.T) {
	t.Parallel()
	r := example()
	c := newCurve(r)
	if len(c.Test) != 2 || c.Test[0].Step != 0 || c.Test[1].Step != r.Best.Step || c.Test[1].Value != 100*r.After.Accuracy {
		t.Errorf("got %+v, want the test set at 0 and at the best playbook", c.Test)
	}
	r.Points = append(r.Points, Point{Step: 500, Set: "test", Score: *r.After})
	if c := newCurve(r); len(c.Test) != 1 || c.Test[0].Step != 500 {
		t.Errorf("got %+v, want what was measured, once", c.Test)
	}
}

func TestEpochsOnTheAxis(t *testing.T) {
	t.Parallel()
	r := example()
	ch := newCurve(r).accuracyChart(r, "", 720, 330)
	var got []string
	for i, e := range ch.Spans {
		got = append(got, e.Label)
		if want := ch.X(i * 200); e.At != want {
			t.Errorf("%s begins at %v, want %v", e.Label, e.At, want)
		}
	}
	if want := []string{"epoch 1", "epoch 2", "epoch 3", "epoch 4", "epoch 5"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestSizesBeginWithTheirPlaybook: the playbook of a training batch exists since the end of the batch before.
func TestSizesBeginWithTheirPlaybook(t *testing.T) {
	t.Parallel()
	r := &Report{
		Points: []Point{
			{Step: 0, Set: "test", Book: Book{}},
			{Step: 32, Set: "train", Book: Book{}},
			{Step: 60, Set: "train", Book: Book{Version: 1, Bullets: 3, Step: 32}},
			{Step: 60, Set: "validation", Book: Book{Version: 2, Bullets: 9, Step: 60}},
		},
		Final: Book{Version: 2, Bullets: 9, Step: 60},
	}
	var got []string
	for _, m := range newCurve(r).Bullets {
		got = append(got, fmt.Sprintf("%d: %g", m.Step, m.Value))
	}
	if want := []string{"0: 0", "32: 3", "60: 9"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
