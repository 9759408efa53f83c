package curator

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
	"debrief/playbook"
	"debrief/playbook/history"
)

// A correction is a reflection on feedback. It replaces the votes and outcomes that its sample has in the log, and gets a separate delta:
// all deltas of the sample before this one are read first. A sampleIndex finds them.
//
// A correction waits until the earlier reflections on the same sample are in the log; reflections on other samples do not matter. It waits
// alone: the rest of its batch is committed, and the server delivers the correction again without counting an attempt. The wait is limited to
// maxCorrectionWait. If an earlier reflection is committed after the correction, all of that reflection is rejected (ReasonCorrected) and its
// lessons are lost. The wait makes such a loss rare.
//
// The first feedback on an execution that had no outcome before has no votes to replace. Its reflection is not a
// correction, unless the log covers other feedback on the same sample already.

// maxCorrectionWait is how long a correction waits for earlier reflections, from its first delivery to this process. It is long compared with the time
// after which the server redelivers the messages of a dead Curator (bus.Policy.AckWaitCurator).
const maxCorrectionWait = 2 * time.Minute

// sortItems sorts a batch in the order of the stream, and moves each correction behind the reflections up to the next edit.
// A correction gets its own delta, so it would split the delta of the reflections around it. No correction passes an edit,
// because to forget or to restore has another result before a correction than after it.
func sortItems(items []*workItem) {
	slices.SortStableFunc(items, func(a, b *workItem) int { return cmp.Compare(a.Seq, b.Seq) })
	for len(items) > 0 {
		n := slices.IndexFunc(items, func(item *workItem) bool { return item.Edit != nil })
		if n < 0 {
			n = len(items)
		}
		rank := func(item *workItem) int {
			if item.IsCorrection() {
				return 1
			}
			return 0
		}
		slices.SortStableFunc(items[:n], func(a, b *workItem) int { return cmp.Compare(rank(a), rank(b)) })
		items = items[min(n+1, len(items)):]
	}
}

// deferCorrections decides which corrections wait for earlier reflections, and returns the items without these. A waiting correction gets an
// error as its result. A correction that does not wait gets EarlierDone.
func (w *worker) deferCorrections(ctx context.Context, b *book, items []*workItem) (left []*workItem, err error) {
	missing, err := w.missingEarlier(ctx, b, items)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(items), func(item *workItem) bool {
		seq, ok := missing[item]
		if ok && b.mayWait(item.Seq, w.correctionWait) {
			*item.result = bus.Result{Err: bus.Defer(fmt.Errorf("correct votes: earlier reflection %d on the same sample is not in the log", seq))}
			return true
		}
		item.EarlierDone = item.IsCorrection()
		return false
	}), nil
}

// mayWait reports whether the correction with this sequence may still wait. The wait begins with the first call, which mayWait records, and
// takes at most limit.
func (b *book) mayWait(seq uint64, limit time.Duration) bool {
	now := time.Now()
	since, ok := b.waiting[seq]
	if !ok {
		// Forget the old ones. The double limit lets a correction be committed after its wait: without its entry it would wait again.
		maps.DeleteFunc(b.waiting, func(_ uint64, since time.Time) bool { return now.Sub(since) > 2*limit })
		if b.waiting == nil {
			b.waiting = make(map[uint64]time.Time)
		}
		since = now
		b.waiting[seq] = since
	}
	return now.Sub(since) < limit
}

// sampleIndex locates the deltas of each sample in the log of a book. It is filled at the first correction.
type sampleIndex struct {
	history.SampleIndex
	positions []deltalog.Position // of version 1, 2, …
}

// read continues to read the log up to its end.
func (x *sampleIndex) read(ctx context.Context, store *deltalog.Store, b playbook.Book) error {
	var seq uint64
	if n := len(x.positions); n > 0 {
		seq = x.positions[n-1].Seq
	}
	return store.DeltasAfter(ctx, b, seq, func(r *deltalog.Record) error {
		x.Add(&r.Delta)
		x.positions = append(x.positions, deltalog.Position{Seq: r.Seq, Chain: [sha256.Size]byte(r.Chain)})
		return nil
	})
}

