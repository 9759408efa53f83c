package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"debrief/cmd/internal/report"
	"debrief/cmd/internal/stats"
	"debrief/events"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// bookLog is the part of the delta log that a run keeps in memory.
type bookLog struct {
	seq          uint64
	playbook     playbook.Playbook      // folded up to seq
	byVersion    map[uint64]report.Book // by version
	editVersions map[events.ID]uint64   // edit id to the version in which it took effect
	coveredSeqs  map[uint64]bool        // by sequence of the reflection
	learnPoints  []learnPoint
	newest       uint64 // newest version with a change other than version names
	operations   []report.Operation
}

// learnPoint is the first version that learned from an execution stored at seq or later.
type learnPoint struct{ seq, version uint64 }

func newBookLog() *bookLog {
	l := &bookLog{byVersion: map[uint64]report.Book{}, editVersions: map[events.ID]uint64{}, coveredSeqs: map[uint64]bool{}}
	l.byVersion[0] = describeBook(&l.playbook)
	return l
}

// follow reads the records that were added since the last call.
func (l *bookLog) follow(ctx context.Context, store *deltalog.Store, b playbook.Book) error {
	return store.DeltasAfter(ctx, b, l.seq, func(rec *deltalog.Record) error {
		return l.apply(rec)
	})
}

func (l *bookLog) apply(rec *deltalog.Record) error {
	if _, err := l.playbook.Apply(&rec.Delta); err != nil {
		return fmt.Errorf("fold version %d: %w", rec.Version, err)
	}
	l.seq, l.byVersion[rec.Version] = rec.Seq, describeBook(&l.playbook)
	if rec.Author != author { // online, the edits of the run itself only name versions
		l.newest = rec.Version
	}
	for _, cover := range rec.Covers {
		l.editVersions[events.ID(cover.ID)] = rec.Version
		if cover.Evidence == nil {
			continue
		}
		l.coveredSeqs[cover.Seq] = true
		seq, _, err := events.Handle(cover.Evidence.Execution).Parse()
		if n := len(l.learnPoints); err == nil && (n == 0 || seq > l.learnPoints[n-1].seq) {
			l.learnPoints = append(l.learnPoints, learnPoint{seq, rec.Version})
		}
	}
	for i := range rec.Ops {
		op := &rec.Ops[i]
		l.operations = append(l.operations, newOperation(rec.Version, op, op.Code, ""))
	}
	for i := range rec.Rejected {
		j := &rec.Rejected[i]
		l.operations = append(l.operations, newOperation(rec.Version, &j.Op, j.Code, j.Reason))
	}
	return nil
}

// coversReflection reports whether the log covers a reflection.
func (l *bookLog) coversReflection(h events.Handle) bool {
	seq, _, err := h.Parse()
	return err == nil && l.coveredSeqs[seq]
}

// versionBefore returns the newest version that learned from no execution stored after a sequence.
func (l *bookLog) versionBefore(seq uint64) uint64 {
	i, _ := slices.BinarySearchFunc(l.learnPoints, seq+1, func(at learnPoint, seq uint64) int { return cmp.Compare(at.seq, seq) })
	if i < len(l.learnPoints) {
		return l.learnPoints[i].version - 1
	}
	return l.newest
}

// operationsBetween returns the operations of the versions above after, up to and including last. This leaves out the
// operations of the fork and edits by people after the end of the run.
func (l *bookLog) operationsBetween(after, last uint64) []report.Operation {
	return slices.DeleteFunc(slices.Clone(l.operations), func(o report.Operation) bool { return o.Version <= after || o.Version > last })
}

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

func newOperation(version uint64, op *playbook.Op, code playbook.Reason, rejected string) report.Operation {
	return report.Operation{
		Version: version, Kind: string(op.Kind), Bullet: op.Bullet, Section: op.Section, Content: op.Content,
		Code: code, Reason: op.Reason, Rejected: rejected,
	}
}

