package deltalog_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// site is an installation with one book, "b".
type site struct {
	*testing.T
	s  *deltalog.Store
	js jetstream.JetStream
	kv jetstream.KeyValue
	w  *deltalog.Writer
}

// newSite creates a book with a number of bullets, one version each, and its view. The name makes the contents differ.
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

// more commits bullets until the book has the given number, and flushes.
func (x *site) more(name string, bullets int) {
	x.Helper()
	for i := x.w.State().Playbook().Len(); i < bullets; i++ {
		commit(x, x.w, add(fmt.Sprint(name, i), uint64(i+1)))
	}
	check(x.T, x.w.Flush(x.Context()))
}

func (x *site) verify() *deltalog.Verification {
	x.Helper()
	v, err := x.s.Verify(x.Context(), "b")
	check(x.T, err)
	return v
}

// append stores a record without any check.
func (x *site) append(data []byte, header nats.Header) {
	x.Helper()
	_, err := x.js.PublishMsg(x.Context(), &nats.Msg{Subject: events.KindDelta.Subject("b"), Data: data, Header: header})
	check(x.T, err)
}

// log returns the stored records.
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

// copyView copies the view of another site to x.
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

// bullet returns a copy of a bullet of the state.
func (x *site) bullet(id playbook.BulletID) *playbook.Bullet {
	b := *x.w.State().Playbook().Bullet(id)
	return &b
}

// viewDamages are kinds of damage of a view, each with the expected finding.
var viewDamages = map[string]struct {
	damage func(*site)
	want   deltalog.FindingCode
	names  string
}{
	"a bullet lost":        {func(x *site) { check(x.T, x.kv.Delete(x.Context(), "b.bullet.misc-00002")) }, deltalog.FindingViewKey, "misc-00002"},
	"the head lost":        {func(x *site) { check(x.T, x.kv.Delete(x.Context(), "b.head")) }, deltalog.FindingViewHead, ""},
	"an unreadable head":   {func(x *site) { x.put("b.head", []byte("?")) }, deltalog.FindingViewHead, ""},
	"an unreadable bullet": {func(x *site) { x.put("b.bullet.misc-00002", []byte{0xc1}) }, deltalog.FindingViewKey, "b.bullet.misc-00002"},
	"a foreign key": {func(x *site) {
		x.put("b.bullet.misc-00099", &playbook.Bullet{ID: "misc-00099", Section: "others", Content: "stray"})
	}, deltalog.FindingViewKey, "b.bullet.misc-00099"},
	"an unknown key": {func(x *site) { x.put("b.config", []byte("on")) }, deltalog.FindingViewKey, "b.config"},
	"a bullet under another's key": {
		func(x *site) { x.put("b.bullet.misc-00003", x.bullet("misc-00002")) },
		deltalog.FindingViewKey, "b.bullet.misc-00003",
	},
	"another content": {func(x *site) {
		b := x.bullet("misc-00002")
		b.Content, b.Helpful = "forged", 99
		x.put("b.bullet.misc-00002", b)
	}, deltalog.FindingViewKey, "misc-00002"},
	"another time, which no checksum covers": {func(x *site) {
		b := x.bullet("misc-00002")
		b.UpdatedAt = b.UpdatedAt.AddDate(1, 0, 0)
		x.put("b.bullet.misc-00002", b)
	}, deltalog.FindingViewKey, "misc-00002"},
	"a view of another log":   {func(x *site) { x.copyView(newSite(x.T, "other", 5)) }, deltalog.FindingOtherLog, ""},
	"a view ahead of its log": {func(x *site) { x.copyView(newSite(x.T, "r", 9)) }, deltalog.FindingLogEnd, ""},
}

