package curator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"debrief/curator/draft"
	"debrief/curator/propose"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// worker is a running Curator.
type worker struct {
	*Curator
	conn           *bus.Conn
	store          *deltalog.Store
	correctionWait time.Duration // maxCorrectionWait, except in tests

	mu    sync.Mutex // guards books and known
	books map[playbook.Book]*book
	known []playbook.Book // all books, sorted; see listBooks

	floorMu sync.Mutex // guards floor and floorAt
	floor   uint64
	floorAt time.Time
}

// book is the state of one playbook in memory. The writer is opened at the first use. It is opened again after an error,
// because the error may hide which deltas were stored. An idle book is unloaded after bookIdle.
type book struct {
	name       playbook.Book
	mu         sync.Mutex // guards the fields below
	writer     *deltalog.Writer
	duplicates draft.DuplicateIndex
	tokens     draft.TokenIndex
	// Context for proposing models: bullets by their words, and rejected texts.
	bulletIndex      propose.BulletIndex
	rejectionLog     propose.RejectionLog
	fullRejections   fullRejections       // in place of rejectionLog when reflections are gathered
	additions        draft.Additions      // recently added bullets; survives unload
	samples          sampleIndex          // for corrections
	logCache         logCache             // for edits that fold the whole log
	waiting          map[uint64]time.Time // first delivery of each correction that waits, by sequence
	usage            chat.Usage           // of the model calls since the last committed delta
	lastUsed         time.Time
	settingsRecorded bool // since the start of this process; see recordSettings
	viewChecked      bool // this process has compared the complete view with the log, and no error followed
}

// bookIdle is how long an idle book stays in memory.
const bookIdle = time.Minute

// unload closes the writer and frees the caches.
func (b *book) unload() {
	b.close()
	b.duplicates = draft.DuplicateIndex{}
	b.tokens = draft.TokenIndex{}
	b.bulletIndex = propose.BulletIndex{}
	b.rejectionLog = propose.RejectionLog{}
	b.fullRejections = fullRejections{}
	b.waiting = nil
	b.samples = sampleIndex{}
	b.logCache = logCache{}
}

// close closes the writer. The next use opens a new one from the view and the log. Where the view itself may be wrong, the caller also resets
// viewChecked, so that the sweep compares the complete view with the log.
func (b *book) close() {
	if b.writer != nil {
		b.writer.Close()
	}
	b.writer = nil
}

// book returns the state of a playbook and creates it if necessary.
func (w *worker) book(name playbook.Book) *book {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.books[name]
	if b == nil {
		b = &book{name: name}
		w.books[name] = b
	}
	return b
}

// open opens the writer of a book, unless it is open. The caller holds the lock of the book.
func (w *worker) open(ctx context.Context, b *book) error {
	if b.writer != nil {
		return nil
	}
	writer, err := w.store.Writer(ctx, b.name)
	if err != nil {
		return err
	}
	b.writer = writer
	// The log may have been replaced since the last writer.
	b.fullRejections = fullRejections{}
	b.samples = sampleIndex{}
	b.logCache = logCache{}
	return nil
}

// warm reads the log of a book into memory before the first batch. It ignores an error: handle reads the same, and reports it.
func (w *worker) warm(ctx context.Context, name playbook.Book) {
	b := w.book(name)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lastUsed = time.Now()
	if err := w.fillCaches(ctx, b); err != nil {
		b.close()
	}
}

// openWithIndex opens the writer of a book and the index of covered ids.
func (w *worker) openWithIndex(ctx context.Context, b *book) error {
	if err := w.open(ctx, b); err != nil {
		return err
	}
	return b.writer.OpenIndex(ctx)
}

// fillCaches opens the writer of a book and reads its log into the caches.
func (w *worker) fillCaches(ctx context.Context, b *book) error {
	if err := w.openWithIndex(ctx, b); err != nil {
		return err
	}
	if err := b.samples.read(ctx, w.store, b.name); err != nil {
		return err
	}
	return b.logCache.read(ctx, w.store, b.name)
}

// errPending marks a delivery that has no decision yet.
var errPending = errors.New("no decision yet")

