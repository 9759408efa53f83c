package deltalog

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/playbook"
)

// Severity is the kind of a finding.
type Severity string

const (
	// Broken: the stored data is inconsistent or unreadable.
	Broken Severity = "broken"
	// Behind: the view is consistent, but incomplete or older than the log.
	Behind Severity = "behind"
	// Skipped: the subject of the log has messages that are not part of the log. The book itself is intact.
	Skipped Severity = "skipped"
	// Missing: another stream lacks, or may lack, messages that the log refers to.
	Missing Severity = "missing"
	// Note: information only.
	Note Severity = "note"
)

// FindingCode is the code of a finding, for programs. Codes are printed by commands, so never change one.
type FindingCode string

const (
	FindingUnreadable    FindingCode = "unreadable-log"      // the log is inconsistent: readers stop there
	FindingNewerSchema   FindingCode = "newer-schema"        // a newer program wrote the rest of the log
	FindingUnread        FindingCode = "unread-messages"     // messages after the unreadable one
	FindingStray         FindingCode = "stray"               // messages that are not part of the log
	FindingDuplicateAdd  FindingCode = "duplicate-add"       // a bullet was added twice
	FindingDuplicate     FindingCode = "duplicate-cover"     // an event was applied twice
	FindingIncomplete    FindingCode = "incomplete-change"   // the log ends in a change that is not complete
	FindingAbandoned     FindingCode = "abandoned-change"    // deltas of changes that were never completed
	FindingFloor         FindingCode = "floor"               // the floor does not match the stream of reflections, or was not checked
	FindingLogEnd        FindingCode = "lost-end"            // the log lost its end, or is of another installation than the view
	FindingOtherLog      FindingCode = "view-of-another-log" // the view has another delta at its version
	FindingViewHead      FindingCode = "view-head"           // the head of the view is unreadable or differs from the log
	FindingViewKey       FindingCode = "view-key"            // another key of the view is unreadable or differs from the log
	FindingViewMissing   FindingCode = "view-missing"        // the view does not exist yet
	FindingViewPartial   FindingCode = "view-incomplete"     // a large change of the view is not complete
	FindingViewBehind    FindingCode = "view-behind"         // the view is older than the log
	FindingNotCompared   FindingCode = "view-not-compared"   // the view is newer than the readable part of the log
	FindingRedaction     FindingCode = "redaction"           // a redaction differs from what the log lists, or is lost
	FindingErasure       FindingCode = "unfinished-erasure"  // texts that are to be erased are still stored
	FindingDamagedStream FindingCode = "damaged-stream"      // the server has reported damage of a stream
)

// Finding is one result of a verification. Text describes it and, if possible, the command that fixes it.
type Finding struct {
	Severity Severity    `json:"severity"`
	Code     FindingCode `json:"code"`
	Text     string      `json:"text"`
}

// Verification is the result of Verify. Version, hashes and bullets describe the log, or its readable part.
type Verification struct {
	Book      playbook.Book `json:"book"`
	Version   uint64        `json:"version"`
	Label     string        `json:"label"` // version and chain hash, for display
	StateHash string        `json:"state_hash"`
	ChainHash string        `json:"chain_hash"`
	Deltas    int           `json:"deltas"`
	Bytes     int           `json:"bytes"`     // of the deltas
	Abandoned int           `json:"abandoned"` // deltas of changes that were never completed
	Bullets   int           `json:"bullets"`
	View      uint64        `json:"view_version"`       // 0 without a view
	Redacted  []Redacted    `json:"redacted,omitempty"` // versions whose texts were erased
	Strays    []Stray       `json:"strays,omitempty"`
	Findings  []Finding     `json:"findings"`
}

// Damaged reports whether a finding is Broken: stored data of the playbook is inconsistent, unreadable or lost.
func (v *Verification) Damaged() bool {
	return slices.ContainsFunc(v.Findings, func(f Finding) bool { return f.Severity == Broken })
}

