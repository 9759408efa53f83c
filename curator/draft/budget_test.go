package draft

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
)

// shownTokens returns the number of tokens of a prompt with every shown bullet.
func shownTokens(p *playbook.Playbook) int {
	return chat.Tokens(playbook.Render(p.Top(p.Len())))
}

// estimated returns the number of tokens as the budget counts it.
func estimated(p *playbook.Playbook) int { return newTokenSum(p.All()).tokens }

// TestBudgetCountsRenderedTokens checks that the budget never counts fewer tokens than the prompt has, for any section
// names, line breaks and votes.
func TestBudgetCountsRenderedTokens(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"the", "tax", "4711", "order_lookup", "é", "中文", "!", " ", "\n", "\n\n", "\n- ", "\n1. "})
	votes := rapid.SampledFrom([]int{0, 12, 999_999})
	rapid.Check(t, func(t *rapid.T) {
		p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
			for i := range rapid.IntRange(1, 3).Draw(t, "bullets") {
				yield(&playbook.Bullet{
					ID: playbook.MintID("others", uint64(i+1)), Section: rapid.SampledFrom([]string{"4a", "x", "tax_rules"}).Draw(t, "in"),
					Content: strings.Join(rapid.SliceOf(word).Draw(t, "words"), ""),
					Helpful: votes.Draw(t, "helpful"), Harmful: votes.Draw(t, "harmful"),
				})
			}
		})
		if got, counted := shownTokens(p), estimated(p); got > counted {
			t.Fatalf("the prompt takes %d tokens, the budget counts %d:\n%q", got, counted, playbook.Render(p.Top(p.Len())))
		}
	})
}

// TestTokenBudgetIsEnforced checks, for random proposals in random batches, that the shown bullets stay within the budgets,
// that pinned bullets stay, and that every retirement and rejection is recorded with its reason.
func TestTokenBudgetIsEnforced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := &draftTest{policy: Config{MaxTokens: rapid.IntRange(150, 600).Draw(t, "budget"), Tokens: new(TokenIndex)}}
		pinned := map[playbook.BulletID]bool{}
		for i := range rapid.IntRange(1, 12).Draw(t, "batches") {
			var batch []*Item
			for j := range rapid.IntRange(1, 5).Draw(t, "lessons") {
				more := strings.Repeat(rapid.SampledFrom([]string{" on and on", "\n4"}).Draw(t, "more"), rapid.IntRange(0, 30).Draw(t, "length"))
				op := add(fmt.Sprintf("lesson %d of batch %d%s", j, i, more))
				op.Section = rapid.SampledFrom([]string{"others", "s", "t"}).Draw(t, "in")
				k := reflected(fmt.Sprint(i, "/", j), events.Reflection{}, op)
				for _, b := range n.p.Top(3) {
					if rapid.Bool().Draw(t, "vote") {
						k.Reflection.Tags = append(k.Reflection.Tags, events.BulletTag{ID: b.ID, Tag: rapid.SampledFrom([]events.Vote{events.Helpful, events.Harmful}).Draw(t, "which")})
					}
				}
				batch = append(batch, k)
			}
			if top := n.p.Top(1); len(top) > 0 && rapid.IntRange(0, 9).Draw(t, "pin") == 0 {
				pinned[top[0].ID] = true
				n.take(t, edited(fmt.Sprint("pin ", i), playbook.Op{Kind: playbook.Pin, Bullet: top[0].ID, Pinned: true}))
			}
			n.take(t, batch...)
			if got := shownTokens(&n.p); got > n.policy.MaxTokens {
				t.Fatalf("after batch %d the prompt takes %d tokens, the budget is %d", i, got, n.policy.MaxTokens)
			}
			n.policy.Tokens.update(&n.p)
			if got, want := n.policy.Tokens.sum.tokens, estimated(&n.p); got != want {
				t.Fatalf("after batch %d the index counts %d tokens, want %d", i, got, want)
			}
			want := slices.SortedFunc(mayRetireOf(&n.p), compareStrength)
			want = want[:rapid.IntRange(0, len(want)).Draw(t, "asked")]
			if weakest := newDraft(&n.p, n.policy).weakest(len(want)); !slices.Equal(weakest, want) {
				t.Fatalf("after batch %d: got the weakest bullets %v, want %v", i, weakest, want)
			}
			for id := range pinned {
				if b := n.p.Bullet(id); b == nil || !b.Shown() {
					t.Fatalf("pinned bullet %s was removed", id)
				}
			}
		}
		for _, d := range n.deltas {
			for _, op := range d.Ops {
				if op.Kind == playbook.SetStatus && op.Reason == "" {
					t.Fatalf("status change of bullet %s has no reason", op.Bullet)
				}
			}
		}
	})
}

