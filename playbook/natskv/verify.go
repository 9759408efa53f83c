package natskv

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Severity says what kind of finding one is.
type Severity string

const (
	// Broken: what is stored contradicts itself or cannot be read.
	Broken Severity = "broken"
	// Behind: what is stored is right, as far as it goes.
	Behind Severity = "behind"
	// Skipped: the subject of the log holds messages that are not part of it. The book is as it should be.
	Skipped Severity = "skipped"
	// Missing: another stream lacks, or may lack, messages that the log was made from.
	Missing Severity = "missing"
	// Note: nothing is wrong, and somebody may want to know.
	Note Severity = "note"
)

// Finding is one thing that a verification found: a sentence that says what to do where there is something to do.
type Finding struct {
	Severity Severity `json:"severity"`
	Text     string   `json:"text"`
}

// Verification is what can be said of a stored book without a model and without a clock. Version, hashes and bullets are
// those of the log, or of its readable part.
type Verification struct {
	Book      playbook.Book `json:"book"`
	Version   uint64        `json:"version"`
	Label     string        `json:"label"` // version and chain hash, as people see it
	StateHash string        `json:"state_hash"`
	ChainHash string        `json:"chain_hash"`
	Deltas    int           `json:"deltas"`
	Bytes     int           `json:"bytes"` // of the deltas
	Abandoned int           `json:"abandoned"`
	Bullets   int           `json:"bullets"`
	View      uint64        `json:"view_version"` // 0 if there is none
	Strays    []Stray       `json:"strays,omitempty"`
	Findings  []Finding     `json:"findings"`
}

// Verify checks a book's log, and its view against it. Damage is a finding; an error is trouble with reading.
func (s *Store) Verify(ctx context.Context, b playbook.Book) (*Verification, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	v := &verifier{
		Verification: Verification{Book: b, Findings: []Finding{}}, fold: fold{book: b}, log: &logCursor{book: b}, covers: newCoverCheck(),
	}
	v.log.found = func(stray Stray) { v.Strays = append(v.Strays, stray) }
	var err error
	// First the view, then the log, which then knows whatever the view can hold.
	if v.view, err = s.steadyView(ctx, b); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.View = v.view.head.Version
	err = s.deltas(ctx, v.log, v.record)
	if err = v.endOf(err); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.endLog()
	if err := v.endCovers(ctx, s); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.endView()
	if err := v.floor(ctx, s); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	return &v.Verification, nil
}

// steadyView is the view, read again for a while where it does not fit its head: somebody may be writing it.
func (s *Store) steadyView(ctx context.Context, b playbook.Book) (*view, error) {
	for try := 1; ; try++ {
		v, err := s.readView(ctx, b)
		if err != nil || try == viewReads || v.head.Version == 0 && !v.head.Partial || v.playbook() != nil {
			return v, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(partialWait):
		}
	}
}

// verifier is a verification under way.
type verifier struct {
	Verification
	fold   fold
	log    *logCursor
	view   *view
	covers coverCheck

	broken  bool // the log cannot be read to its end
	parts   int  // of a change that has not come to its end
	change  string
	checked bool // the view, against the version that it is at
	differ  int  // keys of the view that do not hold what they should
}

func (v *verifier) find(s Severity, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{s, fmt.Sprintf(format, args...)})
}

// rebuild is what to do about a view.
func (v *verifier) rebuild() string {
	return fmt.Sprintf("run 'debrief playbook rebuild --book %s'", v.Book)
}

// record takes the next delta of the log.
func (v *verifier) record(r *Record) error {
	v.Deltas++
	v.Bytes += r.Size
	if _, err := v.fold.apply(r); err != nil {
		return err
	}
	v.count(r)
	v.covers.take(r)
	for _, id := range v.fold.playbook.Taken() {
		v.find(Broken, "version %d adds bullet %q, which was there before: what it says is lost", r.Version, id)
	}
	if h := &v.view.head; r.Version == h.Version && !h.Partial {
		v.compare(r)
	}
	return nil
}