// Verify checks a book's log and compares the view with it. Damage is reported as a finding. It returns an error only if
// the server cannot be read.
func (s *Store) Verify(ctx context.Context, b playbook.Book) (*Verification, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	v := &verifier{
		Verification: Verification{Book: b, Findings: []Finding{}},
		fold:         fold{book: b}, log: &logCursor{book: b},
		redactions: redactionCheck{listed: listings{}, original: map[uint64]bool{}},
	}
	v.log.onStray = func(stray Stray) { v.Strays = append(v.Strays, stray) }
	view, err := s.stableView(ctx, b)
	if err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.view = view
	v.View = view.head.Version
	// The log is read after the view, so that it contains every delta that the view contains.
	err = s.readDeltas(ctx, v.log, v.checkRecord)
	if err := v.reportReadError(err); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.reportLog()
	if more := v.repeated - maxDifferences; more > 0 {
		v.addFinding(Broken, FindingDuplicate, "%d more are applied more than once", more)
	}
	if err := v.reportRedactions(ctx, s); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	v.reportView()
	if err := v.checkFloor(ctx, s); err != nil {
		return nil, fmt.Errorf("verify playbook %q: %w", b, err)
	}
	return &v.Verification, nil
}

// verifier is the state of a running verification.
type verifier struct {
	Verification
	fold     fold
	log      *logCursor
	view     *view
	covered  index // the ids that the log covers so far
	repeated int   // number of events that are covered again

	redactions redactionCheck

	broken      bool   // the log cannot be read to its end
	parts       int    // number of deltas read of a change that is not complete yet
	change      string // id of that change
	compared    bool   // the view was compared with the log at the view's version
	differences int    // keys of the view that differ from the log
}

func (v *verifier) addFinding(s Severity, code FindingCode, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{s, code, fmt.Sprintf(format, args...)})
}

// rebuildHint returns the instruction to rebuild the view.
func (v *verifier) rebuildHint() string {
	return fmt.Sprintf("run 'debrief playbook rebuild --book %s'", v.Book)
}

// checkRecord checks the next delta of the log.
func (v *verifier) checkRecord(r *Record) error {
	v.Deltas++
	v.Bytes += r.Size
	if _, err := v.fold.apply(r); err != nil {
		return err
	}
	v.countAbandoned(r)
	v.checkCovers(r)
	v.redactions.add(r)
	for _, id := range v.fold.playbook.DuplicateAdds() {
		v.addFinding(Broken, FindingDuplicateAdd, "version %d adds bullet %q, which already existed: the added content is lost", r.Version, id)
	}
	if h := &v.view.head; r.Version == h.Version && !h.Partial {
		v.compareView(r)
	}
	return nil
}

// reportReadError adds a finding if the log itself caused the error of reading it. It returns every other error.
func (v *verifier) reportReadError(err error) error {
	if err == nil {
		v.log.confirmStrays() // the messages after the last delta
		return nil
	}
	switch {
	case errors.Is(err, events.ErrNewerSchema):
		v.addFinding(Broken, FindingNewerSchema, "the log cannot be read to its end: %v; verify it with the program that wrote it", err)
	case errors.Is(err, ErrBrokenLog):
		v.addFinding(Broken, FindingUnreadable, "%v: readers stop after version %s; restore the stream %s from a backup", err,
			playbook.VersionLabel(v.fold.playbook.Version(), v.fold.chain), events.StreamDeltas)
	default:
		return err
	}
	v.broken = true
	v.addFinding(Broken, FindingUnread, "%d messages after that version were not read", len(v.log.undecided))
	return nil
}

// checkCovers finds events that the next delta of a log covers again.
func (v *verifier) checkCovers(r *Record) {
	inDelta := make(map[playbook.CoverKey]bool, len(r.Covers))
	for _, cover := range r.Covers {
		key := cover.Key()
		if v.covered.has(key) || inDelta[key] {
			v.reportRepeated(&cover, r.Version)
		}
		inDelta[key] = true
	}
	v.covered.add(r)
}

// reportRepeated adds a finding for an event that is covered again.
func (v *verifier) reportRepeated(cover *playbook.Cover, version uint64) {
	v.repeated++
	if v.repeated > maxDifferences {
		return
	}
	fix := ""
	if e := cover.Evidence; e != nil {
		fix = fmt.Sprintf("; run 'debrief playbook forget --book %s --execution %s' to remove its votes", v.Book, e.Execution)
	}
	v.addFinding(Broken, FindingDuplicate, "%s %s is applied more than once: again in version %d%s", cover.Kind(), cover.ID, version, fix)
}

