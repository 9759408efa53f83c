package replay

import (
	"context"
	"fmt"

	"debrief/cmd/internal/train/report"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// bookLog is the part of the delta log that a run keeps in memory.
type bookLog struct {
	store *deltalog.Store
	book  playbook.Book

	seq          uint64                 // stream sequence of the last record that was read
	playbook     playbook.Playbook      // after that record
	byVersion    map[uint64]report.Book // the playbook at each version
	editVersions map[events.ID]uint64   // the version in which an edit took effect, by the id of the edit
	coveredSeqs  map[uint64]bool        // sequences of the reflections that the log covers
	learnPoints  []learnPoint           // both fields rise
	newest       uint64                 // newest version, without edits that a training run requested, such as names of versions
	operations   []report.Operation     // of all versions so far
	usages       []versionUsage         // of the versions with model calls
}

// versionUsage is the usage of the Curator's models for one version.
type versionUsage struct {
	version uint64
	report.Usage
}

// learnPoint is a version that learned from the execution at the sequence seq. No earlier version learned from that execution or a later one.
type learnPoint struct{ seq, version uint64 }

func newBookLog(store *deltalog.Store, b playbook.Book) *bookLog {
	l := &bookLog{store: store, book: b, byVersion: map[uint64]report.Book{}, editVersions: map[events.ID]uint64{}, coveredSeqs: map[uint64]bool{}}
	l.byVersion[0] = describeBook(&l.playbook)
	return l
}

// follow reads the records that were added since the last call.
func (l *bookLog) follow(ctx context.Context) error {
	return untilAnswered(ctx, func() error { return l.store.DeltasAfter(ctx, l.book, l.seq, l.apply) })
}

// apply adds a record.
func (l *bookLog) apply(rec *deltalog.Record) error {
	if _, err := l.playbook.Apply(&rec.Delta); err != nil {
		return fmt.Errorf("apply version %d: %w", rec.Version, err)
	}
	l.seq = rec.Seq
	l.byVersion[rec.Version] = describeBook(&l.playbook)
	if rec.Author != author {
		l.newest = rec.Version
	}
	if rec.Usage.Calls > 0 {
		l.usages = append(l.usages, versionUsage{rec.Version, report.UsageOf(chat.Usage(rec.Usage))})
	}
	for _, cover := range rec.Covers {
		if cover.Evidence == nil { // of an edit
			l.editVersions[events.ID(cover.ID)] = rec.Version
			continue
		}
		l.coveredSeqs[cover.Seq] = true
		seq, _, err := events.Handle(cover.Evidence.Execution).Parse()
		n := len(l.learnPoints)
		if err == nil && (n == 0 || seq > l.learnPoints[n-1].seq) {
			l.learnPoints = append(l.learnPoints, learnPoint{seq, rec.Version})
		}
	}
	for i := range rec.Ops {
		op := &rec.Ops[i]
		l.operations = append(l.operations, newOperation(rec.Version, op, op.Code, ""))
	}
	for i := range rec.Rejected {
		rejected := &rec.Rejected[i]
		l.operations = append(l.operations, newOperation(rec.Version, &rejected.Op, rejected.Code, rejected.Reason))
	}
	return nil
}

// usage returns the usage of the Curator's models up to a version.
func (l *bookLog) usage(version uint64) (sum report.Usage) {
	for _, u := range l.usages {
		if u.version <= version {
			sum = sum.Plus(u.Usage)
		}
	}
	return sum
}

// coversReflection reports whether the log covers a reflection.
func (l *bookLog) coversReflection(h events.Handle) bool {
	seq, _, err := h.Parse()
	return err == nil && l.coveredSeqs[seq]
}

// versionLearnedUpTo returns the newest version that learned from no execution after the one at the sequence lastExecution.
func (l *bookLog) versionLearnedUpTo(lastExecution uint64) uint64 {
	for _, p := range l.learnPoints {
		if p.seq > lastExecution {
			return p.version - 1
		}
	}
	return l.newest
}

// bookAt describes the playbook at the version of a position.
func (l *bookLog) bookAt(ctx context.Context, at position) (report.Book, error) {
	if _, ok := l.byVersion[at.version]; !ok {
		if err := l.follow(ctx); err != nil {
			return report.Book{}, err
		}
	}
	d, ok := l.byVersion[at.version]
	if !ok {
		return report.Book{}, &deltalog.VersionError{Book: l.book, Version: at.version, Newest: l.playbook.Version()}
	}
	d.Epoch, d.Step = at.epoch, at.step
	return d, nil
}

// describeBook counts the bullets that are shown to generators, and their tokens.
func describeBook(p *playbook.Playbook) report.Book {
	d := report.Book{Version: p.Version(), StateHash: fmt.Sprintf("%x", p.StateHash())}
	for b := range p.All() {
		if b.Shown() {
			d.Bullets++
			d.Tokens += chat.Tokens(b.Content)
		}
	}
	return d
}

// newOperation describes an operation. rejected is the reason for its rejection as a sentence, "" for an applied one.
func newOperation(version uint64, op *playbook.Op, code playbook.Reason, rejected string) report.Operation {
	return report.Operation{
		Version: version, Kind: string(op.Kind), Bullet: op.Bullet, Section: op.Section, Content: op.Content,
		Code: code, Reason: op.Reason, Rejected: rejected,
	}
}
