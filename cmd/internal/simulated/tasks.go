package simulated

import (
	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/simulated/worlds/invoice"
	"debrief/events"
)

// Numbers of training and held-out tasks: the default of the demo, and the maximum for a seed.
const (
	TrainTasks      = 200
	HeldOutTasks    = 200
	MaxTrainTasks   = invoice.MaxTrain
	MaxHeldOutTasks = invoice.MaxHeldOut
)

// Tasks returns the invoices of a seed: training tasks, and held-out tasks that are not among them. The evaluator is
// "steps"; the question names the steps and contains no rule. The caller sets book, purpose, origin and playbook.
func Tasks(seed uint64) (train, heldOut []events.Task) {
	return GenerateTasks(seed, TrainTasks, HeldOutTasks)
}

// GenerateTasks returns the given numbers of tasks, limited to MaxTrainTasks and MaxHeldOutTasks. Each list of a seed
// starts with the same tasks, whatever the two numbers.
func GenerateTasks(seed uint64, trainTasks, heldOutTasks int) (train, heldOut []events.Task) {
	w := invoice.New(seed, worlds.Imperfection{})
	return withTargets(w, w.Train(trainTasks)), withTargets(w, w.HeldOut(0, heldOutTasks))
}

// withTargets returns tasks with targets for the evaluator "steps".
func withTargets(w *invoice.World, tasks []worlds.Task) []events.Task {
	type step struct {
		Name   string `json:"name"`
		Amount string `json:"amount"`
	}
	var target struct {
		Answer string `json:"answer"`
		Steps  []step `json:"steps"`
	}
	out := make([]events.Task, len(tasks))
	for i, t := range tasks {
		amounts, total := w.Amounts(t)
		target.Answer, target.Steps = total, nil
		for _, a := range amounts {
			target.Steps = append(target.Steps, step{a.Step, a.Amount})
		}
		out[i] = events.Task{ID: t.ID, Question: t.Question, Target: worlds.ReplyJSON(target), Evaluator: "steps"}
	}
	return out
}
