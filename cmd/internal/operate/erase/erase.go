package erase

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/events/direct"
	"debrief/events/erasure"
	"debrief/playbook"
)

// Eraser removes the data of erasures. Its connection needs the rights of an operator. Several erasers may work at the same time: each
// removes what it finds, and what another has removed is gone.
type Eraser struct {
	conn   *bus.Conn
	store  *erasure.Store
	logs   *deltalog.Store
	filter *erasure.Filter
	advice Advice
	gone   erasedTexts // of the current Run

	// Progress receives a sentence before each step; nil disables it.
	Progress func(string)
	// Edit sends an edit and waits for the decision of a curator. The default waits as long as the context.
	Edit func(context.Context, *events.Edit) error
	// settle is the time after which every worker knows a new tombstone; see erasure.FilterAge. Tests shorten it.
	settle time.Duration
}

// Advice is the advice that a gateway has stored for runs, also those of others; see capture.Advice.
type Advice interface {
	// Remove removes the lines for which mustGo returns true.
	Remove(ctx context.Context, mustGo func(*events.AdviceLine) bool) error
}

// erasedTexts are the texts that advice may have: wordings of bullets that only erased runs support, and ids and handles of the reflections on
// erased runs.
type erasedTexts struct {
	wordings    map[uint32]bool
	reflections map[string]bool
}

// have reports whether a line has one of the texts.
func (t *erasedTexts) have(l *events.AdviceLine) bool {
	return l.Bullet != "" && t.wordings[l.Wording] || t.reflections[string(l.Reflection)]
}

// New returns an eraser. Without a gateway advice is nil.
func New(conn *bus.Conn, advice Advice) *Eraser {
	js := conn.JetStream()
	return &Eraser{
		Edit: func(ctx context.Context, edit *events.Edit) error {
			reply, err := bus.Request[events.EditReply](ctx, conn, edit, bus.PublishOptions{})
			if err != nil {
				return err
			}
			return reply.Err()
		},
		conn: conn, advice: advice, store: erasure.NewStore(js), logs: deltalog.New(js), filter: erasure.NewFilter(js),
		settle: erasure.FilterAge + time.Second,
	}
}

func (e *Eraser) progress(step string) {
	if e.Progress != nil {
		e.Progress(step)
	}
}

// maxPasses limits the searches of one Run. Workers that knew the tombstone too late store at most a few events.
const maxPasses = 10

// Result counts what Run has done.
type Result struct {
	Done     []*erasure.Tombstone // requests that are done now; their counts include those of interrupted calls and of other erasers
	Runs     int                  // erased runs
	Removed  int                  // messages of all streams
	Versions int                  // changes of playbooks whose texts were erased
	// Letters counts the dead letters of other runs that overwrite has stored again. They have new ids, because an id has the sequence of the
	// message.
	Letters int
}

// Run removes everything that matches a tombstone, of pending requests and of earlier ones: after a restore from an older backup their data
// is back. An interrupted Run is continued by the next one.
func (e *Eraser) Run(ctx context.Context) (*Result, error) {
	pending, err := e.store.Requests(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the erasures: %w", err)
	}
	for _, r := range pending {
		if err := e.store.AddTombstone(ctx, r); err != nil {
			return nil, fmt.Errorf("complete the erasures: %w", err)
		}
	}
	restored, err := e.store.RestoredSeq(ctx) // 0 without a restore
	if err != nil {
		return nil, fmt.Errorf("read the erasures: %w", err)
	}
	e.gone = erasedTexts{map[uint32]bool{}, map[string]bool{}}
	out := new(Result)
	isNew := len(pending) > 0 || restored > 0
	if err := e.removeAll(ctx, pending, isNew, out); err != nil {
		return nil, err
	}
	if out.Removed+out.Versions > 0 || len(pending) > 0 {
		if out.Letters, err = e.overwrite(ctx); err != nil {
			return nil, err
		}
	}
	if err := e.finish(ctx, pending, out); err != nil || restored == 0 {
		return out, err
	}
	// The work after the restore is done, so remove the record of the restore.
	_, err = e.remove(ctx, erasure.Stream, []uint64{restored})
	return out, err
}

// removeAll searches and removes until a search finds nothing that began after every worker knew the tombstones. isNew means that some workers may
// not know them at the first search.
func (e *Eraser) removeAll(ctx context.Context, pending []*erasure.Request, isNew bool, out *Result) error {
	removedLogs := map[playbook.Book]bool{}
	for pass := 1; ; pass++ {
		began := time.Now()
		if err := e.filter.Refresh(ctx); err != nil {
			return fmt.Errorf("read the erasures: %w", err)
		}
		f, err := e.find(ctx)
		if err != nil {
			return err
		}
		for b, log := range f.logs {
			if log.end > 0 {
				removedLogs[b] = true
			}
		}
		isEmpty := f.isEmpty()
		if err := e.removeFound(ctx, f, pending, out); err != nil {
			return err
		}
		if isEmpty && (pass > 1 || !isNew) {
			return e.rebuildViews(ctx, removedLogs)
		}
		if pass == maxPasses {
			return fmt.Errorf("after %d searches erased runs still arrive: %d messages in the last one; is a worker of an older release running?", pass, f.count())
		}
		e.progress("wait until every worker knows the erasure")
		if err := events.Sleep(ctx, e.settle-time.Since(began)); err != nil {
			return err
		}
	}
}

