package history_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// TestARestoreDoesNotBringBackWhatIsForgotten, nor shows what a forgetting quarantined.
func TestARestoreDoesNotBringBackWhatIsForgotten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := draw(t, everything)
		before := k.newest()
		s := drawSelector(t, k)
		k.forget(s, 1)
		for range rapid.IntRange(0, 3).Draw(t, "later") {
			k.step(t, everything)
		}
		k.restore(rapid.Uint64Range(0, before).Draw(t, "back to"), rapid.IntRange(1, 2).Draw(t, "parts"))
		checkStanding(t, k, playbook.Selector{Source: "nowhere"}, &k.p)
		equal(t, k, "and the log says so", &k.p, k.without(playbook.Selector{Source: "nowhere"}).Playbook)
	})
}

// TestRestoresAgreeWithAListOfStates: undo and redo are restores. What was removed comes back by one and in no other
// way, and no number is given to a second bullet.
func TestRestoresAgreeWithAListOfStates(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newDesk(t)
		x := everything
		x.restores, x.forgets = false, false
		made := map[playbook.BulletID]string{} // what an ADD made
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			last, was, before := k.p.LastMinted(), bulletsOf(&k.p), k.newest()
			back := rapid.Bool().Draw(t, "restore")
			if back {
				v := rapid.Uint64Range(0, k.newest()).Draw(t, "version")
				k.restore(v, rapid.IntRange(1, 2).Draw(t, "parts"))
				equal(t, k, fmt.Sprintf("restored version %d", v), k.states[v], &k.p)
			} else {
				k.step(t, x)
			}
			if k.p.LastMinted() < last {
				t.Fatalf("the highest number minted fell from %d to %d", last, k.p.LastMinted())
			}
			for _, op := range opsOf(whole(k.deltas[before:])) {
				if op.Kind == playbook.Add {
					if made[op.Bullet] != "" {
						t.Fatalf("%s was made twice", op.Bullet)
					}
					made[op.Bullet] = op.Content
				}
			}
			for id := range bulletsOf(&k.p) {
				if _, there := was[id]; !there && !back && made[id] == "" {
					t.Fatalf("%s came back by itself", id)
				}
			}
			if id := playbook.MintID("others", k.p.LastMinted()+1); made[id] != "" {
				t.Fatalf("the next id, %s, has been there before", id)
			}
		}
	})
}

func opsOf(deltas []*playbook.Delta) (ops []playbook.Op) {
	for _, d := range deltas {
		ops = append(ops, d.Ops...)
	}
	return ops
}

// TestTowardsLeadsThere: what Towards says, applied, is the other state, and Between sees the same from both sides.
func TestTowardsLeadsThere(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := draw(t, everything).p, draw(t, everything).p
		there := from.Clone()
		if _, err := there.Apply(&playbook.Delta{Version: from.Version() + 1, Ops: history.Towards(&from, &to)}); err != nil {
			t.Fatal(err)
		}
		equal(t, nil, "from one state towards another", &to, there)
		if there.LastMinted() < from.LastMinted() {
			t.Fatal("numbers are free again")
		}
		back := history.Between(&to, &from)
		for i, d := range history.Between(&from, &to) {
			if i >= len(back) || back[i].Was != d.Is || back[i].Is != d.Was || back[i].ID() != d.ID() {
				t.Fatalf("from the other side, difference %d is not the same", i)
			}
		}
		if n := len(history.Towards(&to, &to)); n > 0 || len(back) > len(history.Towards(&from, &to)) {
			t.Fatalf("%d operations from a state to itself, %d for %d differences", n, len(history.Towards(&from, &to)), len(back))
		}
	})
}

func TestAVersionThatDoesNotExist(t *testing.T) {
	t.Parallel()
	k := newDesk(t)
	k.edit("ann")
	k.do(playbook.Op{Kind: playbook.Add, Content: "one", Support: []int{0}})
	k.commit(1)
	_, newest, err := history.At(k.log, 2)
	if err == nil || err.Error() != "there is no version 2: the newest is 1" || newest != 1 {
		t.Errorf("got %v, newest %d", err, newest)
	}
	if p := k.at(0); p.Len() != 0 {
		t.Errorf("version 0 has %d bullets", p.Len())
	}
}
