package replay

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"debrief/cmd/internal/report"
	"debrief/cmd/internal/stats"
	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/natskv"
)

// logged is what a run keeps of its book's log.
type logged struct {
	seq      uint64
	playbook playbook.Playbook      // as it is there
	books    map[uint64]report.Book // its versions
	covers   map[events.ID]uint64   // the version in which an edit took effect
	covered  map[uint64]bool        // the sequences of the reflections that took effect
	learned  []learned
	newest   uint64 // version that is more than names of others
	done     []report.Operation
}

// learned says that a version was the first to learn from an execution stored so late.
type learned struct{ seq, version uint64 }

func newLogged() *logged {
	l := &logged{books: map[uint64]report.Book{}, covers: map[events.ID]uint64{}, covered: map[uint64]bool{}}
	l.books[0] = describe(&l.playbook)
	return l
}

// follow reads what has come since.
func (l *logged) follow(ctx context.Context, store *natskv.Store, b playbook.Book) error {
	return store.Since(ctx, b, l.seq, func(rec *natskv.Record) error {
		return l.note(rec)
	})
}

func (l *logged) note(rec *natskv.Record) error {
	if _, err := l.playbook.Apply(&rec.Delta); err != nil {
		return fmt.Errorf("fold version %d: %w", rec.Version, err)
	}
	l.seq, l.books[rec.Version] = rec.Seq, describe(&l.playbook)
	if rec.Author != author { // the names at a run's end
		l.newest = rec.Version
	}
	for _, cover := range rec.Covers {
		l.covers[events.ID(cover.ID)] = rec.Version
		if cover.Evidence == nil {
			continue
		}
		l.covered[cover.Seq] = true
		seq, _, err := events.Handle(cover.Evidence.Execution).Parse()
		if n := len(l.learned); err == nil && (n == 0 || seq > l.learned[n-1].seq) {
			l.learned = append(l.learned, learned{seq, rec.Version})
		}
	}
	for i := range rec.Ops {
		op := &rec.Ops[i]
		l.done = append(l.done, operation(rec.Version, op, ""))
	}
	for i := range rec.Rejected {
		j := &rec.Rejected[i]
		l.done = append(l.done, operation(rec.Version, &j.Op, j.Reason))
	}
	return nil
}

// gathered reports whether the log covers the reflection of a handle.
func (l *logged) gathered(h events.Handle) bool {
	seq, _, err := h.Parse()
	return err == nil && l.covered[seq]
}

// before is the newest version that learned from no execution stored after a sequence.
func (l *logged) before(seq uint64) uint64 {
	i, _ := slices.BinarySearchFunc(l.learned, seq+1, func(at learned, seq uint64) int { return cmp.Compare(at.seq, seq) })
	if i < len(l.learned) {
		return l.learned[i].version - 1
	}
	return l.newest
}

// between are the operations of the versions after one, up to another: not those that the run began with, nor what people
// did to its book when it was over.
func (l *logged) between(after, last uint64) []report.Operation {
	return slices.DeleteFunc(slices.Clone(l.done), func(o report.Operation) bool { return o.Version <= after || o.Version > last })
}

func describe(p *playbook.Playbook) report.Book {
	d := report.Book{Version: p.Version(), StateHash: fmt.Sprintf("%x", p.StateHash())}
	for b := range p.All() {
		if b.Shown() {
			d.Bullets++
			d.Tokens += chat.Tokens(b.Content)
		}
	}
	return d
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

// account completes the report.
func (r *run) account(ctx context.Context) error {
	if err := r.names(ctx); err != nil {
		return err
	}
	p, err := r.store.At(ctx, r.book, r.report.Final.Version)
	if err != nil {
		return err
	}
	used := r.ledger.usedSoFar()
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
	r.operations = r.logged.between(r.forked, rep.Final.Version)
	rep.Operations, rep.Rejected = map[string]int{}, map[string]int{}
	for i := range r.operations {
		if o := &r.operations[i]; o.Rejected != "" {
			rep.Rejected[kindOf(o.Rejected)]++
		} else {
			rep.Operations[o.Kind]++
		}
	}
	g, f, model := r.ledger.usage()
	if r.Source.ledger != nil {
		asked, _, _ := r.Source.ledger.usage()
		g = spend(g, asked.Calls, asked.InputTokens, asked.OutputTokens, asked.Dollars)
	}
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
	_, err := r.commit(ctx, &events.Edit{ID: events.Hash(id...), Author: author, Reason: "run " + r.Name + " has ended", Names: all})
	return err
}

// usage counts how often a bullet was shown to training samples.
type usage struct{ shown, cited, right int }

// use counts the bullets of an answer. The lock is held.
func (l *ledger) use(e *events.Execution) {
	at := func(id playbook.BulletID) *usage {
		if l.used[id] == nil {
			l.used[id] = new(usage)
		}
		return l.used[id]
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

func (l *ledger) usedSoFar() map[playbook.BulletID]usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[playbook.BulletID]usage, len(l.used))
	for id, u := range l.used {
		all[id] = *u
	}
	return all
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
