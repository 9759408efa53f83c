package natskv_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// site is an installation with one book, "b".
type site struct {
	*testing.T
	s  *natskv.Store
	js jetstream.JetStream
	kv jetstream.KeyValue
	w  *natskv.Writer
}

// newSite has a book with so many bullets, one version each, and its view. Lessons of different sites differ.
func newSite(t *testing.T, name string, bullets int) *site {
	t.Helper()
	s, nc := open(t)
	js, err := jetstream.New(nc)
	check(t, err)
	kv, err := js.KeyValue(t.Context(), events.BucketPlaybook)
	check(t, err)
	x := &site{t, s, js, kv, writer(t, s, "b")}
	x.more(name, bullets)
	return x
}

// more commits bullets until there are so many, and flushes.
func (x *site) more(name string, bullets int) {
	x.Helper()
	for i := x.w.State().Playbook().Len(); i < bullets; i++ {
		commit(x, x.w, add(fmt.Sprint(name, i), uint64(i+1)))
	}
	check(x.T, x.w.Flush(x.Context()))
}

func (x *site) verify() *natskv.Verification {
	x.Helper()
	v, err := x.s.Verify(x.Context(), "b")
	check(x.T, err)
	return v
}

// append stores a record as it is, whatever the log says.
func (x *site) append(data []byte, header nats.Header) {
	x.Helper()
	_, err := x.js.PublishMsg(x.Context(), &nats.Msg{Subject: events.KindDelta.Subject("b"), Data: data, Header: header})
	check(x.T, err)
}

// log is the book's records as they are stored.
func (x *site) log() (records [][]byte) {
	x.Helper()
	stream, err := x.js.Stream(x.Context(), events.StreamDeltas)
	check(x.T, err)
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(x.Context(), seq)
		check(x.T, err)
		records = append(records, m.Data)
	}
	return records
}

func (x *site) put(key string, value any) {
	x.Helper()
	data, ok := value.([]byte)
	if !ok {
		var err error
		data, err = events.Marshal(value)
		check(x.T, err)
	}
	_, err := x.kv.Put(x.Context(), key, data)
	check(x.T, err)
}

// copyView gives x the view that another site has.
func (x *site) copyView(from *site) {
	x.Helper()
	keys, err := from.kv.Keys(x.Context())
	check(x.T, err)
	for _, key := range keys {
		e, err := from.kv.Get(x.Context(), key)
		check(x.T, err)
		x.put(key, e.Value())
	}
}

// bullet is a bullet of the state, to be changed.
func (x *site) bullet(id playbook.BulletID) *playbook.Bullet {
	b := *x.w.State().Playbook().Bullet(id)
	return &b
}

// viewDamages are ways in which a view comes to differ from its log, and what a verification says about each.
var viewDamages = map[string]struct {
	damage func(*site)
	want   string
}{
	"a bullet lost":        {func(x *site) { check(x.T, x.kv.Delete(x.Context(), "b.bullet.misc-00002")) }, `bullet "misc-00002" is missing`},
	"the head lost":        {func(x *site) { check(x.T, x.kv.Delete(x.Context(), "b.head")) }, "the head of the view is gone"},
	"an unreadable head":   {func(x *site) { x.put("b.head", []byte("?")) }, "the head of the view is gone or cannot be read"},
	"an unreadable bullet": {func(x *site) { x.put("b.bullet.misc-00002", []byte{0xc1}) }, `key "b.bullet.misc-00002" of the view holds no bullet`},
	"a foreign key": {func(x *site) {
		x.put("b.bullet.misc-00099", &playbook.Bullet{ID: "misc-00099", Section: "others", Content: "stray"})
	}, `key "b.bullet.misc-00099" of the view holds what the log does not know`},
	"something else's key": {func(x *site) { x.put("b.config", []byte("on")) }, `key "b.config" of the view holds what the log does not know`},
	"a bullet under another's key": {
		func(x *site) { x.put("b.bullet.misc-00003", x.bullet("misc-00002")) },
		`key "b.bullet.misc-00003" of the view holds no bullet, or another one`,
	},
	"another content": {func(x *site) {
		b := x.bullet("misc-00002")
		b.Content, b.Helpful = "forged", 99
		x.put("b.bullet.misc-00002", b)
	}, `bullet "misc-00002" in the view has another content, helpful than the log says`},
	"another time, which no checksum covers": {func(x *site) {
		b := x.bullet("misc-00002")
		b.UpdatedAt = b.UpdatedAt.AddDate(1, 0, 0)
		x.put("b.bullet.misc-00002", b)
	}, `bullet "misc-00002" in the view has another updated_at than the log says`},
	"a view of another log":   {func(x *site) { x.copyView(newSite(x.T, "other", 5)) }, "the view is at version 5@"},
	"a view ahead of its log": {func(x *site) { x.copyView(newSite(x.T, "r", 9)) }, "the log lost its end, or is of another installation"},
}