// contribution reads the deltas of a sample.
func (x *sampleIndex) contribution(ctx context.Context, store *deltalog.Store, b playbook.Book, sample events.ID) (*history.Contribution, error) {
	versions := x.Versions(string(sample))
	positions := make([]deltalog.Position, len(versions))
	for i, version := range versions {
		positions[i] = x.positions[version-1]
	}
	var deltas []*playbook.Delta
	err := store.Records(ctx, b, positions, func(r *deltalog.Record) error {
		deltas = append(deltas, &r.Delta)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return x.Contribution(string(sample), deltas), nil
}

// readContribution reads the votes and outcomes of the sample of a correction.
func (w *worker) readContribution(ctx context.Context, b *book, item *workItem) error {
	err := b.samples.read(ctx, w.store, b.name)
	if err == nil {
		item.Contribution, err = b.samples.contribution(ctx, w.store, b.name, item.Reflection.SampleID())
	}
	if err != nil {
		return fmt.Errorf("read the votes of sample %s in the log of playbook %q: %w", item.Reflection.SampleID(), b.name, err)
	}
	return nil
}

// missingEarlier returns the corrections that have an earlier reflection on their sample which is neither in the log nor
// acknowledged, with the sequence of that reflection. It ignores reflections of the same batch, which come first. Only lower
// sequences count as earlier, so that two processes never wait for each other.
func (w *worker) missingEarlier(ctx context.Context, b *book, items []*workItem) (missing map[*workItem]uint64, err error) {
	waiting := map[events.ID][]*workItem{} // corrections, by sample
	batch := map[uint64]bool{}             // sequences of the items
	last := uint64(0)                      // sequence of the last correction
	for _, item := range items {
		batch[item.Seq] = true
		if item.IsCorrection() && !item.EarlierDone {
			id := item.Reflection.SampleID()
			waiting[id] = append(waiting[id], item)
			last = max(last, item.Seq)
		}
	}
	floor, err := w.ackFloor(ctx)
	if err != nil {
		return nil, err
	}
	earlier, err := w.reflectionsBetween(ctx, b.name, max(floor, b.writer.State().Floor()), last)
	if err != nil {
		return nil, err
	}
	if err := b.writer.CheckView(ctx); err != nil { // also reads the end of the log
		return nil, err
	}
	log := coverLookup{state: b.writer.State()}
	missing = map[*workItem]uint64{}
	for _, e := range slices.Backward(earlier) { // so that missing keeps the earliest one of each correction
		for _, item := range waiting[e.Reflection.SampleID()] {
			if e.Seq < item.Seq && !batch[e.Seq] && !log.covered(&e.Item.Item) {
				missing[item] = e.Seq
			}
		}
	}
	return missing, log.err
}

const (
	readTimeout = 10 * time.Second     // for reading a range of the stream
	readPause   = 5 * time.Millisecond // after an event, before the next read
)

// reflectionsBetween returns the reflections of a book with a sequence after one and before another, without held ones: they have no votes
// by themselves. It skips messages that cannot be decoded, because they are dead-lettered.
func (w *worker) reflectionsBetween(ctx context.Context, b playbook.Book, after, before uint64) (found []*workItem, err error) {
	if after+1 >= before {
		return nil, nil
	}
	ctx, stop := context.WithTimeout(ctx, readTimeout)
	defer stop()
	subject := events.KindReflection.Subject(b)
	err = w.conn.Events.Poll(ctx, events.StreamReflections, subject, after+1, readPause, func(s bus.Stored) error {
		if s.Seq >= before {
			return bus.ErrStop
		}
		if r, ok := s.Event.(*events.Reflection); ok && !r.Origin.Held {
			found = append(found, &workItem{Item: propose.Item{Item: draft.Item{ID: r.ID, Seq: s.Seq, Reflection: r}}})
		}
		return nil
	})
	return found, err
}
