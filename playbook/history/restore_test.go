package history_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// A restore neither brings back forgotten content nor shows bullets that a forget change quarantined.
func TestRestoreKeepsForgettings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := drawLog(t, allExtras)
		before := k.newest()
		s := drawSelector(t, k)
		k.forget(s, 1)
		for range rapid.IntRange(0, 3).Draw(t, "later") {
			k.step(t, allExtras)
		}
		k.restore(rapid.Uint64Range(0, before).Draw(t, "back to"), rapid.IntRange(1, 2).Draw(t, "parts"))
		checkShownContent(t, k, playbook.Selector{Source: "nowhere"}, &k.p)
		requireEqual(t, k, "folded from the log", &k.p, k.without(playbook.Selector{Source: "nowhere"}).Playbook)
	})
}

// The model is a list of states. Only a restore brings back removed bullets, and no id is used for two bullets.
func TestRestoreMatchesModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k := newLogWriter(t)
		x := allExtras
		x.restores, x.forgets = false, false
		made := map[playbook.BulletID]string{} // content by ADD
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			last, was, before := k.p.LastMinted(), bulletsOf(&k.p), k.newest()
			back := rapid.Bool().Draw(t, "restore")
			if back {
				v := rapid.Uint64Range(0, k.newest()).Draw(t, "version")
				k.restore(v, rapid.IntRange(1, 2).Draw(t, "parts"))
				requireEqual(t, k, fmt.Sprintf("restored version %d", v), k.states[v], &k.p)
			} else {
				k.step(t, x)
			}
			if k.p.LastMinted() < last {
				t.Fatalf("the highest number minted fell from %d to %d", last, k.p.LastMinted())
			}
			for _, op := range opsOf(wholeChanges(k.deltas[before:])) {
				if op.Kind == playbook.Add {
					if made[op.Bullet] != "" {
						t.Fatalf("%s was made twice", op.Bullet)
					}
					made[op.Bullet] = op.Content
				}
			}
			for id := range bulletsOf(&k.p) {
				if _, there := was[id]; !there && !back && made[id] == "" {
					t.Fatalf("%s came back without a restore", id)
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

// The operations of Towards, applied, give the other state. Between finds the same differences in both directions.
func TestTowardsReachesTheState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		from, to := drawLog(t, allExtras).p, drawLog(t, allExtras).p
		there := from.Clone()
		if _, err := there.Apply(&playbook.Delta{Version: from.Version() + 1, Ops: history.OpsBetween(&from, &to)}); err != nil {
			t.Fatal(err)
		}
		requireEqual(t, nil, "from one state towards another", &to, there)
		if there.LastMinted() < from.LastMinted() {
			t.Fatal("numbers are free again")
		}
		back := history.Diff(&to, &from)
		for i, d := range history.Diff(&from, &to) {
			if i >= len(back) || back[i].Before != d.After || back[i].After != d.Before || back[i].ID() != d.ID() {
				t.Fatalf("reversed, difference %d is not the same", i)
			}
		}
		if n := len(history.OpsBetween(&to, &to)); n > 0 || len(back) > len(history.OpsBetween(&from, &to)) {
			t.Fatalf("%d operations from a state to itself, %d for %d differences", n, len(history.OpsBetween(&from, &to)), len(back))
		}
	})
}

func TestAtUnknownVersion(t *testing.T) {
	t.Parallel()
	k := newLogWriter(t)
	k.edit("ann")
	k.propose(playbook.Op{Kind: playbook.Add, Content: "one", Support: []int{0}})
	k.commit(1)
	_, newest, err := history.StateAt(k.log, 2)
	missing := (*history.VersionNotFoundError)(nil)
	if !errors.As(err, &missing) || missing.Version != 2 || missing.Newest != 1 || newest != 1 {
		t.Errorf("got %v, newest %d", err, newest)
	}
	if p := k.at(0); p.Len() != 0 {
		t.Errorf("version 0 has %d bullets", p.Len())
	}
}
