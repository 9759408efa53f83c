package replay

import (
	"unique"

	"debrief/events"
	"debrief/playbook"
	"debrief/playbook/text"
)

// answer is the part of an execution that a run keeps in memory.
type answer struct {
	seq      uint64 // of the execution; 0 for a recorded execution of another playbook
	text     string
	label    events.Label
	score    float64
	feedback string
	version  uint64 // of the playbook in the prompt
	model    string
	cited    []playbook.BulletID
	shown    []unique.Handle[events.ShownBullet] // one copy in memory, because most prompts have the same bullets
}

// Limits of the texts kept in memory, in bytes.
const (
	maxAnswer   = 2 << 10
	maxFeedback = 1 << 10
	maxQuestion = 200
)

// newAnswer returns the answer of an execution, which is stored at the sequence seq.
func newAnswer(seq uint64, e *events.Execution) *answer {
	a := &answer{
		seq: seq, text: text.Clip(e.Answer, maxAnswer), label: e.Outcome.Label, score: e.Outcome.Score,
		feedback: text.Clip(e.Outcome.Remark(), maxFeedback), version: e.Version, model: e.Model,
		cited: append([]playbook.BulletID{}, e.Cited...), // not nil, which is null in JSON
	}
	for _, b := range e.Shown {
		a.shown = append(a.shown, unique.Make(b))
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

// sampleResult is the state of one sample. A field is empty until its event is stored.
type sampleResult struct {
	answer        *answer       // of the first round
	lastExecution events.ID     // of the last round
	rounds        int           // number of answered rounds
	reflection    events.Handle // on the execution of the last round
	lostReason    string        // reason why the answer or the reflection is missing
}

// result returns the state of a task's sample, and whether the sample is complete: it is lost, or it has its answer and, if the reflection is
// held, its reflection. A reflector may ask for further rounds in place of a reflection. Each round is an execution with its own id.
func (tr *tracker) result(t *events.Task) (result sampleResult, complete bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for round := range events.MaxPreviousRounds + 1 {
		id := events.ExecutionID(tr.book, "", t.ID, round)
		a := tr.answers[id]
		if a == nil {
			if len(tr.dead.reasons) > 0 { // else the hashes of lostAnswer are not needed
				result.lostReason = tr.lostAnswer(t.ID, round)
			}
			return result, result.lostReason != ""
		}
		if round == 0 {
			result.answer = a
		}
		result.rounds, result.lastExecution = round+1, id
		if !t.Origin.Held {
			return result, true
		}
		result.reflection = tr.reflected[id]
		if result.reflection != "" {
			return result, true
		}
		if reason := tr.dead.reasons[id]; reason != "" {
			result.lostReason = "not reflected on: " + reason
			return result, true
		}
		// The reflection is not stored yet, or another round follows.
	}
	return result, false
}

// lostAnswer returns the reason why a round of a task will never have a readable answer, "" if one may come. The
// caller holds the lock.
func (tr *tracker) lostAnswer(task string, round int) string {
	t := events.Task{Book: tr.book, ID: task, Origin: events.Origin{Round: round}}
	if reason := tr.dead.reasons[t.EventID()]; reason != "" {
		return "not answered: " + reason
	}
	if reason := tr.dead.reasons[events.ExecutionID(tr.book, "", task, round)]; reason != "" {
		return "its answer cannot be read: " + reason
	}
	return ""
}
