package generator

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"debrief/playbook"
)

// citing returns a delta in which a task cited bullets with success.
func citing(sample, question string, ids ...playbook.BulletID) *playbook.Delta {
	d := &playbook.Delta{Covers: []playbook.Cover{{ID: sample, Evidence: &playbook.Evidence{Execution: sample, Sample: sample, Excerpt: question}}}}
	for _, id := range ids {
		d.Ops = append(d.Ops, playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: 1, Support: []int{0}})
	}
	return d
}

func foldAll(deltas ...*playbook.Delta) *taskEvidence {
	e := newTaskEvidence(nil, "b")
	for _, d := range deltas {
		e.fold(d, citedTasks(d))
		e.rankSupported()
	}
	return e
}

func TestCitedTasks(t *testing.T) {
	t.Parallel()
	d := citing("x", "which account", "a", "b")
	d.Covers = append(d.Covers, playbook.Cover{ID: "edit"})
	d.Ops = append(
		d.Ops,
		playbook.Op{Kind: playbook.Tag, Bullet: "harmful", Harmful: 1, Support: []int{0}},
		playbook.Op{Kind: playbook.Add, Bullet: "learned", Support: []int{0}},
		playbook.Op{Kind: playbook.Tag, Bullet: "no-evidence", Helpful: 1, Support: []int{1}},
		playbook.Op{Kind: playbook.Tag, Bullet: "no-cover", Helpful: 1, Support: []int{-1, 2}},
	)
	want := []*citedTask{{question: "which account", bullets: []playbook.BulletID{"a", "b"}}}
	if diff := cmp.Diff(want, citedTasks(d), cmp.AllowUnexported(citedTask{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRankingBacksOffToFrequency ranks bullets that no near task supports by the number of their tasks.
func TestRankingBacksOffToFrequency(t *testing.T) {
	t.Parallel()
	e := foldAll(
		citing("1", "taxi to the airport", "rides"), citing("2", "night in Rome", "hotels"), citing("3", "night in Oslo", "hotels"),
		citing("4", "sandwich", "meals"), citing("5", "pens", "gone"), &playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "gone"}}},
	)
	for query, want := range map[string]string{
		"a taxi":       "[rides hotels meals]",
		"a locomotive": "[hotels meals rides]",
	} {
		var got []playbook.BulletID
		for _, r := range e.addSupported(e.index.Nearest(query, 10), 10) {
			got = append(got, r.Bullet)
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%s: got %s, want %s", query, got, want)
		}
	}
	if got := e.addSupported(e.index.Nearest("a taxi", 2), 2); len(got) != 2 {
		t.Errorf("got %d bullets, want 2", len(got))
	}
}

// TestTasksDoNotFindThemselves folds tasks without a word in common, each for another bullet.
func TestTasksDoNotFindThemselves(t *testing.T) {
	t.Parallel()
	e := foldAll(citing("1", "taxi", "a"), citing("2", "hotel", "b"), citing("3", "taxi", "a"))
	var got []bool
	for _, c := range e.cited {
		got = append(got, c.found...)
	}
	if want := []bool{false, false, true}; !slices.Equal(got, want) {
		t.Errorf("found: got %t, want %t", got, want)
	}
}

func TestCitedTasksAreBounded(t *testing.T) {
	t.Parallel()
	e := newTaskEvidence(nil, "b")
	for i := range 3 * maxMeasured {
		d := citing(fmt.Sprint(i), fmt.Sprint("task ", i), "a")
		e.fold(d, citedTasks(d))
	}
	if n, last := len(e.cited), e.cited[maxMeasured-1].question; n != maxMeasured || last != fmt.Sprint("task ", 3*maxMeasured-1) {
		t.Errorf("got %d tasks up to %q", n, last)
	}
}

// TestReliabilityIsMeasured compares a world in which words find the bullets with one in which they do not.
func TestReliabilityIsMeasured(t *testing.T) {
	t.Parallel()
	log := zerolog.Nop()
	ix := newPlaybookIndex(newEmbeddingCache(nil, nil, &log), false, time.Second)
	var bullets []*playbook.Bullet
	for i := range 200 {
		bullets = append(bullets, &playbook.Bullet{ID: playbook.MintID("rules", uint64(i+1)), Section: "rules", Content: fmt.Sprintf("topic%d needs care", i)})
	}
	ix.update(playbook.Restore(1, 0, slices.Values(bullets)))
	measure := func(question string) []float64 {
		var tasks []*citedTask
		for i := range 16 {
			tasks = append(tasks, &citedTask{
				question: fmt.Sprintf(question, i), bullets: []playbook.BulletID{bullets[i].ID, "removed"}, found: []bool{i%2 == 0, true},
			})
		}
		return ix.measure(context.Background(), tasks)
	}
	for _, tt := range []struct {
		name, question string
		want           []float64
	}{
		{"words", "what about topic%d", []float64{0.6, 1, unnamedReliability, 1}},
		{"no words", "other words %d", []float64{0.6, 0.2, unnamedReliability, 1}},
	} {
		if got := measure(tt.question); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}
