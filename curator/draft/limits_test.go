package draft

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// many returns a book with n bullets.
func many(n int) *draftTest {
	b := new(draftTest)
	b.p = *playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			if !yield(&playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Content: fmt.Sprint("advice ", i)}) {
				return
			}
		}
	})
	return b
}

// accounted counts the votes and rejections, so that a test can check that none is lost.
func accounted(t *testing.T, n *draftTest) (votes, adds, rejected int) {
	t.Helper()
	for _, d := range n.deltas {
		for _, op := range d.Ops {
			switch op.Kind {
			case playbook.Tag:
				votes += op.Helpful + op.Harmful + op.Neutral
			case playbook.Add:
				adds++
			}
		}
		for _, r := range d.Rejected {
			if r.Code == playbook.ReasonMore {
				rejected += r.Count
			} else {
				rejected++
			}
		}
	}
	return votes, adds, rejected
}

// TestLargeReflectionIsTruncated relies on draftTest.one, which checks each delta against the limits of the log.
func TestLargeReflectionIsTruncated(t *testing.T) {
	t.Parallel()
	const bullets = 3000
	long := strings.Repeat("long ", playbook.MaxContent/5)
	for _, test := range []struct {
		why                   string
		make                  func(*events.Reflection) (proposals []playbook.Op)
		asked                 int // votes, adds and rejections together
		votes, adds, rejected int // at least
	}{
		{"votes on thousands of bullets", func(r *events.Reflection) []playbook.Op {
			for i := range 5000 {
				r.Tags = append(r.Tags, events.BulletTag{ID: playbook.MintID("others", uint64(i+1)), Tag: events.Helpful})
			}
			return nil
		}, 5000, 800, 0, 4000},
		{"votes on thousands of ids that nobody knows, and one lesson", func(r *events.Reflection) []playbook.Op {
			for i := range 5000 {
				r.Tags = append(r.Tags, events.BulletTag{ID: playbook.BulletID(fmt.Sprint("x", i)), Tag: events.Helpful})
			}
			return []playbook.Op{add("news")}
		}, 5001, 0, 1, 5000},
		{"ids of a megabyte", func(r *events.Reflection) []playbook.Op {
			r.Tags = []events.BulletTag{{ID: playbook.BulletID(strings.Repeat("\x00", 1<<20)), Tag: events.Helpful}, {ID: "misc-00001", Tag: events.Helpful}}
			return []playbook.Op{op(playbook.Remove, playbook.BulletID(strings.Repeat("i", 1<<20)), "")}
		}, 3, 1, 0, 2},
		{"lessons of 64 KB", func(*events.Reflection) (ops []playbook.Op) {
			for i := range 10 {
				ops = append(ops, add(fmt.Sprint(i, long[:playbook.MaxContent-8])))
			}
			return ops
		}, 10, 0, 3, 1},
		{"thousands of lessons", func(*events.Reflection) (ops []playbook.Op) {
			for i := range 5000 {
				ops = append(ops, add(fmt.Sprint("lesson ", i)))
			}
			return ops
		}, 5000, 0, 700, 4000},
		{"a merge of everything into an imported bullet, which becomes a correction", func(*events.Reflection) []playbook.Op {
			op := playbook.Op{Kind: playbook.Merge, Bullet: "misc-00001", Content: "all"}
			for i := range bullets {
				op.Sources = append(op.Sources, playbook.MintID("others", uint64(i+1)))
			}
			return []playbook.Op{op}
		}, 1, 0, 1, 0},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := many(bullets)
			var r events.Reflection
			ops := test.make(&r)
			n.take(t, tagged("before", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}), reflected("big", r, ops...),
				tagged("after", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}))
			votes, adds, rejected := accounted(t, n)
			votes -= 2
			if votes+adds+rejected != test.asked {
				t.Errorf("%d asked; got %d votes, %d bullets, %d rejections", test.asked, votes, adds, rejected)
			}
			if votes < test.votes || adds < test.adds || rejected < test.rejected {
				t.Errorf("got %d votes, %d bullets, %d rejections; want at least %d, %d, %d", votes, adds, rejected, test.votes, test.adds, test.rejected)
			}
		})
	}
}