// countAbandoned counts the deltas of changes that another delta interrupted.
func (v *verifier) countAbandoned(r *Record) {
	if v.parts > 0 && r.ChangeID != v.change {
		v.Abandoned += v.parts
		v.parts = 0
	}
	v.parts++
	v.change = r.ChangeID
	if !r.More {
		v.parts = 0
	}
}

// reportLog fills in the fields of the log and adds findings about strays and incomplete changes.
func (v *verifier) reportLog() {
	p := &v.fold.playbook
	state := p.StateHash()
	v.Version, v.Bullets = p.Version(), p.Len()
	v.Label = playbook.VersionLabel(p.Version(), v.fold.chain)
	v.StateHash = hex.EncodeToString(state[:])
	v.ChainHash = hex.EncodeToString(v.fold.chain)
	v.reportStrays()
	if v.parts > 0 {
		v.addFinding(Note, FindingIncomplete, "the log ends in an incomplete change of %d deltas: a curator is writing it, or died while writing it and another one repeats the change; it has no effect until it is complete", v.parts)
	}
	if v.Abandoned > 0 {
		v.addFinding(Note, FindingAbandoned, "%d deltas belong to abandoned changes; they have no effect, and the changes were repeated", v.Abandoned)
	}
}

// maxStrays is the maximum number of strays that a verification lists.
const maxStrays = 20

// reportStrays adds a finding for each stray, and one for all of them.
func (v *verifier) reportStrays() {
	for _, s := range v.Strays[:min(len(v.Strays), maxStrays)] {
		v.addFinding(Skipped, FindingStray, "the message at sequence %d of stream %s (%d bytes) is not part of the log: %s", s.Seq, events.StreamDeltas, s.Size, s.Reason)
	}
	if n := len(v.Strays); n > 0 {
		v.addFinding(Skipped, FindingStray, "readers skip %d messages that are not part of the log: they do no harm, and 'nats stream rmm %s SEQUENCE' removes one", n, events.StreamDeltas)
	}
}

// compareView compares the view with the log at the view's version.
func (v *verifier) compareView(r *Record) {
	v.compared = true
	h, p := &v.view.head, &v.fold.playbook
	if h.Seq != r.Seq || !bytes.Equal(h.Chain, r.Chain) {
		v.addFinding(Broken, FindingOtherLog, "the view is at version %s of another log: in this log that version is %s: %s",
			playbook.VersionLabel(h.Version, h.Chain), playbook.VersionLabel(r.Version, r.Chain), v.rebuildHint())
		return
	}
	if h.Count != p.Len() || h.Sum != p.Checksum() {
		v.addFinding(Broken, FindingViewHead, "the head of the view has %d bullets and checksum %x, the log has %d bullets and checksum %x at version %d: %s",
			h.Count, h.Sum, p.Len(), p.Checksum(), h.Version, v.rebuildHint())
	} else if !v.sameHead(h) {
		v.addFinding(Broken, FindingViewHead, "the head of the view has another state of the playbook than the log at version %d: %s", h.Version, v.rebuildHint())
	}
	for _, b := range p.Sorted() {
		v.compareBullet(b)
	}
	for _, key := range slices.Sorted(maps.Keys(v.view.values)) {
		v.addDifference("key %q of the view is not in the log", key)
	}
	if v.differences > maxDifferences {
		v.addFinding(Broken, FindingViewKey, "%d more keys of the view differ from the log", v.differences-maxDifferences)
	}
	if v.differences > 0 {
		v.addFinding(Broken, FindingViewKey, "the view differs from the log at %d keys: %s", v.differences, v.rebuildHint())
	}
}

// sameHead reports whether the head of the view has the state of the log. Three differences are allowed. The fields that describe the view
// are not part of the log. From may be lower. A selector may still have names that a redaction has erased, until a version lists the
// redaction.
func (v *verifier) sameHead(h *head) bool {
	want, got := v.fold.head(), *h
	got.Lost, got.Recent = nil, nil
	got.Since, got.WithKeys = 0, false
	got.From = max(got.From, want.From)
	got.Admission.Forgotten = slices.Clone(h.Admission.Forgotten)
	for i := range min(len(got.Admission.Forgotten), len(want.Admission.Forgotten)) {
		f := &got.Admission.Forgotten[i]
		_, isListed := v.redactions.listed[f.Version]
		erased := want.Admission.Forgotten[i].Selector.Erased // number of erased names
		if !isListed && erased > 0 {
			f.Selector = f.Selector.WithoutNames(erased)
		}
	}
	return sameEncoding(&want, &got)
}