func TestVerifyNamesWhatIsWrongWithAViewAndARebuildMendsIt(t *testing.T) {
	t.Parallel()
	for name, c := range viewDamages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newSite(t, "r", 5)
			f, wait, err := x.s.Follow(t.Context(), "b")
			check(t, err)
			defer wait()
			sound := x.verify()
			if len(sound.Findings) > 0 || sound.Version != 5 || sound.View != 5 || sound.Deltas != 5 || sound.Bullets != 5 {
				t.Fatalf("before the damage: got %+v", sound)
			}
			c.damage(x)
			finds(t, x.verify(), natskv.Broken, c.want)
			finds(t, x.verify(), natskv.Broken, "run 'debrief playbook rebuild --book b'")

			check(t, x.w.Rebuild(t.Context()))
			check(t, x.w.Flush(t.Context()))
			if got := x.verify(); len(got.Findings) > 0 || got.StateHash != sound.StateHash || got.ChainHash != sound.ChainHash {
				t.Errorf("rebuilt: got %+v, want what it was before", got)
			}
			x.more("after", 12)
			check(t, f.Wait(t.Context(), 12))
			again, waitAgain, err := x.s.Follow(t.Context(), "b")
			check(t, err)
			defer waitAgain()
			for which, f := range map[string]*natskv.Follower{"attached before the damage": f, "new": again} {
				f.Read(func(p *playbook.Playbook, _ []byte) {
					if p.StateHash() != x.w.State().Playbook().StateHash() {
						t.Errorf("follower %s: version %d with %d bullets is not what the writer has", which, p.Version(), p.Len())
					}
				})
			}
		})
	}
}

// TestADamagedViewIsNoReasonNotToOpenTheBook: who opens it mends it, where the head's checksum tells.
func TestADamagedViewIsNoReasonNotToOpenTheBook(t *testing.T) {
	t.Parallel()
	for name, c := range viewDamages {
		if strings.Contains(name, "no checksum") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newSite(t, "r", 5)
			want := x.verify()
			c.damage(x)
			w := writer(t, x.s, "b")
			check(t, w.Flush(t.Context()))
			if strings.Contains(name, "log") { // the view knew of another end of the log, and that stays to be seen
				finds(t, x.verify(), natskv.Broken, "stream DELTAS lost the end of the log: the view was at version")
				if w = writer(t, x.s, "b"); w.Lost() == "" {
					t.Error("the loss is forgotten")
				}
				commit(t, w, add("r6", 6))
				check(t, w.Flush(t.Context()))
				finds(t, x.verify(), natskv.Broken, "stream DELTAS lost the end of the log: the view was at version")
				check(t, w.Rebuild(t.Context()))
				check(t, w.Flush(t.Context()))
				want.StateHash = x.verify().StateHash
			}
			if got := x.verify(); len(got.Findings) > 0 || got.StateHash != want.StateHash || writer(t, x.s, "b").Lost() != "" {
				t.Errorf("got %+v, want it mended", got)
			}
		})
	}
}

