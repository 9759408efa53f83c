package replay

import (
	"context"
	"fmt"
	"strings"
	"time"

	"debrief/cmd/internal/report"
	"debrief/cmd/internal/stats"
	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// logged is what a run keeps of its book's log.
type logged struct {
	seq      uint64
	version  uint64               // of the last change of the bullets; that names were given is none
	covers   map[events.ID]uint64 // the version in which an edit took effect
	done     []report.Operation
	made     map[string]int // operations by kind
	rejected map[string]int
}

func newLogged() *logged {
	return &logged{covers: map[events.ID]uint64{}, made: map[string]int{}, rejected: map[string]int{}}
}

// follow reads what has come since.
func (l *logged) follow(ctx context.Context, store *natskv.Store, b playbook.Book) error {
	return store.Since(ctx, b, l.seq, func(rec *natskv.Record) error {
		l.note(rec)
		return nil
	})
}

func (l *logged) note(rec *natskv.Record) {
	l.seq = rec.Seq
	if len(rec.Names) == 0 || len(rec.Ops) > 0 {
		l.version = rec.Version
	}
	for _, cover := range rec.Covers {
		l.covers[events.ID(cover.ID)] = rec.Version
	}
	for i := range rec.Ops {
		op := &rec.Ops[i]
		l.made[string(op.Kind)]++
		l.done = append(l.done, operation(rec.Version, op, ""))
	}
	for i := range rec.Rejected {
		j := &rec.Rejected[i]
		l.rejected[kindOf(j.Reason)]++
		l.done = append(l.done, operation(rec.Version, &j.Op, j.Reason))
	}
}

func operation(version uint64, op *playbook.Op, rejected string) report.Operation {
	return report.Operation{
		Version: version, Kind: string(op.Kind), Bullet: op.Bullet, Section: op.Section, Content: op.Content,
		Reason: op.Reason, Rejected: rejected,
	}
}

// kindOf is a reason without what is in quotes and without numbers, so that equal reasons count together.
func kindOf(reason string) string {
	var out strings.Builder
	quoted := false
	for _, c := range reason {
		switch {
		case c == '"':
			if quoted = !quoted; quoted {
				out.WriteString("…")
			}
		case quoted:
		case c >= '0' && c <= '9':
			if s := out.String(); !strings.HasSuffix(s, "n") {
				out.WriteByte('n')
			}
		default:
			out.WriteRune(c)
		}
	}
	return events.Beginning(out.String(), 120)
}

// deadEdit is why an edit of the run was given up, "" if it was not.
func (l *ledger) deadEdit(e *events.Edit) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.edits[e.ID]
}

// account completes the report.
func (r *run) account(ctx context.Context) error {
	if err := r.names(ctx); err != nil {
		return err
	}
	p, err := r.store.At(ctx, r.book, r.report.Final.Version)
	if err != nil {
		return err
	}
	for _, b := range p.Sorted() {
		row := report.Bullet{
			ID: b.ID, Section: b.Section, Content: b.Content, Status: string(b.Status),
			Helpful: b.Helpful, Harmful: b.Harmful, Neutral: b.Neutral,
		}
		if u := r.used[b.ID]; u != nil {
			row.Shown, row.Cited, row.Right = u.shown, u.cited, u.right
		}
		r.report.Bullets = append(r.report.Bullets, row)
	}
	rep := &r.report
	rep.Format, rep.Mode, rep.Settings, rep.Data = report.Format, string(r.Mode), r.Settings, r.Sets.Data()
	if r.streams() {
		rep.Data[0].Samples = r.step
	}
	rep.Paired = r.paired()
	rep.Operations, rep.Rejected = r.logged.made, r.logged.rejected
	g, f, model := r.ledger.usage()
	rep.Cost = report.Cost{Generator: g, Reflector: f, Curator: r.state.curating()}
	s := r.state.now()
	rep.Run = report.Run{
		Name: r.Name, Book: string(r.book), Model: model, From: r.From, Begun: s.Begun, Ended: s.Ended, Resumed: s.Resumed, Debrief: r.Debrief,
	}
	rep.Timing = report.Timing{Seconds: s.Seconds, Learning: r.phases[0].Seconds(), Evaluating: r.phases[1].Seconds()}
	if s.Seconds > 0 {
		rep.Timing.PerSecond = float64(r.step) / s.Seconds
	}
	return nil
}

// paired compares the answers to the test set after with those before, sample by sample. Those that have no judgement in
// one of the two are left out of both.
func (r *run) paired() *report.Pair {
	if r.report.Before == nil || r.report.After == nil {
		return nil
	}
	var was, is []bool
	first := map[int]report.Sample{}
	judged := func(s *report.Sample) bool { return s.Label != "" && s.Label != events.Unknown }
	for i := range r.samples {
		s := &r.samples[i]
		if s.Set != Test {
			continue
		}
		b, again := first[s.Index]
		switch {
		case !again:
			first[s.Index] = *s
		case judged(&b) && judged(s):
			was, is = append(was, b.Label == events.Success), append(is, s.Label == events.Success)
		}
	}
	p := report.Pair(stats.Paired(was, is))
	return &p
}

// names marks the versions that people will ask for: the best one and the ends of epochs.
func (r *run) names(ctx context.Context) error {
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
	return r.commit(ctx, &events.Edit{ID: events.Hash(id...), Author: author, Reason: "run " + r.Name + " has ended", Names: all})
}

// usage counts how often a bullet was shown to training samples.
type usage struct{ shown, cited, right int }

func (r *run) use(a *answer) {
	at := func(id playbook.BulletID) *usage {
		if r.used[id] == nil {
			r.used[id] = new(usage)
		}
		return r.used[id]
	}
	for _, id := range a.shown {
		u := at(id)
		u.shown++
		if a.label == events.Success {
			u.right++
		}
	}
	for _, id := range a.cited {
		at(id).cited++
	}
}

// now is the run's record, as it is at this moment.
func (s *state) now() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.record
	if s.over {
		rec.Seconds = s.before
	} else {
		rec.Seconds = s.before + time.Since(s.began).Seconds()
		rec.Ended = time.Now().UTC()
	}
	return rec
}
