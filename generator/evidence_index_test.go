package generator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// cover returns the cover of an execution.
func cover(sample, question string) playbook.Cover {
	of := &playbook.Evidence{Execution: "1-" + sample, Sample: sample, Session: "s-" + sample, Owner: "o-" + sample, User: "u-" + sample, Excerpt: question}
	return playbook.Cover{ID: sample, Evidence: of}
}

func found(x *evidenceIndex, query string) string {
	var all []string
	for _, h := range x.Nearest(query, 10) {
		text := fmt.Sprintf("%s %.2f", h.Bullet, h.Score)
		if h.Applies != h.Score {
			text += fmt.Sprintf(" applies %.2f", h.Applies)
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func addOp(id playbook.BulletID, support ...int) playbook.Op {
	return playbook.Op{Kind: playbook.Add, Bullet: id, Support: support}
}

// cited returns the outcome of a task that cited a bullet.
func cited(id playbook.BulletID, score, support int) playbook.Op {
	return playbook.Op{Kind: playbook.AddExposures, Bullet: id, Support: []int{support}, Exposures: []playbook.Exposure{{Arm: playbook.ArmOpen, Score: score, Cited: true}}}
}

func vote(id playbook.BulletID, helpful, harmful int, support ...int) playbook.Op {
	return playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: helpful, Harmful: harmful, Support: support}
}

// TestSupport checks which operations link a bullet to a task.
func TestSupport(t *testing.T) {
	t.Parallel()
	taxi, hotel := cover("t1", "taxi to the airport"), cover("h1", "two nights in a hotel")
	edit := playbook.Cover{ID: "e1"}
	learned := &playbook.Delta{Covers: []playbook.Cover{taxi, hotel, edit}, Ops: []playbook.Op{addOp("a", 0), addOp("b", 1), addOp("c", 2)}}
	for _, tt := range []struct {
		name string
		more []*playbook.Delta
		want map[string]string // by query
	}{
		{"learned from", nil, map[string]string{"a taxi": "a 1.00", "a hotel, five nights": "b 1.00", "lunch": ""}},
		{
			"helped",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{vote("a", 1, 0, 0)}}},
			map[string]string{"which cab": "a 1.00"},
		},
		{
			"harmed",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{vote("a", 0, 1, 0)}}},
			map[string]string{"which cab": ""},
		},
		{
			"cited without success",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{cited("a", 0, 0)}}},
			map[string]string{"which cab": "a 0.00 applies 1.00", "a taxi": "a 1.00"},
		},
		{
			"cited with success",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{vote("a", 1, 0, 0), cited("a", 10, 0)}}},
			map[string]string{"which cab": "a 1.00"},
		},
		{
			"withheld",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{{
				Kind: playbook.AddExposures, Bullet: "a", Support: []int{0}, Exposures: []playbook.Exposure{{Arm: playbook.ArmWithheld}},
			}}}},
			map[string]string{"which cab": ""},
		},
		{
			"later feedback changes the outcome of a citation",
			[]*playbook.Delta{
				{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{vote("a", 1, 0, 0), cited("a", 10, 0)}},
				{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{
					{Kind: playbook.Retag, Bullet: "a", OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}},
					{Kind: playbook.AddExposures, Bullet: "a", Support: []int{0, 0}, Exposures: []playbook.Exposure{
						{Arm: playbook.ArmOpen, Cited: true, Score: 10, Undo: true}, {Arm: playbook.ArmOpen, Cited: true},
					}},
				}},
			},
			map[string]string{"which cab": "a 0.00 applies 1.00"},
		},
		{
			"cited, and removed",
			[]*playbook.Delta{
				{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{cited("a", 0, 0)}}, {Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}},
			},
			map[string]string{"which cab": ""},
		},
		{
			"asked for again",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{{Kind: playbook.Confirm, Bullet: "a", Support: []int{0}}}}},
			map[string]string{"which cab": "a 1.00"},
		},
		{
			"rejected as a duplicate",
			[]*playbook.Delta{{
				Covers:   []playbook.Cover{cover("x", "a cab ride")},
				Rejected: []playbook.Rejection{{Op: addOp("", 0), DuplicateOf: "a"}, {Op: addOp("", 0)}},
			}},
			map[string]string{"which cab": "a 1.00"},
		},
		{
			"later feedback withdraws the vote and another adds it",
			[]*playbook.Delta{
				{Covers: []playbook.Cover{cover("x", "a cab ride"), cover("y", "a bus")}, Ops: []playbook.Op{vote("a", 1, 0, 0), vote("a", 0, 1, 1)}},
				{Covers: []playbook.Cover{cover("x", "a cab ride"), cover("y", "a bus")}, Ops: []playbook.Op{
					{Kind: playbook.Retag, Bullet: "a", OldVote: playbook.Helpful, Harmful: 1, Support: []int{0}},
					{Kind: playbook.Retag, Bullet: "a", OldVote: playbook.Harmful, Helpful: 1, Support: []int{1}},
				}},
			},
			map[string]string{"which cab": "", "which bus": "a 1.00"},
		},
		{
			"merged",
			[]*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Merge, Bullet: "a", Sources: []playbook.BulletID{"b"}}}}},
			map[string]string{"a taxi": "a 1.00", "a hotel": "a 1.00"},
		},
		{
			"removed",
			[]*playbook.Delta{{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}}},
			map[string]string{"a taxi": "", "a hotel": "b 1.00"},
		},
		{
			"forgotten by session",
			[]*playbook.Delta{{Forget: &playbook.Selector{Session: "s-t1"}}},
			map[string]string{"a taxi": "", "a hotel": "b 1.00"},
		},
		{
			"forgotten by owner",
			[]*playbook.Delta{{Forget: &playbook.Selector{Owner: "o-t1"}}},
			map[string]string{"a taxi": "", "a hotel": "b 1.00"},
		},
		{
			"forgotten by user",
			[]*playbook.Delta{{Forget: &playbook.Selector{User: "u-t1"}}},
			map[string]string{"a taxi": "", "a hotel": "b 1.00"},
		},
		{
			"a change of two deltas",
			[]*playbook.Delta{
				{ChangeID: "g", More: true, Ops: []playbook.Op{addOp("d", 0)}},
				{ChangeID: "g", Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{addOp("e", 0)}},
			},
			map[string]string{"which cab": "d 1.00, e 1.00"},
		},
		{
			"a change that was never completed",
			[]*playbook.Delta{
				{ChangeID: "g", More: true, Ops: []playbook.Op{addOp("d", 0)}},
				{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{addOp("e", 0)}},
			},
			map[string]string{"which cab": "e 1.00"},
		},
		{
			"out of range",
			[]*playbook.Delta{{Covers: []playbook.Cover{cover("x", "a cab ride")}, Ops: []playbook.Op{addOp("d", -1, 1, 0)}}},
			map[string]string{"which cab": "d 1.00"},
		},
	} {
		var x evidenceIndex
		x.applyDelta(learned)
		for _, d := range tt.more {
			x.applyDelta(d)
		}
		for query, want := range tt.want {
			if got := found(&x, query); got != want {
				t.Errorf("%s: %q: got %q, want %q", tt.name, query, got, want)
			}
		}
	}
}

