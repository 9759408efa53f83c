package replay

import (
	"unique"

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
	cited    []unique.Handle[playbook.BulletID]
	shown    []unique.Handle[events.ShownBullet] // one copy in memory, because most prompts have the same bullets
}

// Limits of the texts kept in memory, in bytes.
const (
	maxAnswer   = 2 << 10
	maxFeedback = 1 << 10
	maxQuestion = 200
)

// newAnswer returns the answer of an execution that is stored at a sequence.
func newAnswer(seq uint64, e *events.Execution) *answer {
	a := &answer{
		seq: seq, text: text.Clip(e.Answer, maxAnswer), label: e.Outcome.Label, score: e.Outcome.Score,
		feedback: text.Clip(e.Outcome.Feedback, maxFeedback), version: e.Version, model: e.Model,
	}
	for _, b := range e.Shown {
		a.shown = append(a.shown, unique.Make(b))
	}
	for _, id := range e.Cited {
		a.cited = append(a.cited, unique.Make(id))
	}
	return a
}

// shownBullets returns the bullets in the prompt.
func (a *answer) shownBullets() []events.ShownBullet {
	out := make([]events.ShownBullet, len(a.shown))
	for i, b := range a.shown {
		out[i] = b.Value()
	}
	return out
}

// citedBullets returns the bullets that the answer cites.
func (a *answer) citedBullets() []playbook.BulletID {
	out := make([]playbook.BulletID, len(a.cited))
	for i, id := range a.cited {
		out[i] = id.Value()
	}
	return out
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
		id := events.ExecutionID(l.book, "", t.ID, round)
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
	asked := events.Task{Book: l.book, ID: task, Origin: events.Origin{Round: round}}
	if why := l.dead.reasons[asked.EventID()]; why != "" {
		return "not answered: " + why
	}
	if why := l.dead.reasons[events.ExecutionID(l.book, "", task, round)]; why != "" {
		return "its answer cannot be read: " + why
	}
	return ""
}