func TestVerifyReportsDamagedViewsAndRebuildFixesThem(t *testing.T) {
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
			finds(t, x.verify(), deltalog.Broken, c.want, c.names)
			if !slices.ContainsFunc(x.verify().Findings, func(f deltalog.Finding) bool { return strings.Contains(f.Text, "debrief playbook rebuild --book b") }) {
				t.Errorf("got %q, want the command that fixes it", x.verify().Findings)
			}

			check(t, x.w.Rebuild(t.Context()))
			check(t, x.w.Flush(t.Context()))
			if got := x.verify(); len(got.Findings) > 0 || got.StateHash != sound.StateHash || got.ChainHash != sound.ChainHash {
				t.Errorf("rebuilt: got %+v, want the state before the damage", got)
			}
			x.more("after", 12)
			check(t, f.Wait(t.Context(), 12))
			again, waitAgain, err := x.s.Follow(t.Context(), "b")
			check(t, err)
			defer waitAgain()
			for which, f := range map[string]*deltalog.Follower{"attached before the damage": f, "new": again} {
				f.Read(func(p *playbook.Playbook, _ []byte) {
					if p.StateHash() != x.w.State().Playbook().StateHash() {
						t.Errorf("follower %s: version %d with %d bullets differs from the writer", which, p.Version(), p.Len())
					}
				})
			}
		})
	}
}

// TestWriterOpensAndRepairsADamagedView: the first flush repairs every damage that the head's checksum detects.
func TestWriterOpensAndRepairsADamagedView(t *testing.T) {
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
			if strings.Contains(name, "log") { // the view had another end of the log: the loss stays reported
				finds(t, x.verify(), deltalog.Broken, deltalog.FindingLogEnd, "DELTAS")
				if w = writer(t, x.s, "b"); w.LostVersion() == "" {
					t.Error("the loss is no longer recorded")
				}
				commit(t, w, add("r6", 6))
				check(t, w.Flush(t.Context()))
				finds(t, x.verify(), deltalog.Broken, deltalog.FindingLogEnd, "DELTAS")
				check(t, w.Rebuild(t.Context()))
				check(t, w.Flush(t.Context()))
				want.StateHash = x.verify().StateHash
			}
			if got := x.verify(); len(got.Findings) > 0 || got.StateHash != want.StateHash || writer(t, x.s, "b").LostVersion() != "" {
				t.Errorf("got %+v, want it repaired", got)
			}
		})
	}
}