func TestVerifyNamesWhatIsWrongWithALog(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(*site)
		kind   natskv.Severity
		want   string
	}{
		"a delta of another installation": {func(x *site) {
			x.append(newSite(x.T, "other", 6).log()[5], events.SchemaHeader())
		}, natskv.Skipped, "sequence 6 of stream DELTAS"},
		"a delta a second time": {func(x *site) { x.append(x.log()[4], events.SchemaHeader()) }, natskv.Skipped, "delta 5 does not follow version 5@"},
		"two logs in one": {func(x *site) {
			for _, data := range newSite(x.T, "other", 4).log() {
				x.append(data, events.SchemaHeader())
			}
		}, natskv.Skipped, "readers skip 4 messages"},
		"bytes that are no delta": {func(x *site) { x.append([]byte("?"), events.SchemaHeader()) }, natskv.Skipped, "(1 bytes) is not part of the log: decode delta"},
		"a message of nobody":     {func(x *site) { x.append(x.log()[4], nil) }, natskv.Skipped, "header Ace-Schema"},
		"a delta that names one that is missing": {func(x *site) {
			lost := newSite(x.T, "r", 7).log()
			x.append([]byte("7"), events.SchemaHeader()) // in the place of delta 6
			x.append(lost[6], events.SchemaHeader())
		}, natskv.Broken, "names a delta at sequence 6, which is missing or damaged"},
		"a record of a newer kind": {func(x *site) { x.append([]byte{0x80}, nats.Header{events.HeaderSchema: {"2"}}) }, natskv.Broken, "verify with the program that wrote it"},
		"a stale view":             {func(x *site) { commit(x, x.w, add("r6", 6)) }, natskv.Behind, "1 versions behind"},
		"a floor beyond the stream": {func(x *site) {
			commit(x, x.w, func(natskv.State) ([]*playbook.Delta, error) { return []*playbook.Delta{{Floor: 77}}, nil })
		}, natskv.Missing, "up to sequence 77 are settled, the stream REFLECTIONS ends at 0"},
		"parts of a change that came to no end": {func(x *site) {
			interrupted(x, x.w, 2)
			commit(x, x.w, add("r6", 6))
		}, natskv.Note, "2 deltas are parts of changes that came to no end"},
		"a change under way": {func(x *site) { interrupted(x, x.w, 3) }, natskv.Note, "in the middle of a change, after 3 of its deltas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newSite(t, "r", 5)
			c.damage(x)
			got := x.verify()
			finds(t, got, c.kind, c.want)
			if got.Deltas < 5 || got.Version < 5 || got.View != 5 || !strings.HasPrefix(got.Label, fmt.Sprint(got.Version, "@")) {
				t.Errorf("got %+v of a log of %d", got, len(x.log()))
			}
			for _, f := range got.Findings { // the view is sound, and is compared as far as the log can be read
				if strings.Contains(f.Text, "rebuild") {
					t.Errorf("got %q of a view that is as it should be", f.Text)
				}
			}
		})
	}
}

func TestVerifyAView(t *testing.T) {
	t.Parallel()
	s, _ := open(t)
	v, err := s.Verify(t.Context(), "b")
	check(t, err)
	if len(v.Findings) > 0 || v.Version != 0 {
		t.Errorf("of a book that does not exist: got %+v", v)
	}
	commit(t, writer(t, s, "b"), add("r1", 1))
	v, err = s.Verify(t.Context(), "b")
	check(t, err)
	finds(t, v, natskv.Behind, "there is no view yet")
	if _, err := s.Verify(t.Context(), "no book"); err == nil {
		t.Error("a name that cannot be: got no error")
	}
}

// TestAViewOfALogThatBreaksBeforeItIsComparedWithNothing: a view was written, then the log's middle was replaced.
func TestAViewOfALogThatBreaksBeforeItIsComparedWithNothing(t *testing.T) {
	t.Parallel()
	whole, broken := newSite(t, "r", 5), newSite(t, "r", 0)
	for i, data := range whole.log() {
		if i == 2 {
			data = bytes.Replace(data, []byte("lesson r2"), []byte("lesson 66"), 1)
		}
		broken.append(data, events.SchemaHeader())
	}
	broken.copyView(whole)
	got := broken.verify()
	finds(t, got, natskv.Broken, "the message at sequence 5 does not follow version 3@")
	finds(t, got, natskv.Note, "compared with nothing")
}