// mayRetireOf yields the bullets of a playbook that may retire.
func mayRetireOf(p *playbook.Playbook) iter.Seq[*playbook.Bullet] {
	return func(yield func(*playbook.Bullet) bool) {
		for b := range p.All() {
			if b.Shown() && !b.Pinned && !yield(b) {
				return
			}
		}
	}
}

// TestStateDoesNotDependOnThresholds checks that the deltas contain every decision by a threshold. A program with other
// thresholds reads the same state and can continue from it.
func TestStateDoesNotDependOnThresholds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string) Config {
			return Config{
				MaxTokens:  rapid.IntRange(100, 1000).Draw(t, what),
				Duplicates: rapid.SampledFrom([]*DuplicateIndex{nil, new(DuplicateIndex)}).Draw(t, what+" of likeness"),
			}
		}
		first, second := &draftTest{policy: draw("first")}, &draftTest{policy: draw("second")}
		for i := range rapid.IntRange(1, 10).Draw(t, "lessons") {
			first.take(t, reflected(fmt.Sprint(i), events.Reflection{}, add(sentence(rapid.IntRange(0, 40).Draw(t, "lesson")))))
		}
		for _, d := range first.deltas {
			apply(t, &second.p, d)
		}
		if first.p.StateHash() != second.p.StateHash() {
			t.Fatal("the same log gave another state")
		}
		second.take(t, reflected("more", events.Reflection{}, add("something that is quite different")))
		for _, d := range second.deltas {
			apply(t, &first.p, d)
		}
		if first.p.StateHash() != second.p.StateHash() {
			t.Fatal("further deltas gave another state")
		}
	})
}

func apply(t rapid.TB, p *playbook.Playbook, d *playbook.Delta) {
	t.Helper()
	if _, err := p.Apply(d); err != nil {
		t.Fatal(err)
	}
}

// TestWeakestBulletRetires checks that the bullet with the worst score retires first, and that a new bullet that is weaker
// than all others is not added.
func TestWeakestBulletRetires(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(" and so on", 20)
	n := new(draftTest)
	n.take(t, edited("e", add("one"+long), add("two"+long), add("three"+long)))
	n.take(t, tagged("a", events.BulletTag{ID: "misc-00001", Tag: events.Helpful}, events.BulletTag{ID: "misc-00002", Tag: events.Harmful}))
	n.policy.MaxTokens = estimated(&n.p) + 10

	n.take(t, reflected("b", events.Reflection{}, add("four"+long)))
	if b := n.p.Bullet("misc-00002"); b.Status != playbook.Retired || len(n.p.Top(9)) != 3 || n.p.Bullet("misc-00004") == nil {
		t.Errorf("got %d shown and the harmful one %q, want it retired for the new one", len(n.p.Top(9)), b.Status)
	}
	n.take(t, tagged("c", events.BulletTag{ID: "misc-00003", Tag: events.Helpful}, events.BulletTag{ID: "misc-00004", Tag: events.Helpful}))
	n.take(t, reflected("d", events.Reflection{}, add("five"+long)))
	if n.p.Len() != 4 || !slices.Contains(n.rejected(), playbook.ReasonTokenBudget) {
		t.Errorf("got %d bullets and %q, want the new one rejected", n.p.Len(), n.rejected())
	}
}

