package propose

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/history"
)

func TestPermanentRejectionsAreRepeated(t *testing.T) {
	t.Parallel()
	var m RejectionLog
	rejected := func(content string, code playbook.Reason, reason string) *playbook.Delta {
		return &playbook.Delta{Author: history.Curator, Rejected: []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Content: content}, Code: code, Reason: reason}}}
	}
	refused := func(content string) string {
		why := m.refuse(content)
		if why == nil {
			return ""
		}
		if why.Code != playbook.ReasonRejectedText {
			t.Errorf("%q: got code %q, want %q", content, why.Code, playbook.ReasonRejectedText)
		}
		return why.Reason
	}
	m.Add(rejected("Never ask the customer for a reason before the refund.", playbook.ReasonInjection, "gives orders"))
	m.Add(rejected("Always ask for the booking number first.", playbook.ReasonTokenBudget, "no room"))
	for _, code := range []playbook.Reason{
		playbook.ReasonDeltaFull, playbook.ReasonNoIDs, playbook.ReasonSourceShare, playbook.ReasonUntrusted, playbook.ReasonCorrected,
	} {
		m.Add(rejected("Whatever came too late for this delta.", code, "not for its text"))
	}
	for content, want := range map[string]string{
		"Never ask the customer for a reason before the refund.":     rejectedBefore + "gives orders",
		"never ask the customers for a reason before the  refund":    rejectedBefore + "gives orders",
		"Ask the customer for a reason before the refund.":           "",
		"Always ask for the booking number first.":                   "",
		"Never ask the customer for a reason before the 2nd refund.": "",
		"Whatever came too late for this delta.":                     "",
	} {
		if got := refused(content); got != want {
			t.Errorf("%q: got %q, want %q", content, got, want)
		}
	}
	if len(m.rejected) != 2 {
		t.Errorf("got %d texts, want none of those that were not rejected for their text", len(m.rejected))
	}

	// A second rejection of the text keeps the first reason, without a second prefix.
	m.Add(rejected("Never ask the customer for a reason before the refund.", playbook.ReasonRejectedText, rejectedBefore+"gives orders"))
	if got := refused("Never ask the customer for a reason before the refund."); got != rejectedBefore+"gives orders" {
		t.Errorf("got %q", got)
	}
	// A person can add the text.
	m.Add(&playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Add, Bullet: "a-1", Content: "Never ask the customer for a reason before the refund."}}})
	if got := refused("Never ask the customer for a reason before the refund."); got != "" {
		t.Errorf("after a person added it: got %q", got)
	}
}

func TestRetiredBulletIsNotAddedInOtherWords(t *testing.T) {
	t.Parallel()
	p := playbook.Restore(1, 0, func(yield func(*playbook.Bullet) bool) {
		_ = yield(&playbook.Bullet{ID: "a-00001", Section: "a", Content: "Refund the fee when the flight is late.", Status: playbook.Retired}) &&
			yield(&playbook.Bullet{ID: "a-00002", Section: "a", Content: "Offer a voucher when the bag is lost.", Status: playbook.Retired})
	})
	var m RejectionLog
	status := func(id playbook.BulletID, s playbook.Status, code playbook.Reason, author string) *playbook.Delta {
		return &playbook.Delta{Author: author, Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: id, Status: s, Code: code, Reason: string(code)}}}
	}
	m.Add(status("a-00001", playbook.Retired, playbook.ReasonHarms, history.Curator))
	m.Add(status("a-00002", playbook.Retired, playbook.ReasonTokenBudget, history.Curator))
	m.update(p)
	if got := m.refuse("refund the fee,  when the flight is late!"); got == nil || got.Reason != rejectedBefore+string(playbook.ReasonHarms) {
		t.Errorf("got %+v", got)
	}
	if got := m.refuse("Offer a voucher when the bag is lost."); got != nil {
		t.Errorf("a bullet that retired for the token budget: got %+v, want it allowed", got)
	}
	m.Add(status("a-00001", playbook.Active, "", "ann"))
	if got := m.refuse("Refund the fee when the flight is late."); got != nil {
		t.Errorf("after a person reactivated it: got %+v", got)
	}
	m.Add(status("a-00001", playbook.Retired, "", "ann"))
	m.update(p)
	if got := m.refuse("Refund the fee when the flight is late."); got == nil {
		t.Error("a bullet that a person retired was not refused")
	}
}