// TestASequenceThatWasGivenOutTwiceIsNoticed: the server lost the end of the log, and others wrote it anew.
func TestASequenceThatWasGivenOutTwiceIsNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	x, other := newSite(t, "r", 5), newSite(t, "other", 5)
	stream, err := x.js.Stream(t.Context(), events.StreamDeltas)
	check(t, err)
	check(t, x.js.DeleteStream(t.Context(), events.StreamDeltas))
	_, err = x.js.CreateStream(t.Context(), stream.CachedInfo().Config)
	check(t, err)
	for _, data := range other.log() {
		x.append(data, events.SchemaHeader())
	}
	if err := x.w.CheckView(t.Context()); !errors.Is(err, natskv.ErrBrokenLog) {
		t.Errorf("got %v, want ErrBrokenLog", err)
	}
	finds(t, x.verify(), natskv.Broken, "the view is at version 5@")
	w := writer(t, x.s, "b")
	check(t, w.Flush(t.Context()))
	finds(t, x.verify(), natskv.Broken, "stream DELTAS lost the end of the log")
	check(t, w.Rebuild(t.Context()))
	check(t, w.Flush(t.Context()))
	if got := x.verify(); len(got.Findings) > 0 || got.StateHash != other.verify().StateHash {
		t.Errorf("opened anew: got %+v, want the log as it is now, and its view", got)
	}
}

// finds fails the test unless a verification has such a finding.
func finds(t *testing.T, v *natskv.Verification, kind natskv.Severity, text string) {
	t.Helper()
	for _, f := range v.Findings {
		if f.Severity == kind && strings.Contains(f.Text, text) {
			return
		}
	}
	t.Errorf("got %q, want one that is %s and says %q", v.Findings, kind, text)
}

// TestTheHeadersOfAnAnswerMayBeStored: a log and a view that somebody copied with them are read like any other.
func TestTheHeadersOfAnAnswerMayBeStored(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"204", "404", "503"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			from, x := newSite(t, "r", 5), newSite(t, "r", 0)
			copied := func(more nats.Header) nats.Header {
				maps.Copy(more, nats.Header{
					"Status": {status}, "Nats-Num-Pending": {"0"}, "Nats-Sequence": {"none"}, "Nats-Subject": {"elsewhere"},
				})
				return more
			}
			for _, data := range from.log() {
				x.append(data, copied(events.SchemaHeader()))
			}
			put := func(key string, header nats.Header, data []byte) {
				_, err := x.js.PublishMsg(t.Context(), &nats.Msg{Subject: "$KV." + events.BucketPlaybook + "." + key, Data: data, Header: header})
				check(t, err)
			}
			keys, err := from.kv.Keys(t.Context())
			check(t, err)
			for _, key := range keys {
				e, err := from.kv.Get(t.Context(), key)
				check(t, err)
				put(key, copied(nats.Header{}), e.Value())
			}
			put("b.bullet.misc-00099", copied(nats.Header{"KV-Operation": {"DEL"}}), nil)

			current, err := x.s.Current(t.Context(), "b")
			check(t, err)
			books, err := x.s.Books(t.Context())
			check(t, err)
			if v := x.verify(); !current || len(books) != 1 || books[0] != "b" || len(v.Findings) > 0 || v.Deltas != 5 {
				t.Errorf("current %v, books %v, %+v; want a sound book b of 5 deltas", current, books, v)
			}
			w := writer(t, x.s, "b")
			if got, want := w.State().Playbook().StateHash(), from.w.State().Playbook().StateHash(); got != want || w.Lag() != 0 {
				t.Errorf("opened %d versions behind, and with another state: %v", w.Lag(), got != want)
			}
			commit(t, w, add("r6", 6))
			put(events.HeadKey("b"), copied(nats.Header{}), nil) // an empty message with the status of nobody there
			finds(t, x.verify(), natskv.Broken, "the head of the view is gone or cannot be read")
			check(t, w.CheckView(t.Context()))
			check(t, w.Flush(t.Context()))
			if v := x.verify(); len(v.Findings) > 0 || v.Version != 6 {
				t.Errorf("mended: got %+v", v)
			}
		})
	}
}
