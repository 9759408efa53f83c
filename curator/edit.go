package curator

import (
	"context"
	"errors"
	"fmt"

	"debrief/curator/draft"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/admit"
	"debrief/playbook/history"
)

// prepareTarget sets the target of an edit: it computes that of a restore or forget from the log, or reads the playbook that a fork copies.
// It also executes a rebuild, because the delta of a rebuild only records it.
func (w *worker) prepareTarget(ctx context.Context, b *book, item *workItem) error {
	if item.Edit.Rebuild {
		if item.Target == nil { // not rebuilt yet; a later call only has another version
			if err := w.rebuild(ctx, b); err != nil {
				return err
			}
		}
		item.Target = &draft.Target{Version: b.writer.State().Playbook().Version()}
		return nil
	}
	log := b.logCache.history(ctx, w.store, b.name)
	item.Target = new(draft.Target)
	var err error
	switch {
	case item.Edit.Fork != nil:
		if _, err := item.Edit.Fork.Version(); err != nil {
			item.Target.Problem = fmt.Sprintf("fork: %v", err)
			return nil
		}
		item.Target.Source, err = ForkSource(ctx, w.store, *item.Edit.Fork)
	case item.Edit.Restore != nil:
		item.Target.Playbook, item.Target.Version, err = history.StateAt(log, *item.Edit.Restore)
	default:
		err = w.prepareForget(ctx, log, item)
	}
	if missing := (*history.VersionNotFoundError)(nil); errors.As(err, &missing) {
		item.Target.Problem, err = missing.Error(), nil
	}
	return err
}

// rebuild folds the whole log, writes the differences to the view and removes the bytes of earlier values.
func (w *worker) rebuild(ctx context.Context, b *book) error {
	if err := b.writer.Rebuild(ctx); err != nil {
		return err
	}
	if err := b.writer.Flush(ctx); err != nil {
		return err
	}
	return w.store.RewriteView(ctx)
}

// ForkSource returns the playbook that a fork copies: the version of the fork, without the executions that were forgotten later. A text
// that no prompt may contain today is in quarantine, see admit.Pinned.
func ForkSource(ctx context.Context, store *deltalog.Store, f playbook.Fork) (*playbook.Playbook, error) {
	version, err := f.Version()
	if err != nil {
		return nil, err
	}
	old, newest, err := history.StateAt(store.History(ctx, f.Of), version)
	if err != nil {
		return nil, err
	}
	current, err := store.PlaybookAt(ctx, f.Of, newest)
	if err != nil {
		return nil, err
	}
	return admit.Pinned(old, current), nil
}

// prepareForget sets the target of a forget. It is no error if the log has no matching execution: an execution may be only in a session, or a
// Reflector may read it later.
func (w *worker) prepareForget(ctx context.Context, log history.Log, item *workItem) error {
	if err := ResolveSample(ctx, w.conn, log, item.Edit.Forget); err != nil {
		return err
	}
	stream, err := w.conn.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		return err
	}
	stored := stream.CachedInfo().State.LastSeq // the executions up to now
	f, err := history.Forget(log, *item.Edit.Forget)
	if err != nil {
		return err
	}
	*item.Target = draft.Target{Playbook: f.Playbook, Version: f.Newest, Before: stored + 1}
	return nil
}

// ResolveSample sets the sample of a selector that has the handle of an execution. It reads the stored execution or, if
// that has expired, its evidence in the log. It leaves the sample empty if the handle is unknown.
func ResolveSample(ctx context.Context, conn *bus.Conn, log history.Log, s *playbook.Selector) error {
	if s.Execution == "" || s.Sample != "" {
		return nil
	}
	seq, matches, err := events.Handle(s.Execution).Parse()
	if err != nil {
		return nil //nolint:nilerr // no execution has such a handle
	}
	found, err := conn.Events.Find(ctx, events.StreamExecutions, seq, matches)
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
	}
	if e, ok := found.(*events.Execution); ok {
		s.Sample = string(e.SampleID())
		return nil
	}
	return log(func(d *playbook.Delta) error {
		for _, c := range d.Covers {
			if c.Evidence != nil && c.Evidence.Execution == s.Execution {
				s.Sample = c.Evidence.Sample
			}
		}
		return nil
	})
}
