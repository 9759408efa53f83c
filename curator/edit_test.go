package curator_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
)

func (h *harness) at(b playbook.Book, version uint64) *playbook.Playbook {
	h.Helper()
	p, err := h.store.PlaybookAt(h.Context(), b, version)
	h.ok(err)
	return p
}

// TestRestoreDuringWrites checks that a restore brings back the exact state as one version, and that each concurrent
// vote counts once.
func TestRestoreDuringWrites(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	then := h.edit("b", add("one"), add("two"))
	h.edit("b", playbook.Op{Kind: playbook.Remove, Bullet: "misc-00002"}, add("three"))
	const votes = 300
	var voters sync.WaitGroup
	half := make(chan struct{})
	voters.Go(func() {
		for i := range votes {
			if i == votes/2 {
				close(half)
			}
			h.publish(reflection("b", fmt.Sprint("r", i), "misc-00001"))
		}
	})
	<-half
	d := h.ask("b", &events.Edit{Restore: &then.Version})
	voters.Wait()
	if got, want := h.at("b", d.Version).StateHash(), h.at("b", then.Version).StateHash(); got != want || len(d.Refused) > 0 {
		t.Errorf("version %d is not as version %d was (%v)", d.Version, then.Version, d.Refused)
	}
	end := h.whole("b")
	before := h.at("b", d.Version-1).Bullet("misc-00001").Helpful // went with the restore
	if after := end.Bullet("misc-00001").Helpful; before+after != votes {
		t.Errorf("%d votes before the restore and %d after it, want %d in all", before, after, votes)
	}
	if end.Bullet("misc-00002") == nil || end.Bullet("misc-00003") != nil {
		t.Error("the bullets differ from those of the restored version")
	}
	if d := h.ask("b", &events.Edit{Restore: &then.Version, BaseVersion: &then.Version}); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonChanged {
		t.Errorf("a restore by somebody who has not seen the newest version: got %+v", d)
	}
	if d := h.ask("b", &events.Edit{Restore: ptr(uint64(9999))}); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonNotFound {
		t.Errorf("a version that does not exist: got %+v", d)
	}
	if h.edit("b", add("four")).Added[0] == "misc-00003" {
		t.Error("an id was used again")
	}
}

func ptr[T any](v T) *T { return &v }

// TestForgetRemovesEffectOfSource checks that nothing else changes.
func TestForgetRemovesEffectOfSource(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	from := func(r *events.Reflection, source, session string) *events.Reflection {
		r.Origin.Source, r.Session = source, session
		return r
	}
	h.publish(from(lesson("b", "bad one", "nonsense from a forum"), "forum", "s1"))
	h.publish(from(lesson("b", "good one", "sense from a desk"), "desk", "s2"))
	h.whole("b")
	h.publish(from(reflection("b", "vote of the bad", "misc-00002", "misc-00003"), "forum", "s3"))
	h.publish(from(reflection("b", "vote of the good", "misc-00002", "misc-00003"), "desk", "s4"))
	h.whole("b")
	log := h.store.History(t.Context(), "b")
	plan, err := history.Forget(log, playbook.Selector{Source: "forum"})
	h.ok(err)
	if plan.Matched != 2 {
		t.Errorf("the plan matches %d reflections, want 2", plan.Matched)
	}
	d := h.ask("b", &events.Edit{Forget: &playbook.Selector{Source: "forum"}})
	p := h.at("b", d.Version)
	said := map[string]int{}
	for b := range p.All() {
		said[b.Content] = b.Helpful
		if b.Harmful > 0 {
			t.Errorf("bullet %s still has the vote of the forum", b.ID)
		}
	}
	if _, there := said["nonsense from a forum"]; there || said["sense from a desk"] != 1 {
		t.Errorf("got %v, want the bullet with one vote", said)
	}
	if again := h.ask("b", &events.Edit{Forget: &playbook.Selector{Source: "forum"}}); again.Changed != 0 {
		t.Errorf("forgetting once more changed %d bullets", again.Changed)
	}
	if d := h.ask("b", &events.Edit{Forget: &playbook.Selector{Session: "s9"}}); len(d.Refused) > 0 || d.Changed != 0 {
		t.Errorf("a session that nothing rests on: got %+v", d)
	}
	e := &events.Execution{RunID: "late", Session: "s9", Question: "?", Answer: "!"}
	e.Book = "b"
	e.ID = events.ExecutionID("b", "", "late", 0)
	handles := map[bool]events.Handle{}
	for _, late := range []bool{true, false} { // true: published before the forget
		if !late {
			e.RunID, e.ID = "new", events.ExecutionID("b", "", "new", 0)
		} else if d = h.ask("b", &events.Edit{Forget: &playbook.Selector{Source: "unused"}}); len(d.Refused) > 0 {
			t.Fatal(d)
		}
		stored, err := h.conn.Publish(t.Context(), e, bus.PublishOptions{})
		h.ok(err)
		if handles[late] = stored.Handle; late {
			h.ask("b", &events.Edit{Forget: &playbook.Selector{Session: "s9"}})
		}
	}
	for late, handle := range handles {
		r := from(lesson("b", fmt.Sprint("late ", late), fmt.Sprintf("advice of a run that is late: %t", late)), "harbour", "s9")
		r.Handle = handle
		h.publish(r)
	}
	h.whole("b")
	p = h.at("b", h.ask("b", &events.Edit{Forget: &playbook.Selector{Source: "unused"}}).Version)
	if p.FindByContent("advice of a run that is late: true") != nil {
		t.Error("the playbook learned from a run that was forgotten before its reflection")
	}
	if p.FindByContent("advice of a run that is late: false") == nil {
		t.Error("the playbook did not learn from a run that was published after the forget")
	}
}