// handle processes a batch of one playbook and returns a result for each delivery. It holds the lock of the book in this
// process meanwhile, also while a model runs; other processes can commit to the same playbook.
func (w *worker) handle(ctx context.Context, batch []*bus.Delivery) []bus.Result {
	results := make([]bus.Result, len(batch))
	for i := range results {
		results[i].Err = errPending
	}
	ctx = chat.ObserveReplies(ctx, func(q chat.Quality) {
		w.conn.Stats.CountReply(events.RoleCurator, q == chat.Repaired, q == chat.Invalid)
	})
	b := w.book(batch[0].Event.InBook())
	b.mu.Lock()
	err := errPending
	defer func() { // also after a panic, when err is still errPending
		if err != nil {
			b.close()
			b.viewChecked = false
		}
		b.lastUsed = time.Now()
		b.mu.Unlock()
	}()
	err = w.curateBatch(ctx, b, batch, results)
	if err != nil {
		for i := range results {
			if errors.Is(results[i].Err, errPending) { // the results of earlier commits stay
				results[i].Err = fmt.Errorf("curate playbook %q: %w", b.name, err)
			}
		}
	}
	return results
}

// done reports whether the log covers a delivery, by a delta of this process or of another one. It locks the book.
func (w *worker) done(ctx context.Context, del *bus.Delivery) (bool, error) {
	item, err := newWorkItem(del, nil)
	if err != nil {
		return false, nil // an unexpected event has no effect
	}
	b := w.book(del.Event.InBook())
	b.mu.Lock()
	defer b.mu.Unlock()
	covered, err := w.isCovered(ctx, b, item)
	if err != nil {
		b.close()
		return false, fmt.Errorf("look up %s %s in the log of playbook %q: %w", del.Event.Kind(), item.ID, b.name, err)
	}
	b.lastUsed = time.Now()
	return covered, nil
}

// isCovered reports whether the log covers an item. It reads the log up to its end.
func (w *worker) isCovered(ctx context.Context, b *book, item *workItem) (bool, error) {
	if err := w.openWithIndex(ctx, b); err != nil {
		return false, err
	}
	if err := b.writer.CheckView(ctx); err != nil { // also reads the end of the log
		return false, err
	}
	log := coverLookup{state: b.writer.State()}
	covered := log.covered(&item.Item.Item)
	return covered, log.err
}

// curateBatch proposes, commits and flushes the changes of a batch. It fills in the results of the deliveries that have a
// decision. Its error is the result of the others.
func (w *worker) curateBatch(ctx context.Context, b *book, batch []*bus.Delivery, results []bus.Result) error {
	items := make([]*workItem, 0, len(batch))
	for i, del := range batch {
		item, err := newWorkItem(del, &results[i])
		switch {
		case err != nil:
			results[i].Err = bus.Discard(err)
		case isHeld(del.Event):
			results[i] = bus.Result{} // acknowledged; it takes effect with the edit that gathers it
		default:
			items = append(items, item)
		}
	}
	if len(items) == 0 {
		return nil
	}
	if err := w.openWithIndex(ctx, b); err != nil {
		return err
	}
	sortItems(items)
	items, err := w.propose(ctx, b, new(propose.Round), items)
	if err != nil {
		return err
	}
	if err := w.commitItems(ctx, b, items); err != nil {
		return err
	}
	if err := b.writer.Flush(ctx); err != nil {
		// The effect is in the log, so the deliveries are done. The sweep repairs the view.
		w.conn.ContextLog(ctx).Warn().Err(err).Str(events.LogBook, string(b.name)).Msg("flush view")
		b.close()
		b.viewChecked = false
	}
	if slices.ContainsFunc(items, func(item *workItem) bool { return item.Edit != nil && len(item.Edit.Redact) > 0 }) {
		b.unload() // the caches contain texts that were erased
	}
	return nil
}