func TestLargeEditIsSplitAndAtomic(t *testing.T) {
	t.Parallel()
	n := many(3000)
	e := edited("e")
	e.Edit.Author = strings.Repeat("a", 1<<20)
	for i := range 3000 {
		e.Edit.Ops = append(e.Edit.Ops, op(playbook.Remove, playbook.MintID("others", uint64(i+1)), ""))
	}
	bad := *e
	more := *e.Edit
	more.Ops = append(slices.Clone(more.Ops), op(playbook.Remove, "nobody-00001", ""))
	more.ID = events.Hash("bad")
	bad.ID, bad.Edit = more.ID, &more
	n.take(t, &bad)
	if n.p.Len() != 3000 || len(bad.Decision.Refused) != 1 || len(n.deltas) != 1 {
		t.Fatalf("got %d bullets, %d refusals in %d deltas; want all 3000, one, and it recorded", n.p.Len(), len(bad.Decision.Refused), len(n.deltas))
	}
	n.take(t, e)
	if n.p.Len() != 0 || len(e.Decision.Refused) > 0 || len(n.deltas) < 4 {
		t.Errorf("got %d bullets and %d refusals after %d deltas; want none, none, and several", n.p.Len(), len(e.Decision.Refused), len(n.deltas))
	}
}

func TestOverflowGoesToNextDelta(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n := many(3000)
	var batch []*Item
	for i := range 256 {
		r := events.Reflection{}
		for j := range 40 {
			r.Tags = append(r.Tags, events.BulletTag{ID: playbook.MintID("others", uint64((i*40+j)%3000+1)), Tag: events.Helpful})
		}
		batch = append(batch, reflected(fmt.Sprint(i), r, add(fmt.Sprint(i, strings.Repeat(" word", 2000)))))
	}
	n.take(t, batch...)
	votes, adds, rejected := accounted(t, n)
	if rejected != 0 || votes != 256*40 || adds != 256 {
		t.Errorf("got %d votes, %d bullets, %d rejections; want %d, %d, 0: %.300q", votes, adds, rejected, 256*40, 256, n.rejected())
	}
	t.Logf("%d deltas", len(n.deltas))
}

// TestLargeReflectionGoesToNextDelta has a second reflection that fits into a delta, but not beside the first one.
func TestLargeReflectionGoesToNextDelta(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" word", 400)
	for _, test := range []struct {
		why  string
		make func(name string, from, n int) *Item
	}{
		{"votes", func(name string, from, n int) *Item {
			var r events.Reflection
			for i := range n {
				r.Tags = append(r.Tags, events.BulletTag{ID: playbook.MintID("others", uint64(from+i)), Tag: events.Helpful})
			}
			return reflected(name, r)
		}},
		{"lessons", func(name string, _, n int) *Item {
			var ops []playbook.Op
			for i := range n / 7 {
				ops = append(ops, add(fmt.Sprint(name, i, long)))
			}
			return reflected(name, events.Reflection{}, ops...)
		}},
	} {
		t.Run(test.why, func(t *testing.T) {
			t.Parallel()
			n := many(1300)
			n.take(t, test.make("first", 1, 400), test.make("second", 500, 600))
			if _, _, rejected := accounted(t, n); rejected != 0 || len(n.deltas) != 2 {
				t.Errorf("got %d rejections in %d deltas, want none in 2: %.300q", rejected, len(n.deltas), n.rejected())
			}
		})
	}
}

// TestImportWithTooHighNumberIsRefused also checks that bullets can be added after imports with high numbers.
func TestImportWithTooHighNumberIsRefused(t *testing.T) {
	t.Parallel()
	put := func(id playbook.BulletID) playbook.Op {
		return playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: "has number " + string(id)}}
	}
	n := new(draftTest)
	refused := edited("import", put("zz-1000000000000000"))
	n.take(t, refused)
	if got := refused.Decision.Refused; len(got) != 1 || !strings.HasPrefix(got[0].Text, `bullet.id: "zz-1000000000000000": `) || n.p.Len() != 0 {
		t.Errorf("got %v and %d bullets, want it refused by its field", got, n.p.Len())
	}
	n.take(t, edited("highest", put("zz-999000000000000")), edited("a timestamp", put("zz-1700000000000000000")))
	for i := range 3 {
		e := edited(fmt.Sprint("add ", i), add(fmt.Sprint("bullet of words ", i)))
		n.take(t, e)
		if len(e.Decision.Added) != 1 || n.p.Bullet(e.Decision.Added[0]) == nil {
			t.Errorf("addition %d: got %+v and no bullet", i, e.Decision)
		}
	}
	if n.p.Len() != 5 {
		t.Errorf("got %d bullets, want 5", n.p.Len())
	}
}

