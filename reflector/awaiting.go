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

// An outside agent often reports an execution first and its outcome later. The reflection on the execution alone knows only the
// errors of its calls, and the feedback asks for another one. So in a book where nearly all such executions get feedback, the
// first reflection is the one on the feedback: it costs one call of the model in place of two.

// awaiting estimates, for each book, the share of executions without an outcome that get one by feedback later. It counts both in
// this process and starts empty, so the first executions of a process are reflected on at once.
type awaiting struct {
	mu    sync.Mutex
	books map[playbook.Book]*awaited
}

// awaited are decayed counts: the last awaitedTasks executions have most of the weight.
type awaited struct{ executions, feedback float64 }

const (
	awaitedTasks = 100
	minAwaited   = 10  // executions before a share is known
	awaitedShare = 0.8 // of the executions must get feedback
	maxAwaited   = 4096
)

// isOpen reports whether an execution has no outcome, but errors or calls to learn from, and whether its reflection can wait. In a session
// it cannot, because the next turn shows the records, and in a task with several rounds it cannot, because the next round shows the advice.
func isOpen(e *events.Execution) bool {
	hasRounds := e.Rounds > 1 || len(e.PreviousRounds) > 0
	if hasRounds || wantsRecords(e) {
		return false
	}
	return !e.Outcome.Known() && rules.HasSignal(e)
}

// waitsForFeedback reports whether the first reflection on an open execution is that on its feedback. If not, the execution is reflected
// on now, and its feedback corrects that reflection.
func (r *Reflector) waitsForFeedback(ctx context.Context, windows *window.Store, e *events.Execution, fb feedbackInfo, at uint64) (bool, error) {
	if windows == nil || fb.id != "" || e.Origin.Held || !isOpen(e) {
		return false, nil
	}
	if r.model != nil && r.awaiting.countOpen(e.Book) {
		return true, nil
	}
	first, err := windows.IsFirstCopy(ctx, e.Book, window.EffectFeedback, e.SampleID(), at)
	if err != nil {
		return false, fmt.Errorf("reflect on execution %s: %w", e.ID, err)
	}
	return !first, nil // not the first: feedback was faster, and its reflection is on the way
}

// countOpen counts an open execution and reports whether its reflection should wait for feedback.
func (a *awaiting) countOpen(b playbook.Book) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.of(b)
	x.executions = x.executions*(1-1.0/awaitedTasks) + 1
	x.feedback *= 1 - 1.0/awaitedTasks
	return x.executions >= minAwaited && x.feedback >= awaitedShare*x.executions
}

// countFeedback counts feedback that was the first outcome of an open execution.
func (a *awaiting) countFeedback(b playbook.Book) {
	a.mu.Lock()
	defer a.mu.Unlock()
	x := a.of(b)
	x.feedback = min(x.feedback+1, x.executions) // another process may have counted the execution
}

func (a *awaiting) of(b playbook.Book) *awaited {
	if a.books == nil || len(a.books) >= maxAwaited {
		a.books = map[playbook.Book]*awaited{}
	}
	if a.books[b] == nil {
		a.books[b] = new(awaited)
	}
	return a.books[b]
}
