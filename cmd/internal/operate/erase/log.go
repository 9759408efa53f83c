package erase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/playbook"
	"debrief/playbook/history"
)

// author is the author of the changes of an erasure in the logs.
const author = "erasure"

// searchOldLogs adds the logs of the erased playbooks.
func (e *Eraser) searchOldLogs(ctx context.Context, f *found) error {
	tombstones, err := e.store.Tombstones(ctx)
	if err != nil {
		return fmt.Errorf("read the erasures: %w", err)
	}
	for _, t := range tombstones {
		if t.Kind == erasure.OfBook && t.Created.After(f.logs[t.Book].erased) {
			f.logs[t.Book] = oldLog{erased: t.Created}
		}
	}
	for b, log := range f.logs {
		log.read = time.Now()
		log.end, log.isNew, err = e.logs.EndBefore(ctx, b, log.erased)
		if err := e.unlessMissing(ctx, events.StreamDeltas, err); err != nil {
			return fmt.Errorf("search the log of playbook %q: %w", b, err)
		}
		f.logs[b] = log
	}
	return nil
}

// addLateDeltas adds what the logs of erased playbooks got during the search. The newest delta of a log is removed first: from then on no
// writer can continue the log.
func (e *Eraser) addLateDeltas(ctx context.Context, f *found) error {
	for b, log := range f.logs {
		if log.end == 0 || log.isNew {
			continue
		}
		q := direct.Query{Subject: events.KindDelta.Subject(b), From: log.end + 1}
		err := direct.Read(ctx, e.conn.NATS(), events.StreamDeltas, q, func(m direct.Message) error {
			f.addMessage(events.StreamDeltas, m.Seq)
			return nil
		})
		if err != nil {
			return fmt.Errorf("search the log of playbook %q: %w", b, err)
		}
	}
	return nil
}

// rebuildViews rebuilds the views of playbooks whose log was removed, if a writer has found the view without its log and recorded a loss.
func (e *Eraser) rebuildViews(ctx context.Context, books map[playbook.Book]bool) error {
	for b := range books {
		w, err := e.logs.Writer(ctx, b)
		if err == nil && w.LostVersion() != "" {
			err = e.edit(ctx, &events.Edit{Book: b, Rebuild: true})
		}
		if err != nil {
			return fmt.Errorf("rebuild the view of playbook %q: %w", b, err)
		}
	}
	return nil
}

// searchLogs adds the runs that the logs of the playbooks have evidence of, and what the playbooks must forget.
func (e *Eraser) searchLogs(ctx context.Context, f *found) error {
	books, err := e.logs.BooksWithLog(ctx)
	if err != nil {
		return fmt.Errorf("list playbooks: %w", err)
	}
	f.books = books
	for _, b := range books {
		e.progress(fmt.Sprintf("search the log of playbook %q", b))
		var edits []bookEdit // since the last erasure
		err := e.logs.ReadLog(ctx, b, func(r *deltalog.Record) error {
			for i := range r.Covers {
				c := &r.Covers[i]
				e.addEvidence(b, &r.Delta, c.Evidence, f)
				if c.Evidence == nil {
					edits = append(edits, bookEdit{b, c.ID})
				}
			}
			isErasure := r.Author == author && (r.Forget != nil || len(r.Redacted) > 0)
			if isErasure {
				f.addHandled(edits)
				edits = nil
			}
			if r.Author == author || len(r.Redacted) > 0 {
				f.learned[b] = true // an interrupted call may have left work
			}
			return nil
		})
		if errors.Is(err, deltalog.ErrBrokenLog) { // 'debrief playbook verify' reports it; the streams are erased nevertheless
			continue
		}
		if err != nil {
			return fmt.Errorf("search the log of playbook %q: %w", b, err)
		}
	}
	return nil
}

// addHandled adds edits whose effect is in the log before an erasure.
func (f *found) addHandled(edits []bookEdit) {
	for _, edit := range edits {
		f.handled[edit] = true
	}
}

// addEvidence adds an execution that a delta covers, and the run that it was compared with, if it is erased and its texts are still in the
// log.
func (e *Eraser) addEvidence(b playbook.Book, d *playbook.Delta, x *playbook.Evidence, f *found) {
	if x == nil {
		return
	}
	if playbook.IsErased(x.Excerpt) {
		f.learned[b] = true
		return
	}
	e.addRunOf(b, d, x, f)
	if compared := x.ComparedEvidence(); compared != nil {
		e.addRunOf(b, d, compared, f)
	}
}

// addRunOf adds the run of evidence, if it is erased.
func (e *Eraser) addRunOf(b playbook.Book, d *playbook.Delta, x *playbook.Evidence, f *found) {
	a, kind := e.erasedRun(b, d.Time, x)
	if a == nil {
		return
	}
	f.learned[b] = true
	f.addRun(a, nil)
	selector := playbook.Selector{Execution: x.Execution}
	switch kind {
	case erasure.OfUser:
		selector = playbook.Selector{User: x.User}
	case erasure.OfSession:
		selector = playbook.Selector{Session: x.Session, Owner: x.Owner}
	}
	f.forgets[bookSelector{b, selector}] = true
}