func TestVerifyReportsDamagedLogs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		damage func(*site)
		kind   deltalog.Severity
		want   deltalog.FindingCode
		names  string
	}{
		"a delta of another installation": {func(x *site) {
			x.append(newSite(x.T, "other", 6).log()[5], events.SchemaHeader())
		}, deltalog.Skipped, deltalog.FindingStray, "sequence 6"},
		"a delta a second time": {func(x *site) { x.append(x.log()[4], events.SchemaHeader()) }, deltalog.Skipped, deltalog.FindingStray, "delta 5"},
		"two logs in one": {func(x *site) {
			for _, data := range newSite(x.T, "other", 4).log() {
				x.append(data, events.SchemaHeader())
			}
		}, deltalog.Skipped, deltalog.FindingStray, "4 messages"},
		"bytes that are no delta":  {func(x *site) { x.append([]byte("?"), events.SchemaHeader()) }, deltalog.Skipped, deltalog.FindingStray, "1 bytes"},
		"a message without header": {func(x *site) { x.append(x.log()[4], nil) }, deltalog.Skipped, deltalog.FindingStray, events.HeaderSchema},
		"a delta that follows a missing one": {func(x *site) {
			lost := newSite(x.T, "r", 7).log()
			x.append([]byte("7"), events.SchemaHeader()) // in the place of delta 6
			x.append(lost[6], events.SchemaHeader())
		}, deltalog.Broken, deltalog.FindingUnreadable, "sequence 6"},
		"a record of a newer kind": {func(x *site) { x.append([]byte{0x80}, nats.Header{events.HeaderSchema: {"2"}}) }, deltalog.Broken, deltalog.FindingNewerSchema, ""},
		"a stale view":             {func(x *site) { commit(x, x.w, add("r6", 6)) }, deltalog.Behind, deltalog.FindingViewBehind, "1 versions"},
		"a floor beyond the stream": {func(x *site) {
			commit(x, x.w, func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{{Floor: 77}}, nil })
		}, deltalog.Missing, deltalog.FindingFloor, "77"},
		"parts of an abandoned change": {func(x *site) {
			interrupted(x, x.w, 2)
			commit(x, x.w, add("r6", 6))
		}, deltalog.Note, deltalog.FindingAbandoned, "2 deltas"},
		"an incomplete change": {func(x *site) { interrupted(x, x.w, 3) }, deltalog.Note, deltalog.FindingIncomplete, "3 deltas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := newSite(t, "r", 5)
			c.damage(x)
			got := x.verify()
			finds(t, got, c.kind, c.want, c.names)
			if got.Deltas < 5 || got.Version < 5 || got.View != 5 || !strings.HasPrefix(got.Label, fmt.Sprint(got.Version, "@")) {
				t.Errorf("got %+v of a log of %d", got, len(x.log()))
			}
			for _, f := range got.Findings { // the view matches the readable part of the log
				if strings.Contains(f.Text, "rebuild") {
					t.Errorf("got %q for a correct view", f.Text)
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
	finds(t, v, deltalog.Behind, deltalog.FindingViewMissing)
	if _, err := s.Verify(t.Context(), "no book"); err == nil {
		t.Error("an invalid name: got no error")
	}
}

// TestVerifyDoesNotCompareAViewAfterTheBrokenLog: a view was written, then the log's middle was replaced.
func TestVerifyDoesNotCompareAViewAfterTheBrokenLog(t *testing.T) {
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
	finds(t, got, deltalog.Broken, deltalog.FindingUnreadable, "sequence 5")
	finds(t, got, deltalog.Note, deltalog.FindingNotCompared)
}

// TestReusedSequenceIsDetected: the server lost the end of the log, and other deltas got the same sequences.
func TestReusedSequenceIsDetected(t *testing.T) {
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
	if err := x.w.CheckView(t.Context()); !errors.Is(err, deltalog.ErrBrokenLog) {
		t.Errorf("got %v, want ErrBrokenLog", err)
	}
	finds(t, x.verify(), deltalog.Broken, deltalog.FindingOtherLog)
	w := writer(t, x.s, "b")
	check(t, w.Flush(t.Context()))
	finds(t, x.verify(), deltalog.Broken, deltalog.FindingLogEnd, "DELTAS")
	check(t, w.Rebuild(t.Context()))
	check(t, w.Flush(t.Context()))
	if got := x.verify(); len(got.Findings) > 0 || got.StateHash != other.verify().StateHash {
		t.Errorf("rebuilt: got %+v, want the current log and its view", got)
	}
}

// finds fails the test unless a verification has a finding with this severity and code that contains all names.
func finds(t *testing.T, v *deltalog.Verification, kind deltalog.Severity, code deltalog.FindingCode, names ...string) {
	t.Helper()
	for _, f := range v.Findings {
		lacks := func(name string) bool { return !strings.Contains(f.Text, name) }
		if f.Severity == kind && f.Code == code && !slices.ContainsFunc(names, lacks) {
			return
		}
	}
	t.Errorf("got %q, want %s, %s, which names %q", v.Findings, kind, code, names)
}

// TestStoredReplyHeadersAreIgnored: a log and a view may be copied together with the headers of the server's replies.
func TestStoredReplyHeadersAreIgnored(t *testing.T) {
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

			current, err := x.s.IsViewCurrent(t.Context(), "b")
			check(t, err)
			books, err := x.s.BooksWithView(t.Context())
			check(t, err)
			if v := x.verify(); !current || len(books) != 1 || books[0] != "b" || len(v.Findings) > 0 || v.Deltas != 5 {
				t.Errorf("current %v, books %v, %+v; want an intact book b of 5 deltas", current, books, v)
			}
			w := writer(t, x.s, "b")
			if got, want := w.State().Playbook().StateHash(), from.w.State().Playbook().StateHash(); got != want || w.ViewLag() != 0 {
				t.Errorf("opened %d versions behind, and with another state: %v", w.ViewLag(), got != want)
			}
			commit(t, w, add("r6", 6))
			put(events.HeadKey("b"), copied(nats.Header{}), nil) // looks like the server's reply "no responders"
			finds(t, x.verify(), deltalog.Broken, deltalog.FindingViewHead)
			check(t, w.CheckView(t.Context()))
			check(t, w.Flush(t.Context()))
			if v := x.verify(); len(v.Findings) > 0 || v.Version != 6 {
				t.Errorf("repaired: got %+v", v)
			}
		})
	}
}