// TestImportOverBudgetStays checks that an import may exceed the budget. After it, learning adds no more tokens than it
// removes.
func TestImportOverBudgetStays(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Config{MaxTokens: 200}}
	e := edited("e")
	for i := range 100 {
		e.Edit.Ops = append(e.Edit.Ops, add(fmt.Sprintf("bullet %d says what nobody else does", i)))
	}
	n.take(t, e)
	before := estimated(&n.p)
	if before < 1000 {
		t.Fatalf("the import takes %d tokens, so nothing is shown", before)
	}
	n.take(t, reflected("r", events.Reflection{}, add("a lesson that is new")))
	if now := estimated(&n.p); now > before || now < before-100 || len(n.p.Top(200)) != 100 {
		t.Errorf("got %d tokens in %d bullets after %d, want one out and one in", now, len(n.p.Top(200)), before)
	}
}

// TestParaphraseIsRejected checks that a paraphrase adds no bullet, and that a text with another number, negation or name
// does.
func TestParaphraseIsRejected(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		new  string
		same bool
	}{
		{"For region North the region tax is 7 % of the amount so far, and it is rounded to cents.", true},
		{"For region North, the region tax is 7 % of the amount so far and it's rounded to cents", true},
		{"For region North the region tax is 9 % of the amount so far, and it is rounded to cents.", false},
		{"For region South the region tax is 7 % of the amount so far, and it is rounded to cents.", false},
		{"For region North the region tax is 7 % of the amount so far, and it is not rounded to cents.", false},
		{"Call `get_user` first.", false},
	} {
		t.Run(test.new, func(t *testing.T) {
			t.Parallel()
			n := &draftTest{policy: Config{Duplicates: new(DuplicateIndex)}}
			n.seed(t, "For region North the region tax is 7 % of the amount so far, and it is rounded to cents.", "another")
			n.take(t, reflected("r", events.Reflection{}, add(test.new)))
			if made := n.p.Len() == 3; made == test.same {
				t.Errorf("made: %v; rejected: %q", made, n.rejected())
			}
			if last := n.deltas[len(n.deltas)-1]; test.same && (len(last.Rejected) != 1 || last.Rejected[0].DuplicateOf != "misc-00001" || len(last.Rejected[0].Op.Support) != 1) {
				t.Errorf("got %+v, want a rejection with the bullet and its support", last.Rejected)
			}
			before := n.p.Len()
			n.take(t, reflected("s", events.Reflection{}, add("On Mondays: "+test.new), add("On Mondays "+test.new))) // also within one batch
			if n.p.Len() > before+1 {
				t.Errorf("added %d bullets with nearly the same text", n.p.Len()-before)
			}
		})
	}
}

// BenchmarkNewBulletAgainst10000 drafts one lesson for a playbook of 10,000 bullets that is indexed already. It includes the
// search for duplicates and the budget.
func BenchmarkNewBulletAgainst10000(b *testing.B) {
	for _, size := range []int{1000, 10_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
				for i := range size {
					if !yield(&playbook.Bullet{ID: playbook.MintID("others", uint64(i+1)), Section: "others", Content: sentence(i)}) {
						return
					}
				}
			})
			by := Config{MaxTokens: 10_000_000, Duplicates: new(DuplicateIndex), Tokens: new(TokenIndex)}
			if _, err := p.Apply(&playbook.Delta{Version: p.Version() + 1, Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: playbook.MintID("others", 1), Neutral: 1}}}); err != nil {
				b.Fatal(err)
			}
			by.Duplicates.update(p)
			p.FindByContent("") // as a book that had a lesson before
			b.ReportAllocs()
			i := size
			for b.Loop() {
				i++
				d := newDraft(p, by)
				k := reflected(fmt.Sprint(i), events.Reflection{}, add(sentence(i)))
				if out := d.draftItems([]*Item{k}, nil); len(out.Deltas) != 1 {
					b.Fatal("no delta")
				}
			}
		})
	}
}