// endOf turns the error of reading the log into a finding, where it is about the log.
func (v *verifier) endOf(err error) error {
	switch {
	case errors.Is(err, events.ErrNewerSchema):
		v.find(Broken, "the log cannot be read to its end: %v: verify with the program that wrote it", err)
	case errors.Is(err, ErrBrokenLog):
		v.find(Broken, "%v: what comes after version %s is lost to readers; restore the stream %s from a backup", err,
			playbook.Label(v.fold.playbook.Version(), v.fold.chain), events.StreamDeltas)
	case err != nil:
		return err
	default:
		v.log.settle()
		return nil
	}
	v.broken = true
	v.find(Broken, "%d messages come after that version and were not read", len(v.log.open))
	return nil
}

// count counts parts of changes that another delta cut off.
func (v *verifier) count(r *Record) {
	if v.parts > 0 && r.Change != v.change {
		v.Abandoned += v.parts
		v.parts = 0
	}
	v.parts++
	v.change = r.Change
	if !r.More {
		v.parts = 0
	}
}

func (v *verifier) endLog() {
	p := &v.fold.playbook
	state := p.StateHash()
	v.Version, v.Bullets, v.Label = p.Version(), p.Len(), playbook.Label(p.Version(), v.fold.chain)
	v.StateHash, v.ChainHash = hex.EncodeToString(state[:]), hex.EncodeToString(v.fold.chain)
	v.reportStrays()
	if v.parts > 0 {
		v.find(Note, "the log ends in the middle of a change, after %d of its deltas: it is being written, or its curator died and another one makes it again; it has no effect before its end", v.parts)
	}
	if v.Abandoned > 0 {
		v.find(Note, "%d deltas are parts of changes that came to no end; they have no effect, and the changes were made again", v.Abandoned)
	}
}

// compare checks the view against the version that it is at.
func (v *verifier) compare(r *Record) {
	v.checked = true
	h, p := &v.view.head, &v.fold.playbook
	if h.Seq != r.Seq || !bytes.Equal(h.Chain, r.Chain) {
		v.find(Broken, "the view is at version %s of another log: here that version is %s: %s",
			playbook.Label(h.Version, h.Chain), playbook.Label(r.Version, r.Chain), v.rebuild())
		return
	}
	if h.Count != p.Len() || h.Sum != p.Checksum() {
		v.find(Broken, "the head of the view counts %d bullets under checksum %x, the log has %d under %x at version %d: %s",
			h.Count, h.Sum, p.Len(), p.Checksum(), h.Version, v.rebuild())
	}
	if h.Last != p.LastMinted() || h.From > v.fold.readFrom() {
		v.find(Broken, "the head of the view says that the last number minted was %d and that a start reads from sequence %d, the log says %d and %d: %s",
			h.Last, h.From, p.LastMinted(), v.fold.readFrom(), v.rebuild())
	}
	if mode, set := p.Gate(); set && h.Gate != mode || !set && h.Gate != "" {
		v.find(Broken, "the head of the view says that the gate is %q, the log says %q: %s", h.Gate, mode, v.rebuild())
	}
	for _, b := range p.Sorted() {
		v.compareBullet(b)
	}
	for _, key := range slices.Sorted(maps.Keys(v.view.values)) {
		v.differs("key %q of the view holds what the log does not know", key)
	}
	if v.differ > maxDiffer {
		v.find(Broken, "%d more keys of the view are not as the log says", v.differ-maxDiffer)
	}
	if v.differ > 0 {
		v.find(Broken, "the view does not say what the log says at %d keys: %s", v.differ, v.rebuild())
	}
}

// maxDiffer is how many keys are named that do not hold what they should.
const maxDiffer = 20

func (v *verifier) differs(format string, args ...any) {
	if v.differ++; v.differ <= maxDiffer {
		v.find(Broken, format, args...)
	}
}

