package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// evolve applies random changes to a book, as a Curator accepts them: no two bullets have the same content.
func evolve(t *rapid.T, p *playbook.Playbook, label string) *playbook.Playbook {
	p = p.Clone()
	for i := range rapid.IntRange(0, 12).Draw(t, label) {
		do := func(op playbook.Op) {
			if _, err := p.Apply(&playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{op}, Covers: []playbook.Cover{{ID: fmt.Sprint(label, i)}}}); err != nil {
				t.Fatal(err)
			}
		}
		text := fmt.Sprintf("text %d", rapid.IntRange(0, 15).Draw(t, "text"))
		section := rapid.SampledFrom([]string{"others", "checks"}).Draw(t, "section")
		kind := rapid.SampledFrom([]string{"add", "add", "update", "remove", "status", "pin", "tag"}).Draw(t, "kind")
		id := playbook.MintID(section, p.LastMinted()+1)
		if kind == "add" {
			if p.FindByContent(text) == nil {
				do(playbook.Op{Kind: playbook.Add, Bullet: id, Section: section, Content: text})
				do(playbook.Op{Kind: playbook.Tag, Bullet: id, Helpful: 1, Support: []int{0}})
			}
			continue
		}
		if p.Len() == 0 {
			continue
		}
		b := rapid.SampledFrom(p.Sorted()).Draw(t, "bullet")
		switch {
		case kind == "tag":
			do(playbook.Op{Kind: playbook.Tag, Bullet: b.ID, Harmful: 1, Support: []int{0}})
		case kind == "update" && p.FindByContent(text) == nil:
			do(playbook.Op{Kind: playbook.Update, Bullet: b.ID, Content: text, Section: section})
		case kind == "remove":
			do(playbook.Op{Kind: playbook.Remove, Bullet: b.ID})
		case kind == "status":
			status := rapid.SampledFrom([]playbook.Status{playbook.Active, playbook.Retired, playbook.Quarantined, playbook.Candidate, playbook.Probation}).Draw(t, "status")
			do(playbook.Op{Kind: playbook.SetStatus, Bullet: b.ID, Status: status})
		case kind == "pin":
			do(playbook.Op{Kind: playbook.Pin, Bullet: b.ID, Pinned: !b.Pinned})
		}
	}
	return p
}

// adviceText describes content, section, status and pin of a bullet, as in another book with this gate.
func adviceText(b *playbook.Bullet, mode playbook.Gate) string {
	if b == nil {
		return "gone"
	}
	status := b.Status
	switch unproven := status == playbook.Candidate || status == playbook.Probation; {
	case status == "", unproven && mode != playbook.GateStrict:
		status = playbook.Active
	case unproven:
		status = playbook.Candidate
	}
	return fmt.Sprint(b.Section, "/", b.Content, "/", status, "/", b.Pinned)
}

// plainText describes a bullet without regard to a gate.
func plainText(b *playbook.Bullet) string {
	if b == nil {
		return adviceText(b, "")
	}
	if b.Shown() {
		return adviceText(b, "")
	}
	return adviceText(b, "") + "/" + string(b.Status)
}

