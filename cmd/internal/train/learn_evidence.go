package train

import (
	"cmp"
	"context"
	"fmt"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/versions"
	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook/history"
	"debrief/reflector/rules"

	book "debrief/playbook"
)

// maxReflected is the maximum number of bullets from reflections whose evidence one command counts. Each needs a pass over the
// log.
const maxReflected = 1000

// versionOf returns the newest version of a playbook, 0 without one.
func versionOf(ctx context.Context, s *cli.Session, b book.Book) (uint64, error) {
	w, err := deltalog.New(s.JetStream()).Writer(ctx, b)
	if err != nil {
		return 0, err
	}
	return w.State().Playbook().Version(), nil
}

// addReflected adds the bullets that reflections on single runs added after a version to the result. The evidence of each are
// the runs whose reflections have its text, one at least. They were not compared with other runs.
func addReflected(ctx context.Context, s *cli.Session, b book.Book, after uint64, res *learnResult) error {
	var deltas []*book.Delta
	var added []book.BulletID
	err := deltalog.New(s.JetStream()).History(ctx, b)(func(d *book.Delta) error {
		deltas = append(deltas, d)
		for i := range d.Ops {
			if op := &d.Ops[i]; op.Kind == book.Add && d.Author == history.Curator && d.Version > after {
				added = append(added, op.Bullet)
			}
		}
		return nil
	})
	if err != nil {
		return versions.LogError(err)
	}
	log := history.Log(func(fn func(*book.Delta) error) error {
		for _, d := range deltas {
			if err := fn(d); err != nil {
				return err
			}
		}
		return nil
	})
	if more := len(added) - maxReflected; more > 0 {
		res.Notes = append(res.Notes, fmt.Sprintf("%s of reflections without counts: see 'debrief playbook why'.", console.Plural(more, "new bullet")))
		added = added[:maxReflected]
	}
	tasks := map[string]string{} // by handle
	for _, id := range added {
		l, err := history.LineageOf(log, id)
		if err != nil {
			return err
		}
		if l.Current == nil { // merged into another bullet or removed
			continue
		}
		n := newBullet{ID: id}
		if err := n.count(ctx, s, l, tasks); err != nil {
			return err
		}
		res.New = append(res.New, n)
	}
	return nil
}

// count sets the evidence of a bullet from the events that have its text. Votes come from later runs and do not count.
func (n *newBullet) count(ctx context.Context, s *cli.Session, l *history.Lineage, tasks map[string]string) error {
	outcomes, different := map[string]string{}, map[string]bool{} // outcomes by handle
	for _, e := range l.Events {
		switch e.Kind {
		case book.Add, book.Update, book.Merge, history.DuplicateEvent:
		default:
			continue
		}
		for _, c := range e.Support {
			if c.Evidence == nil {
				continue
			}
			task, err := taskBehind(ctx, s, c.Evidence, tasks)
			if err != nil {
				return err
			}
			outcomes[c.Evidence.Execution], different[task] = c.Evidence.Outcome, true
		}
	}
	succeeded, failed := 0, 0
	for _, label := range outcomes {
		switch events.Label(label) {
		case events.Success:
			succeeded++
		case events.Failure:
			failed++
		}
	}
	n.Runs, n.Tasks = len(outcomes), len(different)
	n.Evidence = fmt.Sprintf("reflections on %s (%s), not compared with others: %d succeeded, %d failed", console.Plural(n.Runs, "run"), console.Plural(n.Tasks, "task"), succeeded, failed)
	return nil
}

// taskBehind returns a name that all runs at the task of a piece of evidence share. A run that has expired or that belongs to a
// later turn has its own.
func taskBehind(ctx context.Context, s *cli.Session, e *book.Evidence, tasks map[string]string) (string, error) {
	if task, ok := tasks[e.Execution]; ok {
		return task, nil
	}
	task := ""
	if seq, is, err := events.Handle(e.Execution).Parse(); err == nil {
		run, err := findRun(ctx, s, seq, is)
		if err != nil {
			return "", err
		}
		if run != nil {
			task = rules.TaskOf(run)
		}
	}
	task = cmp.Or(task, e.Sample, e.Execution)
	tasks[e.Execution] = task
	return task, nil
}