// TestNearestTasksVote finds a bullet whose own words occur in no question.
func TestNearestTasksVote(t *testing.T) {
	t.Parallel()
	var x evidenceIndex
	for i := range 300 {
		kind, id := "parking near the office", playbook.BulletID("parking")
		if i%10 == 0 {
			kind, id = "dinner with the Falcon people", "client-meals"
		}
		x.applyDelta(&playbook.Delta{
			Covers: []playbook.Cover{cover(fmt.Sprint(i), fmt.Sprintf("note %d: %s, receipt attached", i, kind))},
			Ops:    []playbook.Op{vote(id, 1, 0, 0), vote("always-cited", 1, 0, 0)},
		})
	}
	hits := x.Nearest("lunch for Falcon, receipt attached", 2)
	if len(hits) != 2 || hits[0].Bullet != "client-meals" || hits[0].Score < 0.9 || hits[1].Bullet != "always-cited" {
		t.Errorf("got %v", hits)
	}
	if len(x.tasks) > 300 || len(x.bullets()) != 3 {
		t.Errorf("got %d tasks of %q", len(x.tasks), x.bullets())
	}
}

// TestBounds applies random deltas. Each bullet keeps its newest tasks, and no task without a bullet stays.
func TestBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var x evidenceIndex
		newest := map[playbook.OpKind]map[playbook.BulletID][]string{playbook.Tag: {}, playbook.AddExposures: {}} // samples, the newest last
		for n := range rapid.IntRange(0, 300).Draw(t, "deltas") {
			sample := fmt.Sprintf("task%d", n)
			id := playbook.BulletID(fmt.Sprintf("b%d", rapid.IntRange(0, 3).Draw(t, "bullet")))
			if rapid.IntRange(0, 40).Draw(t, "removed") == 0 {
				x.applyDelta(&playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: id}}})
				delete(newest[playbook.Tag], id)
				delete(newest[playbook.AddExposures], id)
				continue
			}
			ops := []playbook.Op{vote(id, 1, 0, 0)}
			if rapid.Bool().Draw(t, "failed") {
				ops = []playbook.Op{cited(id, 0, 0)}
			}
			x.applyDelta(&playbook.Delta{Covers: []playbook.Cover{cover(sample, sample)}, Ops: ops})
			newest := newest[ops[0].Kind]
			if newest[id] = append(newest[id], sample); len(newest[id]) > maxPerBullet {
				newest[id] = newest[id][1:]
			}
		}
		tasks, ids := 0, map[playbook.BulletID]bool{}
		for kind, of := range newest {
			for id, samples := range of {
				ids[id] = true
				tasks += len(samples)
				for _, s := range samples {
					isFound := func(h evidenceHit) bool {
						return h.Bullet == id && h.Applies > 0 && (h.Score > 0) == (kind == playbook.Tag)
					}
					if hits := x.Nearest(s, 5); !slices.ContainsFunc(hits, isFound) {
						t.Fatalf("%s: %s does not find %s: %v", kind, s, id, hits)
					}
				}
			}
		}
		if len(x.tasks) != tasks || len(x.bullets()) != len(ids) {
			t.Fatalf("got %d tasks of %q, want %d tasks of %d bullets", len(x.tasks), x.bullets(), tasks, len(ids))
		}
		for id := range ids {
			if got, want := x.CountApplies(id), len(newest[playbook.Tag][id])+len(newest[playbook.AddExposures][id]); got != want {
				t.Fatalf("%s: applies to %d tasks, want %d", id, got, want)
			}
		}
	})
}