// applyOps applies the operations of a promotion one by one, with the checks of a Curator.
func applyOps(t *rapid.T, to *playbook.Playbook, ops []playbook.Op) *playbook.Playbook {
	p := to.Clone()
	for _, op := range ops {
		b := p.Bullet(op.Bullet)
		switch {
		case op.Kind == playbook.Put && (b != nil || op.Bullet.Number() <= to.LastMinted() || op.PutBullet.ID != op.Bullet):
			t.Fatalf("%s is put in place of %v, the last number being %d", op.Bullet, b, to.LastMinted())
		case op.Kind == playbook.Put:
		case b == nil:
			t.Fatalf("%s of %s, which is not there", op.Kind, op.Bullet)
		case op.Kind == playbook.Remove && b.Pinned:
			t.Fatalf("%s is pinned and removed", op.Bullet)
		case op.Status == playbook.Probation:
			t.Fatalf("%s is put on probation", op.Bullet)
		}
		content := op.Content
		if op.PutBullet != nil {
			content = op.PutBullet.Content
		}
		if same := p.FindByContent(content); content != "" && same != nil && same.ID != op.Bullet {
			t.Fatalf("%s and %s say the same", op.Bullet, same.ID)
		}
		d := &playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{op}}
		if err := d.Validate(); d.Version > 1 && err != nil && !strings.Contains(err.Error(), "previous_chain") {
			t.Fatal(err)
		}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// Three books have a common base, and the test accounts for every bullet of them.
func TestPromotion(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := evolve(t, new(playbook.Playbook), "base")
		from, to := evolve(t, base, "from"), evolve(t, base, "to")
		still := rapid.Bool().Draw(t, "still")
		if still {
			to = base.Clone()
		}
		mode := rapid.SampledFrom([]playbook.Gate{"", playbook.GateOff, playbook.GateGuard, playbook.GateStrict}).Draw(t, "gate")
		to.SetGate(mode)
		was := to.StateHash()
		p := history.Promote(base, from, to)
		if to.StateHash() != was {
			t.Fatal("the other book was changed")
		}
		after := applyOps(t, to, p.Ops)
		if after.StateHash() != p.After.StateHash() {
			t.Fatal("After differs from the result of the operations")
		}

		left := map[playbook.BulletID]bool{}
		for _, d := range p.Skipped {
			left[d.ID()] = true
		}
		for b := range to.All() {
			learned, began, now := from.Bullet(b.ID), base.Bullet(b.ID), after.Bullet(b.ID)
			changed, same := plainText(b) != plainText(began), plainText(learned) == plainText(began)
			switch {
			case (changed || same) && now != b:
				t.Fatalf("%s was changed there, or not here, and became %v", b.ID, now)
			case now != nil && (now.Helpful != b.Helpful || now.Harmful != b.Harmful):
				t.Fatalf("votes on %s are not those it had", b.ID)
			}
		}
		for b := range from.All() {
			began := base.Bullet(b.ID)
			if began == b || left[b.ID] {
				continue
			}
			id := b.ID
			if renamed, is := p.Renamed[id]; is {
				id = renamed
			}
			now := after.Bullet(id)
			if now == nil || now.Content != b.Content {
				now = after.FindByContent(b.Content) // it has it already, under another id
			}
			if adviceText(now, mode) != adviceText(b, mode) && plainText(began) != plainText(b) {
				t.Fatalf("%s was learned and is neither copied nor in Left: %v", id, now)
			}
			if began == nil && to.Bullet(id) == nil && to.FindByContent(b.Content) == nil && (now.Helpful != b.Helpful || now.Harmful != b.Harmful) {
				t.Fatalf("%s came without its votes", id)
			}
		}
		for b := range base.All() {
			if there := to.Bullet(b.ID); from.Bullet(b.ID) == nil && plainText(there) == plainText(b) && after.Bullet(b.ID) != nil {
				t.Fatalf("%s was removed and is still there", b.ID)
			}
		}
		if again := history.Promote(base, from, after); len(again.Ops) > 0 {
			t.Fatalf("promoted a second time: got operations %v", again.Ops)
		}
		if still && len(p.ChangedInTarget)+len(p.Renamed) > 0 {
			t.Fatalf("the target did not change: got Moved %v, Renamed %v", p.ChangedInTarget, p.Renamed)
		}
	})
}

// Bullets are written as "number content". The status may follow.
func TestPromotions(t *testing.T) {
	t.Parallel()
	book := func(bullets string) *playbook.Playbook {
		p := new(playbook.Playbook)
		for text := range strings.SplitSeq(bullets, ",") {
			w := strings.Fields(text)
			if len(w) == 0 {
				continue
			}
			b := &playbook.Bullet{ID: playbook.MintID("others", parseNumber(w[0])), Section: "others", Content: w[1]}
			if len(w) > 2 {
				b.Status = playbook.Status(w[2])
			}
			if _, err := p.Apply(&playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{{Kind: playbook.Put, Bullet: b.ID, PutBullet: b}}}); err != nil {
				t.Fatal(err)
			}
		}
		return p
	}
	for name, test := range map[string]struct{ base, from, to, want, left, moved string }{
		"what was learned comes":             {"1 a", "1 a,2 b", "1 a", "1=a 2=b", "", ""},
		"what was changed changes":           {"1 a,2 b", "1 c", "1 a,2 b", "1=c", "", ""},
		"the same on both sides is nothing":  {"1 a,2 b", "1 c", "1 c", "1=c", "", "misc-00001 misc-00002"},
		"what both changed stays":            {"1 a", "1 b", "1 c", "1=c", "misc-00001", "misc-00001"},
		"what is gone there stays gone":      {"1 a", "1 b", "", "", "misc-00001", "misc-00001"},
		"what changed there is not removed":  {"1 a", "", "1 c", "1=c", "misc-00001", "misc-00001"},
		"an id that is taken is not used":    {"1 a", "1 a,2 b", "1 a,2 c", "1=a 2=c 3=b", "", "misc-00002"},
		"nor one below it":                   {"1 a", "1 a,2 b,3 d", "1 a,3 c", "1=a 3=c 4=b 5=d", "", "misc-00003"},
		"what is said there is not said":     {"1 a", "1 a,2 B", "1 a,7 b", "1=a 7=b", "misc-00002", "misc-00007"},
		"words that move":                    {"1 a,2 b", "1 b,2 c", "1 a,2 b", "1=b 2=c", "", ""},
		"words that change places":           {"1 a,2 b", "1 b,2 a", "1 a,2 b", "1=a 2=b", "misc-00001 misc-00002", ""},
		"words of what is removed":           {"1 a,2 b", "1 b", "1 a,2 b", "1=b", "", ""},
		"a book that never had the base":     {"1 a", "1 b,2 c", "", "2=c", "misc-00001", "misc-00001"},
		"all of a book that began empty":     {"", "1 a,2 b", "1 c", "1=c 2=b 3=a", "", "misc-00001"},
		"what is said twice is brought once": {"", "1 a,2 a", "", "1=a", "misc-00002", ""},
		"what is on probation is shown":      {"", "1 a probation", "", "1=a", "", ""},
		"what waits for a person waits":      {"", "1 a quarantined", "", "1=a?", "", ""},
	} {
		p := history.Promote(book(test.base), book(test.from), book(test.to))
		ids := func(all []history.Difference) string {
			var out []string
			for _, d := range all {
				out = append(out, string(d.ID()))
			}
			slices.Sort(out)
			return strings.Join(out, " ")
		}
		if got := summarize(p.After); got != test.want || ids(p.Skipped) != test.left || ids(p.ChangedInTarget) != test.moved {
			t.Errorf("%s: got %q, left %q, moved %q; want %q, %q, %q", name, got, ids(p.Skipped), ids(p.ChangedInTarget), test.want, test.left, test.moved)
		}
	}
}

