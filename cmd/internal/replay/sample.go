package replay

import (
	"sync"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// answer is the part of an execution that a run keeps in memory.
type answer struct {
	seq      uint64
	text     string
	label    events.Label
	score    float64
	feedback string
	version  uint64
	model    string
	bullets  *bulletTable
	shown    []uint32 // numbers of bullets in the table
	cited    []uint32
}

// bulletTable assigns numbers to bullet ids. An answer holds the numbers, because they need a fraction of the memory. It is
// safe for concurrent use.
type bulletTable struct {
	mu      sync.Mutex
	numbers map[playbook.BulletID]uint32
	ids     []playbook.BulletID
}

// number returns the number of an id, a new one at its first use.
func (t *bulletTable) number(id playbook.BulletID) uint32 {
	t.mu.Lock()
	defer t.mu.Unlock()
	n, known := t.numbers[id]
	if !known {
		if t.numbers == nil {
			t.numbers = make(map[playbook.BulletID]uint32)
		}
		n = uint32(len(t.ids))
		t.numbers[id], t.ids = n, append(t.ids, id)
	}
	return n
}

// list returns the ids of numbers.
func (t *bulletTable) list(numbers []uint32) []playbook.BulletID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := make([]playbook.BulletID, len(numbers))
	for i, n := range numbers {
		ids[i] = t.ids[n]
	}
	return ids
}

// Limits of the texts kept in memory, in bytes.
const (
	maxAnswer   = 2 << 10
	maxFeedback = 1 << 10
	maxQuestion = 200
)

// newAnswer returns the answer of an execution that is stored at a sequence.
func newAnswer(seq uint64, e *events.Execution, bullets *bulletTable) *answer {
	a := &answer{
		seq: seq, text: text.Clip(e.Answer, maxAnswer), label: e.Outcome.Label, score: e.Outcome.Score,
		feedback: text.Clip(e.Outcome.Feedback, maxFeedback), version: e.Version, model: e.Model, bullets: bullets,
	}
	for i := range e.Shown {
		a.shown = append(a.shown, bullets.number(e.Shown[i].ID))
	}
	for _, id := range e.Cited {
		a.cited = append(a.cited, bullets.number(id))
	}
	return a
}

// sampleResult is the state of one sample.
type sampleResult struct {
	answer        *answer       // of the first round, nil before it
	lastExecution events.ID     // execution of the last round
	rounds        int           // answered so far
	reflection    events.Handle // handle of the reflection
	lostReason    string        // reason why the answer or the reflection is missing
}

// result returns the state of a task's sample. The second result reports that the sample is complete. Tasks for
// evaluation and tasks whose reflections are not held are complete with their answer.
func (l *tracker) result(t *events.Task) (f sampleResult, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for round := range events.MaxPreviousRounds + 1 {
		id := events.ExecutionID(l.book, t.ID, round)
		a := l.answers[id]
		if a == nil {
			if len(l.dead.reasons) > 0 {
				f.lostReason = l.unanswered(t.ID, round)
			}
			return f, f.lostReason != ""
		}
		if round == 0 {
			f.answer = a
		}
		f.rounds, f.lastExecution = round+1, id
		if !t.Origin.Held {
			return f, true
		}
		if f.reflection = l.reflected[id]; f.reflection != "" {
			return f, true
		}
		if why := l.dead.reasons[id]; why != "" {
			f.lostReason = "not reflected on: " + why
			return f, true
		}
	}
	return f, false
}

// unanswered returns the reason why a round of a task will never have a readable answer, "" if one may come. The
// caller holds the lock.
func (l *tracker) unanswered(task string, round int) string {
	asked := events.Task{ID: task, Origin: events.Origin{Round: round}}
	asked.Book = l.book
	if why := l.dead.reasons[asked.EventID()]; why != "" {
		return "not answered: " + why
	}
	if why := l.dead.reasons[events.ExecutionID(l.book, task, round)]; why != "" {
		return "its answer cannot be read: " + why
	}
	return ""
}