// removeFound removes what a search has found: first from the playbooks and their logs, then from the streams.
func (e *Eraser) removeFound(ctx context.Context, f *found, pending []*erasure.Request, out *Result) error {
	runs := slices.Sorted(maps.Keys(f.runs))
	for _, r := range pending {
		if err := e.store.AddRuns(ctx, r.ID, runs); err != nil {
			return fmt.Errorf("record the erased runs: %w", err)
		}
	}
	out.Runs += f.executions
	versions, err := e.eraseLogs(ctx, f)
	if err != nil {
		return err
	}
	out.Versions += versions
	if err := e.addLateDeltas(ctx, f); err != nil {
		return err
	}
	if err := e.removeAdvice(ctx, f); err != nil {
		return err
	}
	if err := e.recordGaps(ctx, f, out, pending); err != nil {
		return err
	}
	n, err := e.remove(ctx, blob.Stream, f.descriptions) // before the messages that refer to them, see searched
	out.Removed += n
	if err != nil {
		return err
	}
	for _, stream := range slices.Backward(append([]string{blob.Stream}, searched...)) { // the payloads last, see searched
		n, err := e.remove(ctx, stream, f.messages[stream])
		out.Removed += n
		if err != nil {
			return err
		}
	}
	return nil
}

// removeAdvice removes the texts from the advice in runs of others. It is called in each search: a gateway that did not know the erasure yet may
// have stored some later.
func (e *Eraser) removeAdvice(ctx context.Context, f *found) error {
	for id := range f.runs {
		e.gone.reflections[id] = true
	}
	if e.advice == nil || len(e.gone.wordings)+len(e.gone.reflections) == 0 {
		return nil
	}
	e.progress("remove texts from the advice of the gateway")
	return e.advice.Remove(ctx, e.gone.have)
}

// recordGaps adds the counts of the messages that are removed next to the tombstone of the first pending request, and the counts of runs and
// versions so far. Without a pending request it adds them to the newest tombstone.
func (e *Eraser) recordGaps(ctx context.Context, f *found, out *Result, pending []*erasure.Request) error {
	all, err := e.store.Tombstones(ctx)
	if err != nil || len(all) == 0 || f.count() == 0 {
		return err
	}
	id := all[len(all)-1].ID
	if len(pending) > 0 {
		id = pending[0].ID
	}
	return e.store.Update(ctx, id, func(t *erasure.Tombstone) {
		t.Runs = max(t.Runs, out.Runs) // an interrupted call, or another eraser, may have counted the same ones
		t.Versions = max(t.Versions, out.Versions)
		for stream, seqs := range f.messages {
			t.AddGap(stream, len(seqs))
		}
		if len(f.descriptions) > 0 {
			t.AddGap(blob.Stream, len(f.descriptions))
		}
	})
}

// remove deletes messages. The server overwrites them, unless it encrypts its store.
func (e *Eraser) remove(ctx context.Context, stream string, seqs []uint64) (removed int, err error) {
	if len(seqs) == 0 {
		return 0, nil
	}
	e.progress(fmt.Sprintf("remove %d messages of %s", len(seqs), stream))
	s, err := e.conn.JetStream().Stream(ctx, stream)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", stream, err)
	}
	for _, seq := range slices.Backward(seqs) { // feedback before its execution
		existed, err := direct.Overwrite(ctx, s, seq)
		if err != nil {
			return removed, err
		}
		if existed {
			removed++
		}
	}
	return removed, nil
}

// finish records that requests are done, and removes their names.
func (e *Eraser) finish(ctx context.Context, pending []*erasure.Request, out *Result) error {
	for _, r := range pending {
		var done erasure.Tombstone
		err := e.store.Update(ctx, r.ID, func(t *erasure.Tombstone) {
			t.Done = time.Now().UTC()
			done = *t
		})
		if err != nil {
			return err
		}
		seq, err := e.store.RequestSeq(ctx, r.ID)
		if err != nil {
			return err
		}
		if seq > 0 { // else another eraser has removed it
			if _, err := e.remove(ctx, erasure.Stream, []uint64{seq}); err != nil {
				return err
			}
		}
		out.Done = append(out.Done, &done)
	}
	return nil
}