// TestOldestTasksAreDropped exceeds the maximum number of tasks.
func TestOldestTasksAreDropped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second: run without -short")
	}
	t.Parallel()
	var x evidenceIndex
	again := &playbook.Delta{Covers: []playbook.Cover{cover("again", "unusual")}, Ops: []playbook.Op{vote("a", 1, 0, 0)}}
	x.applyDelta(again)
	for i := range maxEvidenceTasks + 500 {
		if i == 100 { // the task is removed with its bullet, and then younger than question99
			x.applyDelta(&playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}})
			x.applyDelta(again)
		}
		if i == maxEvidenceTasks {
			if got := found(&x, "unusual"); got != "a 1.00" {
				t.Errorf("a task that was added again: got %q", got)
			}
		}
		id := playbook.BulletID(fmt.Sprint("b", i))
		x.applyDelta(&playbook.Delta{Covers: []playbook.Cover{cover(fmt.Sprint("q", i), fmt.Sprint("question", i))}, Ops: []playbook.Op{vote(id, 1, 0, 0)}})
	}
	if len(x.tasks) != maxEvidenceTasks || len(x.bullets()) != maxEvidenceTasks {
		t.Errorf("got %d tasks of %d bullets", len(x.tasks), len(x.bullets()))
	}
	if got := found(&x, "question499"); got != "" {
		t.Errorf("a dropped task: got %q", got)
	}
	if got := found(&x, "question500"); got != "b500 1.00" {
		t.Errorf("the oldest task: got %q", got)
	}
}

// BenchmarkNearest searches a full index of questions of 40 words.
func BenchmarkNearest(b *testing.B) {
	words := strings.Fields("invoice customer discount tax fee order account list read write check retry page token limit error call answer date currency amount")
	for _, tasks := range []int{1000, maxEvidenceTasks} {
		b.Run(fmt.Sprint(tasks), func(b *testing.B) {
			var x evidenceIndex
			question := func(i int) string {
				var q strings.Builder
				for j := range 40 {
					fmt.Fprintf(&q, "%s%d ", words[(i*7+j*i+j)%len(words)], (i*j+j)%(10+j*j))
				}
				return q.String()
			}
			for i := range tasks {
				x.applyDelta(&playbook.Delta{
					Covers: []playbook.Cover{cover(fmt.Sprint(i), question(i))}, Ops: []playbook.Op{vote(playbook.BulletID(fmt.Sprint("b", i%5000)), 1, 0, 0)},
				})
			}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				x.Nearest(question(n), 200)
				n++
			}
		})
	}
}