// TestImportWithInvisibleIDIsRefused: a reader could take the bullet for the one whose id looks the same.
func TestImportWithInvisibleIDIsRefused(t *testing.T) {
	t.Parallel()
	const id = "misc\u200b-00001"
	n := new(draftTest)
	n.seed(t, "one")
	refused := edited("import", playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: "two"}})
	n.take(t, refused)
	if got := refused.Decision.Refused; len(got) != 1 || got[0].Code != playbook.ReasonInvalid || n.p.Len() != 1 {
		t.Errorf("got %v and %d bullets, want one refusal with the code %s and 1 bullet", got, n.p.Len(), playbook.ReasonInvalid)
	}
}

// TestAddWithExistingIDIsRejected uses a number behind the bullets, as after damage to a view.
func TestAddWithExistingIDIsRejected(t *testing.T) {
	t.Parallel()
	n := new(draftTest)
	n.seed(t, "one", "two")
	behind := newDraft(&n.p, n.policy)
	behind.lastMinted = 1
	op := add("three")
	if why := behind.mint(&op); why == nil || why.Code != playbook.ReasonExists || len(behind.ops) > 0 {
		t.Errorf("got %+v and %d operations, want a reason and none", why, len(behind.ops))
	}
}

// TestReleaseContinuesInTheNextDelta checks that a gate that is off shows more bullets than one delta can change.
func TestReleaseContinuesInTheNextDelta(t *testing.T) {
	t.Parallel()
	const waiting = hardBullets + 200
	n := &draftTest{policy: Config{GateMode: playbook.GateOff}}
	n.p = *playbook.Restore(1, waiting, func(yield func(*playbook.Bullet) bool) {
		for i := range waiting {
			e := &playbook.Experiment{Number: 1, Standing: playbook.StandingNew}
			yield(&playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Content: fmt.Sprint("advice ", i), Status: playbook.Candidate, Experiment: e})
		}
	})
	n.take(t, tagged("r", events.BulletTag{ID: playbook.MintID("others", 1), Tag: events.Harmful}))
	for b := range n.p.All() {
		if !b.Shown() {
			t.Fatalf("bullet %s: got status %q", b.ID, b.Status)
		}
	}
	if len(n.deltas) != 2 {
		t.Errorf("got %d deltas, want two", len(n.deltas))
	}
}

// TestUncheckedBulletsOutliveAnEdit checks that the gate decides on more bullets than one delta can change, although an edit
// comes first.
func TestUncheckedBulletsOutliveAnEdit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const failing = 1500
	n := new(draftTest)
	n.p = *playbook.Restore(1, failing, func(yield func(*playbook.Bullet) bool) {
		for i := range failing {
			e := &playbook.Experiment{Number: 1, Standing: playbook.StandingNew, Recent: strings.Repeat("-", 10)}
			e.Cited[0] = 20
			id := playbook.MintID("others", uint64(i+1))
			n.unchecked = append(n.unchecked, id)
			yield(&playbook.Bullet{ID: id, Section: "others", Content: fmt.Sprint("advice ", i), Experiment: e})
		}
		good := &playbook.Experiment{Number: 1, Standing: playbook.StandingTrusted}
		good.Cited[playbook.MaxScore] = 1_000_000
		yield(&playbook.Bullet{ID: "good", Section: "others", Content: "good advice", Experiment: good})
	})
	n.take(t, edited("e", add("more advice")))
	for b := range n.p.All() {
		if b.Shown() != slices.Contains([]string{"good advice", "more advice"}, b.Content) {
			t.Fatalf("bullet %s: got status %q", b.ID, b.Status)
		}
	}
	if len(n.deltas) != 3 || n.deltas[0].Author == n.deltas[1].Author {
		t.Errorf("got %d deltas, want the edit and two of the gate", len(n.deltas))
	}
}