// sentence returns a random rule; many rules share their words.
func sentence(i int) string {
	pick := func(n int, from ...string) string { return from[i/n%len(from)] }
	return fmt.Sprintf("When %s %s of %s, %s the %s %s %s at %d %% before you %s it.",
		pick(1, "an invoice", "a credit note", "an order", "a reservation", "a refund"), pick(5, "is late", "has a discount", "lacks a signature", "names two regions"),
		pick(20, "a new customer", "a reseller", "the public sector", "a member"), pick(80, "add", "check", "leave out", "round"),
		pick(320, "currency", "delivery", "region"), pick(960, "fee", "tax", "surcharge"), pick(2880, "once", "for each line"), i%97, pick(7, "send", "close", "approve"))
}

// TestBookBudgetRetiresWeakestOfAllSections checks that a playbook over its budget loses its weakest bullet, whatever its section.
func TestBookBudgetRetiresWeakestOfAllSections(t *testing.T) {
	t.Parallel()
	n := &draftTest{policy: Config{GateMode: playbook.GateOff}}
	weak, strong := add("a weak bullet says what nobody needs to know"), add("a strong bullet says what helps in every task")
	weak.Section, strong.Section = "alpha", "zeta"
	e := edited("e", weak, strong)
	n.take(t, e)
	ids := e.Decision.Added
	n.take(t, votes(ids[0], events.Harmful, 2)...)
	n.take(t, votes(ids[1], events.Helpful, 2)...)
	n.policy.MaxTokens = estimated(&n.p) + 5
	n.take(t, reflected("r", events.Reflection{}, add("a lesson that is new to the playbook")))
	if got := n.p.Bullet(ids[0]).Status; got != playbook.Retired || !n.p.Bullet(ids[1]).Shown() {
		t.Errorf("got the weak bullet %q and the strong one %q, want only the weak one to retire", got, n.p.Bullet(ids[1]).Status)
	}
}

// TestGatherCountsNoDroppedBullet checks that the reply to an edit does not count a new bullet for which the budget has no room.
func TestGatherCountsNoDroppedBullet(t *testing.T) {
	t.Parallel()
	var n draftTest
	n.take(t, reflected("first", events.Reflection{}, add("one")))
	n.take(t, tagged("second", events.BulletTag{ID: n.said(t, "one").ID, Tag: events.Helpful}))
	n.policy.MaxTokens = estimated(&n.p)
	edit := &events.Edit{ID: events.NewID(), Author: "ann", Gather: []events.Handle{events.NewHandle(1, events.NewID())}}
	item := &Item{ID: edit.ID, Edit: edit, Gathered: &Gathered{Items: []*Item{reflected("third", events.Reflection{}, add("two"))}}}
	n.take(t, item)
	if n.p.FindByContent("two") != nil || item.Decision.Changed != 0 || len(item.Decision.Added) != 0 {
		t.Errorf("got %+v, want no change", item.Decision)
	}
}

// TestBurstCountsNoDroppedBullet checks that a new bullet for which the budget has no room does not count against its session.
func TestBurstCountsNoDroppedBullet(t *testing.T) {
	t.Parallel()
	var n draftTest
	n.take(t, reflected("first", events.Reflection{}, add("one")))
	n.take(t, tagged("second", events.BulletTag{ID: n.said(t, "one").ID, Tag: events.Helpful}))
	n.policy.MaxTokens, n.policy.Burst.Max = estimated(&n.p), 1
	n.take(t, from("", "s", add("two")))
	if n.p.FindByContent("two") != nil || len(n.last.added) != 0 {
		t.Errorf("got %d bullets and the additions %v, want 1 and none", n.p.Len(), n.last.added)
	}
}