// erasedRun returns the run of evidence and the kind of the tombstone, if the run is erased, but not with its whole playbook; else nil. The
// run began before the delta that learned from it.
func (e *Eraser) erasedRun(b playbook.Book, learned time.Time, x *playbook.Evidence) (*erasure.About, erasure.Kind) {
	a := erasure.About{Book: b, Owner: x.Owner, User: x.User, Session: x.Session, Runs: []string{x.Execution, x.Sample}, Began: learned}
	kind, erased := e.filter.Match(&a)
	if !erased || kind == erasure.OfBook {
		return nil, ""
	}
	return &a, kind
}

// eraseLogs forgets the found runs, and replaces the deltas that have their texts. It also completes the work of an interrupted call. It
// returns the number of replaced deltas.
func (e *Eraser) eraseLogs(ctx context.Context, f *found) (versions int, err error) {
	if err := e.forgetRuns(ctx, f); err != nil {
		return 0, err
	}
	texts, sources, err := e.erasedTexts(ctx, f)
	if err != nil {
		return 0, err
	}
	for content := range texts {
		e.gone.wordings[events.WordingOf(content)] = true
	}
	if err := e.removeAdvice(ctx, f); err != nil { // before the log loses the texts: an interrupted call finds them there
		return 0, err
	}
	books := f.books
	if len(texts) == 0 { // then no other playbook has a copy, and its log need not be read again
		books = slices.DeleteFunc(slices.Clone(books), func(b playbook.Book) bool { return !f.learned[b] })
	}
	for _, b := range copiesFirst(books, sources) {
		n, err := e.redactLog(ctx, b, sources[b], texts, f.forgets)
		versions += n
		if errors.Is(err, deltalog.ErrBrokenLog) {
			continue
		}
		if err != nil {
			return versions, fmt.Errorf("erase texts of playbook %q: %w", b, err)
		}
	}
	return versions, nil
}

// forgetRuns makes the playbooks forget the found runs.
func (e *Eraser) forgetRuns(ctx context.Context, f *found) error {
	selectors := slices.SortedFunc(maps.Keys(f.forgets), func(a, b bookSelector) int {
		return strings.Compare(string(a.book)+a.selector.String(), string(b.book)+b.selector.String())
	})
	for _, s := range selectors {
		e.progress(fmt.Sprintf("forget in playbook %q, which needs a curator", s.book))
		if err := e.edit(ctx, &events.Edit{Book: s.book, Forget: &s.selector}); err != nil {
			return fmt.Errorf("forget in playbook %q: %w", s.book, err)
		}
	}
	return nil
}

// copiesFirst returns playbooks in the order in which their logs are redacted. A playbook that has learned from erased runs comes after those that
// can only have copies of its texts, because an interrupted call finds the copies by the texts of their sources.
func copiesFirst(books []playbook.Book, sources map[playbook.Book]runSet) []playbook.Book {
	return slices.SortedStableFunc(slices.Values(books), func(a, b playbook.Book) int { return cmp.Compare(len(sources[a]), len(sources[b])) })
}

// erasedTexts returns the texts of bullets that only erased runs support, each with the time from which a playbook had it. A fork, a promotion
// or an import may have copied them to any playbook. sources has the playbooks that have learned from erased runs, with the runs.
func (e *Eraser) erasedTexts(ctx context.Context, f *found) (texts map[string]time.Time, sources map[playbook.Book]runSet, err error) {
	texts, sources = map[string]time.Time{}, map[playbook.Book]runSet{}
	for _, b := range f.books {
		if !f.learned[b] {
			continue
		}
		runs, err := e.erasedEvidence(ctx, b)
		if err != nil && !errors.Is(err, deltalog.ErrBrokenLog) {
			return nil, nil, fmt.Errorf("search the log of playbook %q: %w", b, err)
		}
		if err != nil || len(runs) == 0 {
			continue
		}
		sources[b] = runs
		err = e.withRedactor(ctx, b, runs, func(r *history.Redactor) { r.AddErased(texts) })
		if err != nil {
			return nil, nil, err
		}
	}
	for _, b := range f.books {
		if len(texts) == 0 {
			break
		}
		err := e.withRedactor(ctx, b, sources[b], func(r *history.Redactor) { r.DropLearned(texts) })
		if err != nil {
			return nil, nil, err
		}
	}
	return texts, sources, nil
}

// withRedactor calls fn with a redactor of the log of a playbook. It skips a broken log.
func (e *Eraser) withRedactor(ctx context.Context, b playbook.Book, runs runSet, fn func(*history.Redactor)) error {
	r, err := history.NewRedactor(e.logs.History(ctx, b), runs.contain, nil)
	if errors.Is(err, deltalog.ErrBrokenLog) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("search the log of playbook %q: %w", b, err)
	}
	fn(r)
	return nil
}