// summarize fills in the report at the end of a run.
func (r *run) summarize(ctx context.Context) error {
	if err := r.nameVersions(ctx); err != nil {
		return err
	}
	p, err := r.store.PlaybookAt(ctx, r.book, r.report.Final.Version)
	if err != nil {
		return err
	}
	used := r.tracker.bulletUsages()
	for _, b := range p.Sorted() {
		row := report.Bullet{
			ID: b.ID, Section: b.Section, Content: b.Content, Status: string(b.Status),
			Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
		}
		u := used[b.ID]
		row.Shown, row.Cited, row.Right = u.shown, u.cited, u.right
		r.report.Bullets = append(r.report.Bullets, row)
	}
	rep := &r.report
	rep.Format, rep.Mode, rep.Settings, rep.Data = report.Format, string(r.Mode), r.Settings, r.Sets.Data()
	if r.streams() {
		rep.Data[0].Samples = r.step
	}
	rep.Paired = r.paired()
	r.operations = r.log.operationsBetween(r.forked, rep.Final.Version)
	rep.Operations, rep.Rejected = map[string]int{}, map[string]int{}
	for i := range r.operations {
		if o := &r.operations[i]; o.Rejected != "" {
			rep.Rejected[string(o.Code)]++
		} else {
			rep.Operations[o.Kind]++
		}
	}
	g, f, model := r.tracker.usage()
	if r.Source.tracker != nil {
		sourceUsage, _, _ := r.Source.tracker.usage()
		g = addUsage(g, sourceUsage.Calls, sourceUsage.InputTokens, sourceUsage.OutputTokens, sourceUsage.Dollars)
	}
	rep.Cost = report.Cost{Generator: g, Reflector: f, Curator: r.state.curatorUsage()}
	s := r.state.snapshot()
	rep.Run = report.Run{
		Name: r.Name, Book: string(r.book), Model: model, From: r.From, Begun: s.Begun, Ended: s.Ended, Resumed: s.Resumed, Debrief: r.Debrief,
	}
	rep.Timing = report.Timing{Seconds: s.Seconds, Learning: r.phases[0].Seconds(), Evaluating: r.phases[1].Seconds()}
	if s.Seconds > 0 {
		rep.Timing.PerSecond = float64(r.step) / s.Seconds
	}
	return nil
}

// paired compares the answers to the test set before and after the run, sample by sample. Samples without a label in
// either are left out.
func (r *run) paired() *report.Pair {
	if r.report.Before == nil || r.report.After == nil {
		return nil
	}
	var before, after []bool
	first := map[int]report.Sample{}
	labelled := func(s *report.Sample) bool { return s.Label != "" && s.Label != events.Unknown }
	for i := range r.samples {
		s := &r.samples[i]
		if s.Set != Test {
			continue
		}
		b, again := first[s.Index]
		switch {
		case !again:
			first[s.Index] = *s
		case labelled(&b) && labelled(s):
			before, after = append(before, b.Label == events.Success), append(after, s.Label == events.Success)
		}
	}
	p := report.Pair(stats.Paired(before, after))
	return &p
}

// nameVersions gives names to the best version and to the last version of each epoch.
func (r *run) nameVersions(ctx context.Context) error {
	var all []playbook.Name
	if v := r.report.Best.Version; v > 0 { // the empty playbook needs no name
		all = append(all, playbook.Name{Name: "best", Version: v})
	}
	for _, e := range r.report.Epochs {
		if e.Book.Version > 0 {
			all = append(all, playbook.Name{Name: fmt.Sprintf("epoch-%d", e.Epoch), Version: e.Book.Version})
		}
	}
	if len(all) == 0 {
		return nil
	}
	id := []string{"names", string(r.book)}
	for _, n := range all {
		id = append(id, n.Name, fmt.Sprint(n.Version))
	}
	_, err := r.commit(ctx, &events.Edit{ID: events.Hash(id...), Author: author, Reason: "run " + r.Name + " has ended", Names: all})
	return err
}

// bulletUsage counts the training samples whose prompt contained a bullet.
type bulletUsage struct{ shown, cited, right int }

// countBullets counts the bullets of an execution. The caller holds the lock.
func (l *tracker) countBullets(e *events.Execution) {
	at := func(id playbook.BulletID) *bulletUsage {
		if l.bulletUse[id] == nil {
			l.bulletUse[id] = new(bulletUsage)
		}
		return l.bulletUse[id]
	}
	for _, b := range e.Shown {
		u := at(b.ID)
		u.shown++
		if e.Outcome.Label == events.Success {
			u.right++
		}
	}
	for _, id := range e.Cited {
		at(id).cited++
	}
}

func (l *tracker) bulletUsages() map[playbook.BulletID]bulletUsage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[playbook.BulletID]bulletUsage, len(l.bulletUse))
	for id, u := range l.bulletUse {
		all[id] = *u
	}
	return all
}

// snapshot returns the current record of the run.
func (s *state) snapshot() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.record
	if s.ended {
		rec.Seconds = s.before
	} else {
		rec.Seconds = s.before + time.Since(s.began).Seconds()
		rec.Ended = time.Now().UTC()
	}
	return rec
}