// commitItems commits deltas until every item is decided and the gate has no bullet left to check. If an item needs data of
// the current state first, it reads the data and drafts again.
func (w *worker) commitItems(ctx context.Context, b *book, items []*workItem) error {
	var unchecked []playbook.BulletID
	for len(items)+len(unchecked) > 0 {
		out, err := w.commit(ctx, b, items, unchecked)
		if err != nil {
			return err
		}
		items, unchecked = items[out.Decided:], out.Unchecked
		if !out.NotReady {
			continue
		}
		switch item := items[0]; { // the item that needs data
		case item.Gathers():
			items, err = w.gatherItems(ctx, b, item, items)
		case item.IsCorrection() && !item.EarlierDone:
			items, err = w.deferCorrections(ctx, b, items)
		case item.IsCorrection():
			err = w.readContribution(ctx, b, item)
		default:
			err = w.prepareTarget(ctx, b, item)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commit drafts and commits one change, and fills in the results of the items that it decides. unchecked is draft.Result.Unchecked of the
// change before.
func (w *worker) commit(ctx context.Context, b *book, items []*workItem, unchecked []playbook.BulletID) (out draft.Result, err error) {
	floor, err := w.ackFloor(ctx)
	if err != nil {
		return out, err
	}
	now := time.Now()
	cfg := draft.Config{
		MaxTokens: w.cfg.MaxTokens, Duplicates: &b.duplicates, Tokens: &b.tokens,
		GateMode: w.cfg.GateMode, Gate: w.cfg.Gate, Policy: w.policy,
		Burst: draft.Burst{Max: w.cfg.MaxBurst, Recent: b.additions.Recent(now)},
	}
	span := beginCommit(ctx)
	_, err = b.writer.Commit(ctx, func(s deltalog.State) ([]*playbook.Delta, error) { // is called again after a conflict
		log := &coverLookup{state: s}
		cfg.Covered, cfg.HasFeedback = log.covered, log.hasFeedback
		out = draft.Build(s.Playbook(), cfg, drafts(items), unchecked)
		if log.err != nil {
			return nil, log.err
		}
		committed := time.Now().UTC()
		for _, delta := range out.Deltas {
			delta.Floor, delta.Time = floor, committed
		}
		if len(out.Deltas) > 0 {
			out.Deltas[0].Usage = playbook.Usage(b.usage) // reset after the commit
		}
		return out.Deltas, nil
	})
	endCommit(ctx, span, b, items[:out.Decided], out.Deltas, err)
	if err != nil {
		return out, err
	}
	if len(out.Deltas) > 0 {
		b.usage = chat.Usage{}
	}
	for _, delta := range out.Deltas {
		b.rejectionLog.Add(delta)
		w.cfg.reportMetrics(delta)
	}
	b.additions.Add(out.Added, now)
	w.conn.Stats.CountDeltas(events.RoleCurator, len(out.Deltas), countRejected(out.Deltas))
	outcomes, failures := countOutcomes(out.Deltas)
	changed := slices.ContainsFunc(out.Deltas, (*playbook.Delta).ChangesBullets)
	w.conn.Stats.CountOutcomes(events.RoleCurator, outcomes, failures, changed)
	fillResults(items[:out.Decided], b.writer.State())
	return out, nil
}

// countOutcomes counts the executions with a known outcome that a change covers, and the failures among them.
func countOutcomes(change []*playbook.Delta) (outcomes, failures int) {
	for _, delta := range change {
		for i := range delta.Covers {
			e := delta.Covers[i].Evidence
			if e == nil || !(events.Outcome{Label: events.Label(e.Outcome)}).Known() {
				continue
			}
			outcomes++
			if e.Score < 0.5 {
				failures++
			}
		}
	}
	return outcomes, failures
}

// countRejected counts the rejections in the deltas of a change.
func countRejected(change []*playbook.Delta) (n int) {
	for _, delta := range change {
		for i := range delta.Rejected {
			n += max(1, delta.Rejected[i].Count)
		}
	}
	return n
}

// maxFloorAge is how long an ack floor is reused. The floor only rises, so an old floor is a valid lower bound.
const maxFloorAge = 200 * time.Millisecond

// ackFloor returns the sequence up to which all events are acknowledged, at most maxFloorAge old.
func (w *worker) ackFloor(ctx context.Context) (uint64, error) {
	w.floorMu.Lock()
	defer w.floorMu.Unlock()
	if time.Since(w.floorAt) < maxFloorAge {
		return w.floor, nil
	}
	lag, err := w.conn.Consumers.Lag(ctx, events.RoleCurator)
	if err != nil {
		return 0, err
	}
	w.floor, w.floorAt = lag.Floor, time.Now()
	return w.floor, nil
}
