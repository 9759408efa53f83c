package reflector

import (
	"context"
	"fmt"
	"sync"

	"debrief/events"
	"debrief/events/window"
	"debrief/playbook"
	"debrief/reflector/rules"
)

// An outside agent often reports an execution first and its outcome later. A reflection on the execution alone knows only the
// errors of its calls, and the later feedback needs a second reflection. In a book where nearly all such executions get feedback,
// the Reflector therefore waits for the feedback, and makes one call of the model instead of two.

// awaiting estimates, for each book, which share of the open executions (see isOpen) gets an outcome by feedback. It counts both only in
// this process and starts empty, so the first executions of a process are reflected on at once.
type awaiting struct {
	mu    sync.Mutex
	books map[playbook.Book]*awaitedCounts
}

// awaitedCounts are decayed counts: the last awaitedTasks executions have most of the weight.
type awaitedCounts struct{ executions, feedback float64 }

const (
	awaitedTasks = 100
	minAwaited   = 10   // executions before a share is known
	awaitedShare = 0.8  // if at least this share of the executions gets feedback, the next ones wait
	maxAwaited   = 4096 // books; with more, all counts start again
)

// isOpen reports whether an execution has no outcome yet, shows something to learn from, and can wait for its reflection. It cannot wait in
// a session, because the next turn shows the records of the reflection, nor in a task with several rounds, because the next round shows the
// advice.
func isOpen(e *events.Execution) bool {
	hasRounds := e.Rounds > 1 || len(e.PreviousRounds) > 0
	if hasRounds || wantsRecords(e) {
		return false
	}
	return !e.Outcome.Known() && rules.HasSignal(e)
}

// waitsForFeedback reports whether the first reflection on an open execution is that on its feedback. If not, the execution is reflected
// on now, and its feedback corrects that reflection.
func (w *worker) waitsForFeedback(ctx context.Context, in input) (bool, error) {
	e := in.execution
	if w.windows == nil || in.feedback.id != "" || e.Origin.Held || !isOpen(e) {
		return false, nil
	}
	// The execution and the first feedback on it compete for a claim. The winner has the first reflection.
	if w.model != nil && w.awaiting.countOpen(e.Book) {
		return true, nil // no claim, so the feedback wins
	}
	isFirst, err := w.windows.ClaimFirstCopy(ctx, e.Book, window.EffectFeedback, e.SampleID(), in.delivery.Seq)
	if err != nil {
		return false, fmt.Errorf("reflect on execution %s: %w", e.ID, err)
	}
	return !isFirst, nil
}

// countOpen counts an open execution and reports whether its reflection should wait for feedback.
func (a *awaiting) countOpen(b playbook.Book) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := a.countsOf(b)
	counts.executions = counts.executions*(1-1.0/awaitedTasks) + 1
	counts.feedback *= 1 - 1.0/awaitedTasks
	return counts.executions >= minAwaited && counts.feedback >= awaitedShare*counts.executions
}

// countFeedback counts feedback with an outcome on an open execution, also on one that did not wait for it.
func (a *awaiting) countFeedback(b playbook.Book) {
	a.mu.Lock()
	defer a.mu.Unlock()
	counts := a.countsOf(b)
	counts.feedback = min(counts.feedback+1, counts.executions) // another process may have counted the execution
}

// countsOf returns the counts of a book, and creates them if necessary.
func (a *awaiting) countsOf(b playbook.Book) *awaitedCounts {
	if a.books == nil || len(a.books) >= maxAwaited {
		a.books = map[playbook.Book]*awaitedCounts{}
	}
	if a.books[b] == nil {
		a.books[b] = new(awaitedCounts)
	}
	return a.books[b]
}