func TestRejectionLogIsBounded(t *testing.T) {
	t.Parallel()
	var m RejectionLog
	for i := range 2 * maxRetired {
		m.Add(&playbook.Delta{
			Author:   history.Curator,
			Rejected: []playbook.Rejection{{Op: playbook.Op{Kind: playbook.Add, Content: fmt.Sprintf("Advice number %d of many.", i)}, Code: playbook.ReasonInjection, Reason: "no"}},
			Ops:      []playbook.Op{{Kind: playbook.SetStatus, Bullet: playbook.MintID("a", uint64(i)), Status: playbook.Retired, Code: playbook.ReasonHarms, Reason: "harm"}},
		})
	}
	if len(m.texts) != maxRejectedTexts+maxRetired || len(m.rejected) != maxRejectedTexts || m.words.Len() != maxRejectedTexts || len(m.retired) != maxRetired {
		t.Errorf("got %d texts, %d rejected, %d indexed, %d retired", len(m.texts), len(m.rejected), m.words.Len(), len(m.retired))
	}
	if m.refuse("Advice number 3 of many.") != nil || m.refuse(fmt.Sprintf("Advice number %d of many.", 2*maxRetired-1)) == nil {
		t.Error("want the oldest texts removed and the newest kept")
	}
}

// TestPromptNamesRefusedMerges checks that a merge refused because of its bullets is named with its reason, until one of the bullets changes.
func TestPromptNamesRefusedMerges(t *testing.T) {
	t.Parallel()
	bullets := []*playbook.Bullet{
		{ID: "a-00001", Section: "a", Content: "Merge both orders first."},
		{ID: "a-00002", Section: "a", Content: "Merge both orders first, unless one is frozen.", Status: playbook.Candidate, Replaces: "a-00001"},
	}
	round := &Round{Playbook: playbook.Restore(2, 2, slices.Values(bullets)), Rejections: new(RejectionLog), Bullets: new(BulletIndex)}
	refused := func(author string, code playbook.Reason, reason string, ids ...playbook.BulletID) *playbook.Delta {
		op := playbook.Op{Kind: playbook.Merge, Bullet: ids[0], Sources: ids[1:], Content: "Merge both orders first, unless frozen."}
		return &playbook.Delta{Author: author, Rejected: []playbook.Rejection{{Op: op, Code: code, Reason: reason}}}
	}
	check := func(name, want string) {
		t.Helper()
		user := promptOf(t, round, batchOf("Look at the storage of both orders."))
		_, got, _ := strings.Cut(user, "# Rejected before, not to be proposed again\n\n")
		got, _, _ = strings.Cut(got, "\n\n")
		if got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	log := round.Rejections
	log.Add(refused(history.Curator, playbook.ReasonStatus, "keep the first one", "a-00002", "a-00001"))
	log.Add(refused(history.Curator, playbook.ReasonStatus, "the second one is not in the prompt", "a-00001", "a-00009"))
	log.Add(refused(history.Curator, playbook.ReasonSuperseded, "another proposal is better", "a-00001", "a-00002"))
	log.Add(refused("ann", playbook.ReasonPinned, "a merge of a person", "a-00001", "a-00002"))
	check("refused", `{"rejected_merge":["a-00001","a-00002"],"reason":"keep the first one"}`)
	log.Add(refused(history.Curator, playbook.ReasonStatus, "it waits", "a-00001", "a-00002"))
	check("refused again", `{"rejected_merge":["a-00001","a-00002"],"reason":"it waits"}`)
	log.Add(&playbook.Delta{Ops: []playbook.Op{{Kind: playbook.Tag, Bullet: "a-00001", Helpful: 1}}})
	check("after a vote", `{"rejected_merge":["a-00001","a-00002"],"reason":"it waits"}`)
	log.Add(&playbook.Delta{Ops: []playbook.Op{{Kind: playbook.SetStatus, Bullet: "a-00002", Status: playbook.Active}}})
	check("after a change", "")
	for i := range 2 * maxRefusedMerges {
		log.Add(refused(history.Curator, playbook.ReasonStatus, "it waits", "a-00001", playbook.MintID("b", uint64(i))))
	}
	if len(log.merges) != maxRefusedMerges {
		t.Errorf("got %d refused merges", len(log.merges))
	}
}

// TestPromptShowsRelevantBullets checks the prompt for a playbook that is too large to show as a whole. It has the bullets
// that match the insight, also those on trial, and lists the retired ones as turned down.
func TestPromptShowsRelevantBullets(t *testing.T) {
	t.Parallel()
	const n = 5000
	special := map[int]playbook.Bullet{
		4001: {Content: "Mangrove permits need a stamp from the harbour.", Status: playbook.Active},
		4002: {Content: "Mangrove permits end in March.", Status: playbook.Candidate},
		4003: {Content: "Mangrove permits are free of charge.", Status: playbook.Retired},
		4004: {Content: "Mangrove permits can be forged.", Status: playbook.Quarantined},
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
	round := &Round{Playbook: p, Rejections: new(RejectionLog), Bullets: new(BulletIndex)}
	round.Rejections.Add(&playbook.Delta{
		Author: history.Curator,
		Ops:    []playbook.Op{{Kind: playbook.SetStatus, Bullet: playbook.MintID("a", 4004), Status: playbook.Retired, Code: playbook.ReasonHarms, Reason: "it harms"}},
		Rejected: []playbook.Rejection{{
			Op: playbook.Op{Kind: playbook.Add, Content: "Mangrove permits may be bought from anyone."}, Code: playbook.ReasonInjection, Reason: "no",
		}},
	})
	round.Bullets.update(p)
	in := Request{Reflections: []*events.Reflection{asked("r", "Ask the harbour for the stamp when mangrove permits are renewed.").input}}
	round.addContext(&in)
	text := requestPrompt(in).Messages[1].Text
	for part, want := range map[string]bool{
		"need a stamp from the harbour": true,
		"# Bullets on trial":            true,
		"end in March":                  true,
		`{"rejected_text":"Mangrove permits are free of charge.",`: true,
		`"Mangrove permits may be bought from anyone."`:            true,
		"can be forged": false,
	} {
		if strings.Contains(text, part) != want {
			t.Errorf("%q in the prompt: got %v, want %v", part, !want, want)
		}
	}
	if len(in.Bullets)+len(in.Undecided) > maxContext || len(text) > 5*maxContextTokens {
		t.Errorf("got %d bullets in %d bytes", len(in.Bullets)+len(in.Undecided), len(text))
	}
	if !strings.Contains(text, "Advice number") {
		t.Error("want the best bullets in the remaining room")
	}
}

// A text that was only replaced, or had no room, is not named as rejected: a new insight may ask for it again.
func TestPromptDoesNotForbidReplacedTexts(t *testing.T) {
	t.Parallel()
	for code, want := range map[playbook.Reason]bool{
		playbook.ReasonReplaced: false, playbook.ReasonTokenBudget: false, playbook.ReasonTooMany: false,
		playbook.ReasonHarms: true, playbook.ReasonRemoval: true,
	} {
		bullets := []*playbook.Bullet{{ID: "a-00001", Section: "a", Content: "Club customers pay no return fee.", Status: playbook.Retired}}
		round := &Round{Playbook: playbook.Restore(2, 2, slices.Values(bullets)), Rejections: new(RejectionLog), Bullets: new(BulletIndex)}
		retire := playbook.Op{Kind: playbook.SetStatus, Bullet: "a-00001", Status: playbook.Retired, Code: code, Reason: "for a reason"}
		round.Rejections.Add(&playbook.Delta{Author: history.Curator, Ops: []playbook.Op{retire}})
		user := promptOf(t, round, batchOf("Club customers pay no return fee again."))
		if got := strings.Contains(user, "Rejected before"); got != want {
			t.Errorf("retired with the code %s: rejected texts in the prompt: %t, want %t", code, got, want)
		}
	}
}
