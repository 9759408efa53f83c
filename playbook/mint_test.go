package playbook_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"debrief/playbook"
)

// TestNewBulletsHaveUniqueIDs: after imports of bullets with any numbers, and after removals.
func TestNewBulletsHaveUniqueIDs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(
			rapid.Uint64(), rapid.Uint64Range(0, 20), rapid.Uint64Range(playbook.MaxNumber-3, playbook.MaxNumber+20),
			rapid.Uint64Range(playbook.MaxNumber-1_000_000_000_003, playbook.MaxNumber-1_000_000_000_000+3),
		)
		var p playbook.Playbook
		apply := func(op playbook.Op) {
			d := playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{op}, Time: time.Unix(1, 0)}
			if p.Version() > 0 {
				d.PrevChain = []byte{1}
			}
			if err := d.Validate(); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Apply(&d); err != nil {
				t.Fatal(err)
			}
		}
		ever := map[playbook.BulletID]bool{}
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				id := playbook.BulletID(fmt.Sprintf("%s-%d", rapid.SampledFrom([]string{"misc", "zz"}).Draw(t, "slug"), number.Draw(t, "number")))
				if !ever[id] && id.CheckNumber() == nil {
					ever[id] = true
					apply(playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{ID: id, Section: "others", Content: "x"}})
				}
			case 1:
				for b := range p.All() {
					apply(playbook.Op{Kind: playbook.Remove, Bullet: b.ID})
					break
				}
			default:
				id := playbook.MintID("others", p.LastMinted()+1)
				if ever[id] {
					t.Fatalf("step %d mints %s, which was used before", i, id)
				}
				apply(playbook.Op{Kind: playbook.Add, Bullet: id, Section: "others", Content: fmt.Sprint(i)})
				if p.Bullet(id) == nil || len(p.DuplicateAdds()) > 0 {
					t.Fatalf("step %d: %s was not added", i, id)
				}
				ever[id] = true
			}
		}
	})
}

func TestCheckForeignRejectsLargeNumbers(t *testing.T) {
	t.Parallel()
	for id, refused := range map[playbook.BulletID]bool{
		"zz-1000000000000000": true, "zz-0999999999999999": true, "zz-999000000000001": true,
		"zz-999000000000000": false, "zz-1": false, "zz": false, "zz-1700000000000000001": false, "zz-99999999999999999999999": false,
	} {
		if err := id.CheckNumber(); (err != nil) != refused {
			t.Errorf("%s: got error %v, want an error: %t", id, err, refused)
		}
	}
}

// TestTakenReturnsAddsOfExistingBullets: such an Add changes nothing, and Taken reports it.
func TestTakenReturnsAddsOfExistingBullets(t *testing.T) {
	t.Parallel()
	var p playbook.Playbook
	add := playbook.Op{Kind: playbook.Add, Bullet: "misc-00001", Section: "others", Content: "first"}
	again := add
	again.Content = "second"
	if _, err := p.Apply(&playbook.Delta{Version: 1, Ops: []playbook.Op{add, again}}); err != nil {
		t.Fatal(err)
	}
	if got := p.DuplicateAdds(); len(got) != 1 || got[0] != "misc-00001" || p.Bullet("misc-00001").Content != "first" {
		t.Errorf("got %v and content %q, want the id and the old content", got, p.Bullet("misc-00001").Content)
	}
	if _, err := p.Apply(&playbook.Delta{Version: 2}); err != nil || len(p.DuplicateAdds()) > 0 {
		t.Errorf("after the next delta: %v, %v", p.DuplicateAdds(), err)
	}
}