// TestLargeImportIsAtomic checks that a follower sees either none or all of 10,000 bullets.
func TestLargeImportIsAtomic(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.edit("b", add("one"))
	f, wait, err := h.store.Follow(t.Context(), "b")
	h.ok(err)
	defer wait()
	e := new(events.Edit)
	for i := range 10_000 {
		id := playbook.BulletID(fmt.Sprintf("imported-%05d", i))
		e.Ops = append(e.Ops, playbook.Op{Kind: playbook.Put, Bullet: id, PutBullet: &playbook.Bullet{
			ID: id, Section: "others", Content: fmt.Sprintf("imported advice %d, as long as advice usually is, so that this is no small thing", i), Helpful: i % 7, CreatedAt: time.Unix(int64(i), 0).UTC(),
		}})
	}
	seen := make(chan map[int]bool)
	watching := make(chan struct{})
	go func() {
		sizes := map[int]bool{}
		for at := uint64(0); ; {
			f.Read(func(p *playbook.Playbook, _ []byte) { at = p.Version(); sizes[p.Len()] = true })
			select {
			case <-watching:
				seen <- sizes
				return
			default:
			}
			if sizes[10_001] {
				<-watching
				seen <- sizes
				return
			}
			_ = f.Wait(t.Context(), at+1)
		}
	}()
	began := time.Now()
	d := h.ask("b", e)
	if len(d.Refused) > 0 || d.Changed != 10_000 {
		t.Fatalf("got %d changed, refused %v", d.Changed, d.Refused)
	}
	h.ok(f.Wait(t.Context(), d.Version))
	t.Logf("10,000 bullets in %d deltas, visible after %s", d.Version-1, time.Since(began).Round(time.Millisecond))
	close(watching)
	for size := range <-seen {
		if size != 1 && size != 10_001 {
			t.Errorf("a follower saw %d bullets", size)
		}
	}
	h.publish(reflection("b", "r", "imported-00005")) // ids stay and can be credited
	if p := h.whole("b"); helpful(p, "imported-00005") != 5+1 {
		t.Errorf("got %d votes on an imported bullet, want its 5 and one more", helpful(p, "imported-00005"))
	}
	if again := h.ask("b", &events.Edit{Ops: e.Ops}); again.Changed != 0 {
		t.Errorf("the same import again changed %d bullets", again.Changed)
	}
	e.Ops[5000].PutBullet.Content = "other words under an id that is taken"
	if d := h.ask("b", &events.Edit{Ops: e.Ops[4990:5010]}); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonExists {
		t.Errorf("another text under the same id: got %+v", d)
	}
}

func TestRebuildRestoresDamagedView(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := build(t)
	h.work(nil)
	for i := range 20 {
		h.edit("b", add(fmt.Sprint("advice ", i)))
	}
	want := h.at("b", 20).StateHash()
	kv, err := h.conn.JetStream().KeyValue(t.Context(), events.BucketPlaybook)
	h.ok(err)
	h.ok(kv.Delete(t.Context(), events.BulletKey("b", "misc-00007")))
	_, err = kv.Put(t.Context(), events.BulletKey("b", "misc-00008"), []byte("\x80"))
	h.ok(err)
	d := h.ask("b", &events.Edit{Rebuild: true})
	w, err := h.store.Writer(t.Context(), "b")
	h.ok(err)
	if w.ViewLag() != 0 || w.State().Playbook().StateHash() != want || w.State().Playbook().Version() != d.Version || d.Version != 21 {
		t.Errorf("the view is at version %d, %d behind, want 21 and the state that it had", w.State().Playbook().Version(), w.ViewLag())
	}
	f, wait, err := h.store.Follow(t.Context(), "b")
	h.ok(err)
	defer wait()
	f.Read(func(p *playbook.Playbook, _ []byte) {
		if p.StateHash() != want {
			t.Error("a follower of the new view has another state")
		}
	})
}

