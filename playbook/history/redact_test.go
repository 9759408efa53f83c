package history_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"debrief/playbook"
	"debrief/playbook/history"
)

// copyOf returns a deep copy of a delta.
func copyOf(t rapid.TB, d *playbook.Delta) *playbook.Delta {
	t.Helper()
	data, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	var c playbook.Delta
	if err := json.Unmarshal(data, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

// redactedLog returns a copy of a log without the texts of some executions, with a last delta that lists the redacted versions, and the
// original with the same last delta.
func redactedLog(t rapid.TB, k *logWriter, isErased func(*playbook.Evidence) bool) (original, redacted []*playbook.Delta) {
	t.Helper()
	r, err := history.NewRedactor(k.log, isErased, nil)
	if err != nil {
		t.Fatal(err)
	}
	list := &playbook.Delta{Version: k.newest() + 1, PrevChain: []byte{1}, Author: "ann"}
	for _, d := range k.deltas {
		c := copyOf(t, d)
		if r.Redact(c) {
			v := playbook.RedactedVersion{Version: c.Version, Sum: bytes.Repeat([]byte{1}, 32)}
			if c.Forget != nil {
				v.ErasedSelector = c.Forget.Erased
			}
			list.Redacted = append(list.Redacted, v)
		}
		if err := c.Validate(); err != nil {
			t.Fatalf("redacted version %d is invalid: %v", c.Version, err)
		}
		if r.Redact(copyOf(t, c)) {
			t.Fatalf("a second call changes version %d", c.Version)
		}
		original, redacted = append(original, d), append(redacted, c)
	}
	return append(original, list), append(redacted, list)
}

func asLog(all []*playbook.Delta) history.Log {
	return func(fn func(*playbook.Delta) error) error {
		for _, d := range all {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	}
}

func fold(t rapid.TB, all []*playbook.Delta) *playbook.Playbook {
	t.Helper()
	p := new(playbook.Playbook)
	for _, d := range all {
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// drawErased writes a random log in which the executions of one session are forgotten, perhaps among others, and returns the predicate for
// them. The log may go on after that.
func drawErased(t *rapid.T) (k *logWriter, isErased func(*playbook.Evidence) bool) {
	k = drawLog(t, allExtras)
	session := rapid.SampledFrom(k.sources).Draw(t, "erased") + "1"
	if rapid.Bool().Draw(t, "forgotten twice") {
		again := playbook.Selector{Session: rapid.SampledFrom(k.sources).Draw(t, "twice") + "1"}
		k.forget(again, 1)
		k.reflect(t, allExtras)
		k.forget(again, 1)
	}
	if rapid.Bool().Draw(t, "compared") {
		session = "other"
		k.compare(t, session)
	}
	k.forget(playbook.Selector{Session: session}, rapid.SampledFrom([]int{1, 2}).Draw(t, "parts"))
	for range rapid.IntRange(0, 3).Draw(t, "after") {
		k.edit("ann")
		k.propose(k.drawOp(t, allExtras, true, []int{0}))
		k.commit(1)
	}
	return k, func(e *playbook.Evidence) bool {
		return e.Session == session || e.Compared != nil && e.Compared.Session == session
	}
}

// compare makes some executions of the log compared with a run of another session.
func (k *logWriter) compare(t *rapid.T, session string) {
	for _, d := range k.deltas {
		for i := range d.Covers {
			if e := d.Covers[i].Evidence; e != nil && rapid.Bool().Draw(t, "is compared") {
				e.Compared = &playbook.ComparedRun{Execution: "1000-abcdef", Session: session}
			}
		}
	}
}

func TestRedactedLogHasTheSameState(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k, isErased := drawErased(t)
		original, redacted := redactedLog(t, k, isErased)
		want, got := fold(t, original), fold(t, redacted)
		if diff := cmp.Diff(bulletsOf(want), bulletsOf(got)); diff != "" {
			t.Fatalf("-original +redacted:\n%s\n%v", diff, k)
		}
		if want.StateHash() != got.StateHash() || want.Checksum() != got.Checksum() {
			t.Fatal("the same bullets have another hash")
		}
		if diff := cmp.Diff(want.Admission(), got.Admission()); diff != "" {
			t.Fatalf("admission: -original +redacted:\n%s", diff)
		}
		if diff := cmp.Diff(want.Tally(), got.Tally()); diff != "" {
			t.Fatalf("tally: -original +redacted:\n%s", diff)
		}
	})
}

// A restore from the redacted log has the bullets of a restore from the original, except those whose text was erased.
func TestRestoreFromARedactedLog(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		k, isErased := drawErased(t)
		original, redacted := redactedLog(t, k, isErased)
		for version := range uint64(len(original)) {
			want, _, err := history.StateAt(asLog(original), version)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := history.StateAt(asLog(redacted), version)
			if err != nil {
				t.Fatal(err)
			}
			wanted := bulletsOf(want)
			for id, b := range bulletsOf(got) {
				if playbook.IsErased(b.Content) {
					t.Fatalf("version %d brings back bullet %s with an erased text", version, id)
				}
				if diff := cmp.Diff(wanted[id], b); diff != "" {
					t.Fatalf("version %d, bullet %s: -original +redacted:\n%s\n%v\nREDACTED:\n%v", version, id, diff, k, &logWriter{deltas: redacted})
				}
			}
		}
	})
}

func TestRedactedLogHasNoText(t *testing.T) {
	t.Parallel()
	k := newLogWriter(t)
	secret := k.reflection("a", "1")
	secret.Evidence.User, secret.Evidence.Excerpt = "canary-user", "canary-excerpt"
	secret.Evidence.Session = "canary-session"
	other := k.reflection("b", "2")
	k.begin(history.Curator, secret, other)
	k.d.Reason = "canary-reason"
	k.propose(playbook.Op{Kind: playbook.Add, Content: "canary-bullet", Support: []int{0}, Reason: "canary-why"})
	k.propose(playbook.Op{Kind: playbook.Add, Content: "lesson of another", Support: []int{1}})
	k.d.Rejected = append(k.d.Rejected, playbook.Rejection{Op: playbook.Op{Kind: playbook.Add, Content: "canary-proposal", Support: []int{0}}, Reason: "canary-text"})
	k.commit(1)
	k.edit("ann")
	k.propose(playbook.Op{Kind: playbook.SetStatus, Bullet: playbook.MintID("others", 1), Status: playbook.Retired, Support: []int{0}, Reason: "canary-status"})
	k.commit(1)
	k.restore(1, 1) // puts the bullet again
	k.forget(playbook.Selector{User: "canary-user"}, 1)
	k.d.Reason = "canary of canary-user"

	_, redacted := redactedLog(t, k, func(e *playbook.Evidence) bool { return e.User == "canary-user" })
	data, err := json.Marshal(redacted)
	if err != nil {
		t.Fatal(err)
	}
	if at := strings.Index(string(data), "canary"); at >= 0 {
		t.Errorf("the redacted log has a canary: …%s…", data[max(0, at-200):at+40])
	}
	for _, text := range []string{"lesson of another", `"[erased] 1.0"`, `"erased":4`} {
		if !strings.Contains(string(data), text) {
			t.Errorf("the redacted log lacks %s", text)
		}
	}
	l, err := history.LineageOf(asLog(redacted), playbook.MintID("others", 1))
	if err != nil {
		t.Fatal(err)
	}
	if l.Events[0].Op.Content != playbook.ErasedContent(1, 0) || l.Forgotten != 1 {
		t.Errorf("lineage: got %q with %d forgotten executions, want the erased text and 1", l.Events[0].Op.Content, l.Forgotten)
	}
}