// TestPromotionOfACorrection: in the target, the ids that a bullet replaces and contests may be those of other bullets.
func TestPromotionOfACorrection(t *testing.T) {
	t.Parallel()
	book := func(bullets ...*playbook.Bullet) *playbook.Playbook {
		return playbook.Restore(1, uint64(len(bullets)), slices.Values(bullets))
	}
	a := &playbook.Bullet{ID: "misc-00001", Section: "others", Content: "a"}
	b := &playbook.Bullet{ID: "misc-00002", Section: "others", Content: "b", Replaces: a.ID, Contests: a.ID}
	other := &playbook.Bullet{ID: "misc-00001", Section: "others", Content: "c"}
	p := history.Promote(book(), book(a, b), book(other))
	corrected := p.After.FindByContent("b")
	if corrected == nil || p.Renamed[a.ID] == "" || corrected.Replaces != "" || corrected.Contests != "" {
		t.Errorf("got the renamed bullets %v and %+v, want no bullet that it corrects", p.Renamed, corrected)
	}
}

func TestForkOf(t *testing.T) {
	t.Parallel()
	origin := playbook.Fork{Of: "default", At: "17@ab12cd"}
	if got, want := origin.String(), "fork of default at 17@ab12cd"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	delta := func(version uint64, fork *playbook.Fork) *playbook.Delta {
		return &playbook.Delta{Version: version, Author: "debrief", Reason: origin.String(), Fork: fork}
	}
	part := delta(1, nil)
	part.ChangeID, part.More = "c", true
	last := delta(2, &origin)
	last.ChangeID = "c"
	for name, test := range map[string]struct {
		log      []*playbook.Delta
		complete uint64
	}{
		"no log":                        {nil, 0},
		"one edit":                      {[]*playbook.Delta{delta(1, &origin), delta(2, nil)}, 1},
		"two edits, the first of parts": {[]*playbook.Delta{part, last, delta(3, &origin), delta(4, nil)}, 3},
		"an incomplete change":          {[]*playbook.Delta{part}, 0},
		"a playbook that began empty":   {[]*playbook.Delta{delta(1, nil), delta(2, &origin)}, 0},
		"the reason alone":              {[]*playbook.Delta{delta(1, nil)}, 0},
		"a later edit with a fork":      {[]*playbook.Delta{delta(1, &origin), delta(2, nil), delta(3, &origin)}, 1},
		"an edit with another playbook": {[]*playbook.Delta{delta(1, &origin), delta(2, &playbook.Fork{Of: "other", At: "0"})}, 1},
	} {
		f, complete, err := history.ForkOf(func(fn func(*playbook.Delta) error) error {
			for _, d := range test.log {
				if err := fn(d); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil || complete != test.complete || (f == origin) != (complete > 0) {
			t.Errorf("%s: got %v at %d, %v; want version %d", name, f, complete, err, test.complete)
		}
	}
}