// TestErasureThroughTheCurator erases the texts of a person: a forget, the redactions, their list, and the rebuild of the view.
func TestErasureThroughTheCurator(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	ctx := t.Context()
	rule := playbook.Evidence{Execution: "7-abcdef01", Sample: "s7", User: "canary-user", Excerpt: "canary-excerpt"}
	h.ask("b", &events.Edit{Ops: []playbook.Op{add("canary-bullet")}, Evidence: []playbook.Evidence{rule}})
	h.edit("b", add("advice of another"))
	h.ask("b", &events.Edit{Restore: new(uint64)}) // its caches have the log
	h.ask("b", &events.Edit{Forget: &playbook.Selector{User: "canary-user"}})
	r, err := history.NewRedactor(h.store.History(ctx, "b"), func(e *playbook.Evidence) bool { return e.User == "canary-user" }, nil)
	h.ok(err)
	versions, err := h.store.Redact(ctx, "b", r.Redact)
	h.ok(err)
	if len(versions) != 2 || versions[0].Version != 1 || versions[1].ErasedSelector != 4 {
		t.Fatalf("got redactions %+v, want those of version 1 and of the forget", versions)
	}
	if d := h.ask("b", &events.Edit{Redact: versions, Rebuild: true}); len(d.Refused) == 0 {
		t.Error("a list together with another change: want a refusal")
	}
	if d := h.ask("b", &events.Edit{Redact: []playbook.RedactedVersion{{Version: 99, Sum: versions[0].Sum}}}); len(d.Refused) == 0 {
		t.Error("a version that does not exist: want a refusal")
	}
	if d := h.ask("b", &events.Edit{Redact: versions}); len(d.Refused) > 0 {
		t.Fatalf("refused: %v", d.Refused)
	}
	removed, err := h.store.RemoveRedacted(ctx, "b")
	h.ok(err)
	if removed != 2 {
		t.Errorf("removed %d messages, want 2", removed)
	}
	h.ask("b", &events.Edit{Rebuild: true})
	one := uint64(2)
	h.ask("b", &events.Edit{Restore: &one})
	for b := range h.whole("b").All() {
		if playbook.IsErased(b.Content) || b.Content == "canary-bullet" {
			t.Errorf("a restore brings back bullet %s: %q", b.ID, b.Content)
		}
	}
	v, err := h.store.Verify(ctx, "b")
	h.ok(err)
	if v.Damaged() || len(v.Redacted) != 2 || v.Redacted[0].Listed == 0 {
		t.Errorf("verify: got %+v and findings %v", v.Redacted, v.Findings)
	}
	for _, stream := range []string{events.StreamDeltas, "KV_" + events.BucketPlaybook, events.StreamRedactions} {
		s, err := h.conn.JetStream().Stream(ctx, stream)
		h.ok(err)
		state := s.CachedInfo().State
		for seq := state.FirstSeq; seq <= state.LastSeq; seq++ {
			if m, err := s.GetMsg(ctx, seq); err == nil && bytes.Contains(m.Data, []byte("canary")) {
				t.Errorf("message %d of %s has a canary", seq, stream)
			}
		}
	}
}

func TestStaleEditIsRefused(t *testing.T) {
	t.Parallel()
	h := build(t)
	h.work(nil)
	h.edit("b", add("one"), add("two"))
	read := events.Expectation{Bullet: "misc-00001", Section: "others", Content: "one"}
	update := func(text string, expect ...events.Expectation) events.EditReply {
		return h.ask("b", &events.Edit{Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "misc-00001", Content: text}}, Expect: expect})
	}
	h.publish(reflection("b", "a vote is no change", "misc-00001"))
	if d := update("uno", read); len(d.Refused) > 0 {
		t.Fatalf("refused: %v", d.Refused)
	}
	before := h.ask("b", &events.Edit{Ops: []playbook.Op{add("three")}}).Version
	d := update("eins", read)
	if d.Version != before+1 {
		t.Errorf("version after a refused edit: got %d, want %d: the log records it", d.Version, before+1)
	}
	if len(d.Refused) != 1 || len(d.Conflicts) != 1 || d.Conflicts[0].Content != "uno" {
		t.Errorf("got %+v, want a refusal with the current content", d)
	}
	if d := update("eins", events.Expectation{Bullet: "misc-00009", Content: "gone"}); len(d.Conflicts) != 1 || d.Conflicts[0].Content != "" {
		t.Errorf("got %+v, want a refusal: it is gone", d)
	}
	if d := h.ask("b", &events.Edit{Restore: ptr(uint64(1)), Ops: []playbook.Op{add("three")}}); len(d.Refused) != 1 || d.Refused[0].Code != playbook.ReasonInvalid {
		t.Errorf("two things in one edit: got %+v", d)
	}
	many := &events.Edit{}
	for i := range 100 {
		many.Ops = append(many.Ops, playbook.Op{Kind: playbook.Remove, Bullet: playbook.MintID("others", uint64(1000+i))})
	}
	if d := h.ask("b", many); len(d.Refused) != 11 || d.Refused[10].Code != playbook.ReasonMore || d.Refused[10].Count != 90 {
		t.Errorf("a hundred mistakes: got %d reasons", len(d.Refused))
	}
	if p := h.whole("b"); p.Bullet("misc-00001").Content != "uno" {
		t.Errorf("got %q, want the content of the first edit", p.Bullet("misc-00001").Content)
	}
}