// redactLog replaces the deltas of a playbook that have texts of the erased runs, or copies of such texts, or the names in a selector of forgets: several
// changes may have the same selector, of a person or of another eraser.
func (e *Eraser) redactLog(ctx context.Context, b playbook.Book, runs runSet, texts map[string]time.Time, forgets map[bookSelector]bool) (versions int, err error) {
	mustErase := func(x *playbook.Evidence) bool {
		selector := playbook.Selector{Source: x.Source, Owner: x.Owner, User: x.User, Session: x.Session, Execution: x.Execution, Sample: x.Sample}
		return runs.contain(x) || forgets[bookSelector{b, selector}]
	}
	redactor, err := history.NewRedactor(e.logs.History(ctx, b), mustErase, texts)
	if err != nil {
		return 0, err
	}
	if len(redactor.Shown()) > 0 {
		if err := e.removeCopies(ctx, b, redactor.Shown()); err != nil {
			return 0, err
		}
		redactor, err = history.NewRedactor(e.logs.History(ctx, b), mustErase, texts) // of the log with the removal
		if err != nil {
			return 0, err
		}
	}
	all, err := e.logs.Redact(ctx, b, redactor.Redact)
	if err != nil {
		return 0, err
	}
	for list := range slices.Chunk(all, events.MaxRedact) {
		e.progress(fmt.Sprintf("erase the texts of %d versions of playbook %q, which needs a curator", len(list), b))
		if err := e.edit(ctx, &events.Edit{Book: b, Redact: list}); err != nil {
			return 0, err
		}
	}
	if _, err := e.logs.RemoveRedacted(ctx, b); err != nil {
		return len(all), err
	}
	return len(all), e.rebuildView(ctx, b)
}

// rebuildView rebuilds the view of a playbook, so that the bytes of removed bullets leave it, unless an earlier call has.
func (e *Eraser) rebuildView(ctx context.Context, b playbook.Book) error {
	needed, err := e.needsRebuild(ctx, b)
	if err != nil || !needed {
		return err
	}
	return e.edit(ctx, &events.Edit{Book: b, Rebuild: true})
}

// needsRebuild reports whether an erasure has replaced deltas of a playbook after it rebuilt the view the last time. The log has both: a
// delta that lists the replaced ones, and a delta without any change for the rebuild.
func (e *Eraser) needsRebuild(ctx context.Context, b playbook.Book) (needed bool, err error) {
	err = e.logs.ReadLog(ctx, b, func(r *deltalog.Record) error {
		switch {
		case len(r.Redacted) > 0:
			needed = true
		case r.Author == author && r.Forget == nil && len(r.Ops)+len(r.Rejected) == 0:
			needed = false
		}
		return nil
	})
	return needed, err
}

// removeCopies removes bullets whose text was copied from a playbook in which it is erased.
func (e *Eraser) removeCopies(ctx context.Context, b playbook.Book, copies []*playbook.Bullet) error {
	e.progress(fmt.Sprintf("remove %d copied bullets of playbook %q, which needs a curator", len(copies), b))
	for part := range slices.Chunk(copies, maxCopies) {
		edit := &events.Edit{Book: b}
		for _, copied := range part {
			if copied.Pinned {
				edit.Ops = append(edit.Ops, playbook.Op{Kind: playbook.Pin, Bullet: copied.ID})
			}
			edit.Ops = append(edit.Ops, playbook.Op{Kind: playbook.Remove, Bullet: copied.ID})
		}
		if err := e.edit(ctx, edit); err != nil {
			return err
		}
	}
	return nil
}

// maxCopies limits the bullets that one edit removes.
const maxCopies = 100

// runSet has the handles of executions.
type runSet map[string]bool

// contain reports whether the set has the execution, or the run that it was compared with.
func (s runSet) contain(x *playbook.Evidence) bool {
	return s[x.Execution] || x.Compared != nil && s[x.Compared.Execution]
}

// erasedEvidence returns the erased executions that a log has evidence of.
func (e *Eraser) erasedEvidence(ctx context.Context, b playbook.Book) (runSet, error) {
	erased := runSet{}
	err := e.logs.ReadLog(ctx, b, func(r *deltalog.Record) error {
		for i := range r.Covers {
			x := r.Covers[i].Evidence
			for _, of := range [...]*playbook.Evidence{x, x.ComparedEvidence()} {
				if of == nil {
					continue
				}
				if a, _ := e.erasedRun(b, r.Time, of); a != nil {
					erased[of.Execution] = true
				}
			}
		}
		return nil
	})
	return erased, err
}

// edit sends an edit and waits for the curator. A refused edit is an error.
func (e *Eraser) edit(ctx context.Context, edit *events.Edit) error {
	edit.ID, edit.Author, edit.Created = events.NewID(), author, time.Now().UTC()
	return e.Edit(ctx, edit)
}