// compareBullet checks one bullet of the log, and takes its key from the view.
func (v *verifier) compareBullet(b *playbook.Bullet) {
	key := events.BulletKey(v.Book, b.ID)
	is, ok := v.view.values[key]
	delete(v.view.values, key)
	switch {
	case !ok:
		v.differs("bullet %q is missing from the view", b.ID)
	case is.bullet == nil:
		v.differs("key %q of the view holds no bullet, or another one than %q", key, b.ID)
	default:
		if fields := differing(is.bullet, b); len(fields) > 0 {
			v.differs("bullet %q in the view has another %s than the log says", b.ID, strings.Join(fields, ", "))
		}
	}
}

// differing names the fields in which two bullets differ.
func differing(a, b *playbook.Bullet) (fields []string) {
	for _, f := range [...]struct {
		name string
		same bool
	}{
		{"section", a.Section == b.Section},
		{"content", a.Content == b.Content},
		{"helpful", a.Helpful == b.Helpful},
		{"harmful", a.Harmful == b.Harmful},
		{"neutral", a.Neutral == b.Neutral},
		{"status", a.Status == b.Status},
		{"pinned", a.Pinned == b.Pinned},
		{"rule", (a.Rule == nil) == (b.Rule == nil) && (a.Rule == nil || *a.Rule == *b.Rule)},
		{"case", reflect.DeepEqual(a.Case, b.Case)},
		{"backing", slices.Equal(a.Backing, b.Backing)},
		{"replaces", a.Replaces == b.Replaces},
		{"created_at", a.CreatedAt.Equal(b.CreatedAt)},
		{"updated_at", a.UpdatedAt.Equal(b.UpdatedAt)},
		{"last_used", a.LastUsed.Equal(b.LastUsed)},
	} {
		if !f.same {
			fields = append(fields, f.name)
		}
	}
	return fields
}

// endView says what is to be said of the view when the whole log is known.
func (v *verifier) endView() {
	h := &v.view.head
	if h.Lost != nil {
		v.find(Broken, "stream %s lost the end of the log: the view was at %s, and the log went on from an earlier version: restore the stream from a backup, or accept the loss: %s",
			events.StreamDeltas, h.Lost, v.rebuild())
	}
	switch {
	case h.Partial:
		v.find(Behind, "the view is being written, or its curator died in the middle of a large change: a running curator completes it within 15 seconds; if none runs, start one")
	case h.Version == 0 && v.Deltas == 0 && len(v.view.values) == 0: // nothing of nothing
	case h.Version == 0 && v.view.headRev == 0 && len(v.view.values) == 0:
		v.find(Behind, "there is no view yet: a running curator writes it within 15 seconds; if none runs, start one")
	case h.Version == 0:
		v.find(Broken, "the head of the view is gone or cannot be read: %s", v.rebuild())
	case v.checked && h.Version < v.Version:
		v.find(Behind, "the view is %d versions behind the log: a running curator brings it up within 15 seconds; if none runs, start one", v.Version-h.Version)
	case v.checked:
	case v.broken:
		v.find(Note, "the view is at version %d, which the log cannot be read to: it was compared with nothing", h.Version)
	default:
		v.find(Broken, "the view is at version %s and the log ends at %s: the log lost its end, or is of another installation; if it is the right one, %s",
			playbook.Label(h.Version, h.Chain), v.Label, v.rebuild())
	}
}

// floor compares what the log says is settled with the stream of reflections.
func (v *verifier) floor(ctx context.Context, s *Store) error {
	stream, err := s.js.Stream(ctx, events.StreamReflections)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		v.find(Note, "there is no stream %s to compare the log's floor with", events.StreamReflections)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamReflections, err)
	}
	if last := stream.CachedInfo().State.LastSeq; v.fold.floor > last {
		v.find(Missing, "the log says that reflections up to sequence %d are settled, the stream %s ends at %d: it was made anew, or log and stream are of different installations; what it delivers is told by its ids until it has come past that",
			v.fold.floor, events.StreamReflections, last)
	}
	return nil
}
