package curator

import (
	"context"
	"errors"
	"fmt"

	"debrief/curator/draft"
	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
	"debrief/playbook/history"
)

// readTarget computes the target of a restore or forget from the log. It also executes a rebuild, because the delta of a
// rebuild only records it.
func (w *worker) readTarget(ctx context.Context, b *book, item *workItem) error {
	if item.Edit.Rebuild {
		if item.Target == nil {
			if err := b.writer.Rebuild(ctx); err != nil {
				return err
			}
		}
		item.Target = &draft.Target{Version: b.writer.State().Playbook().Version()}
		return nil
	}
	log := w.store.History(ctx, b.name)
	item.Target = new(draft.Target)
	var err error
	if item.Edit.Restore != nil {
		item.Target.Playbook, item.Target.Version, err = history.StateAt(log, *item.Edit.Restore)
	} else {
		var f *history.Forgetting
		if err := ResolveSample(ctx, w.conn, log, item.Edit.Forget); err != nil {
			return err
		}
		if f, err = history.Forget(log, *item.Edit.Forget); err == nil {
			item.Target.Playbook, item.Target.Version = f.Playbook, f.Newest
			if f.Matched == 0 {
				item.Target.Problem = fmt.Sprintf("no execution in the playbook matches %s", item.Edit.Forget)
			}
		}
	}
	if missing := (*history.VersionNotFoundError)(nil); errors.As(err, &missing) {
		item.Target.Problem, err = missing.Error(), nil
	}
	return err
}

// ResolveSample sets the sample of a selector that has the handle of an execution. It reads the stored execution or, if
// that has expired, its evidence in the log. It leaves the sample empty if the handle is unknown.
func ResolveSample(ctx context.Context, conn *bus.Conn, log history.Log, s *playbook.Selector) error {
	if s.Execution == "" || s.Sample != "" {
		return nil
	}
	seq, is, err := events.Handle(s.Execution).Parse()
	if err != nil {
		return nil // no execution has such a handle
	}
	found, err := conn.Find(ctx, events.StreamExecutions, seq, is)
	if e, ok := found.(*events.Execution); ok {
		s.Sample = string(e.SampleID())
		return nil
	}
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return err
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
