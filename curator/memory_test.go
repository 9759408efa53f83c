package curator

import (
	"fmt"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

func TestWhatWasTurnedDownForGoodIsTurnedDownAgain(t *testing.T) {
	t.Parallel()
	var m memory
	rejected := func(content, reason string) *playbook.Delta {
		return &playbook.Delta{Author: Author, Rejected: []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Content: content}, Reason: reason}}}
	}
	m.note(rejected("Never ask the customer for a reason before the refund.", reasonContent+"gives orders"))
	m.note(rejected("Always ask for the booking number first.", reasonNoRoom))
	m.note(rejected("Whatever came too late for this delta.", errFull.reason))
	for content, want := range map[string]string{
		"Never ask the customer for a reason before the refund.":     refusedBefore + reasonContent + "gives orders",
		"never ask the customers for a reason before the  refund":    refusedBefore + reasonContent + "gives orders",
		"Ask the customer for a reason before the refund.":           "",
		"Always ask for the booking number first.":                   "",
		"Never ask the customer for a reason before the 2nd refund.": "",
		"Whatever came too late for this delta.":                     "",
	} {
		if got := m.refuse(content); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	if len(m.lapses) != 2 {
		t.Errorf("got %d texts, want what the delta had no room for left out", len(m.lapses))
	}

	// Turned down again it keeps its reason, and does not pile up.
	m.note(rejected("Never ask the customer for a reason before the refund.", refusedBefore+reasonContent+"gives orders"))
	if got := m.refuse("Never ask the customer for a reason before the refund."); got != refusedBefore+reasonContent+"gives orders" {
		t.Errorf("got %q", got)
	}
	// A person may want it after all.
	m.note(&playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "a-1", Content: "Never ask the customer for a reason before the refund."}}})
	if got := m.refuse("Never ask the customer for a reason before the refund."); got != "" {
		t.Errorf("after a person added it: got %q", got)
	}
}

func TestARetiredBulletDoesNotComeBackInOtherWords(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		_ = yield(&playbook.Bullet{ID: "a-00001", Section: "a", Content: "Refund the fee when the flight is late.", Status: playbook.Retired}) &&
			yield(&playbook.Bullet{ID: "a-00002", Section: "a", Content: "Offer a voucher when the bag is lost.", Status: playbook.Retired})
	})
	var m memory
	status := func(id playbook.BulletID, s playbook.Status, reason, author string) *playbook.Delta {
		return &playbook.Delta{Author: author, Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: id, Status: s, Reason: reason}}}
	}
	m.note(status("a-00001", playbook.Retired, "it did harm", Author))
	m.note(status("a-00002", playbook.Retired, reasonBudget, Author))
	m.follow(p)
	if got := m.refuse("refund the fee,  when the flight is late!"); got != refusedBefore+"it did harm" {
		t.Errorf("got %q", got)
	}
	if got := m.refuse("Offer a voucher when the bag is lost."); got != "" {
		t.Errorf("what had no room may come back: got %q", got)
	}
	m.note(status("a-00001", playbook.Active, "", "ann"))
	if got := m.refuse("Refund the fee when the flight is late."); got != "" {
		t.Errorf("after a person brought it back: got %q", got)
	}
}

func TestAMemoryIsBounded(t *testing.T) {
	t.Parallel()
	var m memory
	for i := range 2 * maxRetired {
		m.note(&playbook.Delta{
			Author:   Author,
			Rejected: []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Content: fmt.Sprintf("Advice number %d of many.", i)}, Reason: reasonContent + "no"}},
			Ops:      []playbook.Op{{Kind: playbook.SetStatus, Bullet: playbook.MintID("a", uint64(i)), Status: playbook.Retired, Reason: "harm"}},
		})
	}
	if len(m.lapses) != maxLapses || len(m.keys) != maxLapses || m.words.Len() != maxLapses || m.texts.Len() != maxLapses ||
		len(m.retired) != maxRetired || len(m.leaving) != maxRetired {
		t.Errorf("got %d texts, %d keys, %d and %d indexed, %d retired", len(m.lapses), len(m.keys), m.words.Len(), m.texts.Len(), len(m.retired))
	}
	if m.refuse("Advice number 3 of many.") != "" || m.refuse(fmt.Sprintf("Advice number %d of many.", 2*maxRetired-1)) == "" {
		t.Error("want the oldest forgotten and the newest kept")
	}
}

// TestAModelSeesWhatBears: of a book too large to be seen whole, what bears on the insight is seen, on trial or not, and
// what is retired is told as turned down.
func TestAModelSeesWhatBears(t *testing.T) {
	t.Parallel()
	const n = 5000
	special := map[int]playbook.Bullet{
		4001: {Content: "Mangrove permits need a stamp from the harbour.", Status: playbook.Active},
		4002: {Content: "Mangrove permits end in March.", Status: playbook.Candidate},
		4003: {Content: "Mangrove permits are free of charge.", Status: playbook.Retired},
		4004: {Content: "Mangrove permits can be forged.", Status: playbook.Quarantined},
		4005: {Content: "Mangrove permits count, says a rule.", Status: playbook.Candidate, Rule: &playbook.Rule{Key: "k"}},
	}
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		for i := range n {
			b := &playbook.Bullet{Content: fmt.Sprintf("Advice number %d on invoices: %s", i, strings.Repeat("add up every line. ", 10)), Helpful: 5}
			if s, ok := special[i]; ok {
				*b = s
			}
			b.ID, b.Section = playbook.MintID("a", uint64(i+1)), "a"
			if !yield(b) {
				return
			}
		}
	})
	b := &book{costs: costs{}}
	b.memory.note(&playbook.Delta{Author: Author, Rejected: []playbook.Rejection{{
		Op: playbook.Op{Kind: playbook.Add, Content: "Mangrove permits may be bought from anyone."}, Reason: reasonContent + "no",
	}}})
	b.shelf.follow(p)
	in := Request{Reflections: []*events.Reflection{asked("r", "Ask the harbour for the stamp when mangrove permits are renewed.").asked}}
	b.frame(p, &b.memory, &in)
	text := Prompt(in).Messages[1].Text
	for part, want := range map[string]bool{
		"need a stamp from the harbour": true,
		"# Bullets on trial":            true,
		"end in March":                  true,
		`{"turned_down":"Mangrove permits are free of charge.",`: true,
		`"Mangrove permits may be bought from anyone."`:          true,
		"can be forged":      false,
		"count, says a rule": false,
	} {
		if strings.Contains(text, part) != want {
			t.Errorf("%q in the prompt: got %v, want %v", part, !want, want)
		}
	}
	if len(in.Bullets)+len(in.OnTrial) > maxContext || len(text) > 5*maxContextTokens {
		t.Errorf("got %d bullets in %d bytes", len(in.Bullets)+len(in.OnTrial), len(text))
	}
	if !strings.Contains(text, "Advice number") {
		t.Error("want the rest of the room taken by what has done best")
	}
}