// sameEncoding reports whether two values are stored as the same bytes.
func sameEncoding(a, b any) bool {
	one, err := events.Marshal(a)
	other, otherErr := events.Marshal(b)
	return err == nil && otherErr == nil && bytes.Equal(one, other)
}

// maxDifferences is the maximum number of differing keys that a verification lists.
const maxDifferences = 20

// addDifference counts a key of the view that differs from the log. The first maxDifferences become findings.
func (v *verifier) addDifference(format string, args ...any) {
	v.differences++
	if v.differences <= maxDifferences {
		v.addFinding(Broken, FindingViewKey, format, args...)
	}
}

// compareBullet compares one bullet of the log with the view, and removes its key from the values still to compare.
func (v *verifier) compareBullet(b *playbook.Bullet) {
	key := events.BulletKey(v.Book, b.ID)
	got, ok := v.view.values[key]
	delete(v.view.values, key)
	switch {
	case !ok:
		v.addDifference("bullet %q is missing from the view", b.ID)
	case got.bullet == nil:
		v.addDifference("key %q of the view is unreadable or does not contain bullet %q", key, b.ID)
	case !sameEncoding(got.bullet, b):
		v.addDifference("bullet %q of the view differs from the log", b.ID)
	}
}

// reportView adds findings about the state of the view. Call it after the whole log was read.
func (v *verifier) reportView() {
	h := &v.view.head
	if h.Lost != nil {
		v.addFinding(Broken, FindingLogEnd, "stream %s lost the end of the log: the view was at %s, and the log continued from an earlier version; restore the stream from a backup, or accept the loss: %s",
			events.StreamDeltas, h.Lost, v.rebuildHint())
	}
	switch {
	case h.Partial:
		v.addFinding(Behind, FindingViewPartial, "the view is incomplete: a curator is writing a large change, or died while writing it; a running curator completes it within 15 seconds; if none runs, start one")
	case h.Version == 0 && v.Deltas == 0 && len(v.view.values) == 0: // the book does not exist
	case h.Version == 0 && v.view.headRev == 0 && len(v.view.values) == 0:
		v.addFinding(Behind, FindingViewMissing, "the view does not exist yet: a running curator writes it within 15 seconds; if none runs, start one")
	case h.Version == 0:
		v.addFinding(Broken, FindingViewHead, "the head of the view is missing or unreadable: %s", v.rebuildHint())
	case v.compared && h.Version < v.Version:
		v.addFinding(Behind, FindingViewBehind, "the view is %d versions behind the log: a running curator updates it within 15 seconds; if none runs, start one", v.Version-h.Version)
	case v.compared: // both have the same version
	case v.broken:
		v.addFinding(Note, FindingNotCompared, "the view is at version %d, which is after the readable part of the log: the view was not compared", h.Version)
	default:
		v.addFinding(Broken, FindingLogEnd, "the view is at version %s and the log ends at %s: the log lost its end or belongs to another installation; if the log is correct, %s",
			playbook.VersionLabel(h.Version, h.Chain), v.Label, v.rebuildHint())
	}
}

// checkFloor compares the floor of the log with the end of the stream REFLECTIONS.
func (v *verifier) checkFloor(ctx context.Context, s *Store) error {
	stream, err := s.js.Stream(ctx, events.StreamReflections)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		v.addFinding(Note, FindingFloor, "stream %s does not exist: the floor of the log was not checked", events.StreamReflections)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open stream %s: %w", events.StreamReflections, err)
	}
	if last := stream.CachedInfo().State.LastSeq; v.fold.floor > last {
		v.addFinding(Missing, FindingFloor, "the log records acknowledged reflections up to sequence %d, but stream %s ends at %d: the stream was recreated, or log and stream are from different installations; covered events are still detected by their ids",
			v.fold.floor, events.StreamReflections, last)
	}
	return nil
}
