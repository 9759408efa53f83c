package main

import (
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/simulated/worlds"
	"debrief/cmd/internal/train"
	"debrief/events"
	"debrief/events/service"

	book "debrief/playbook"
)

// Keys of the values of an evaluation. The columns of the tables name them, and JSON output has them. Keys that end in per_task have averages over
// all training tasks so far.
const (
	accuracyKey       = "held_out_accuracy"
	changedKey        = "accuracy_on_changed_rules"
	bulletsKey        = "bullets"
	activeKey         = "active_bullets"
	inPromptKey       = "bullets_in_prompt"
	promptTokensKey   = "prompt_tokens"
	statedKey         = "deciding_rules_stated"           // of the rules that decide tasks, the share that active bullets state
	statedInPromptKey = "stated_deciding_rules_in_prompt" // of these, the share in the prompt
	completeKey       = "tasks_with_all_deciding_rules"
	prefixKey         = "shared_prefix"        // mean of sharedPrefix over the training prompts
	callsKey          = "model_calls_per_task" // the agent's call included
	reflectorCallsKey = "reflector_calls_per_task"
	modelTokensKey    = "model_tokens_per_task" // of the Reflector and the Curator
	deadKey           = "dead_letters"
)

// evaluate answers the held-out tasks. Nothing is withheld, stored or learned.
func (r *runner) evaluate(ctx context.Context) (*point, error) {
	phase := r.phase(r.done) // of the last training task: the rules of some worlds change
	if r.arm.isFixed {       // evaluated once, for comparison with the end of other arms
		phase = r.phase(r.measurement.tasks)
	}
	return r.evaluateOn(ctx, r.agent, r.world.HeldOut(phase, r.measurement.heldOut))
}

// heldOut is a task with the context that an agent got for it, and the score of the answer.
type heldOut struct {
	*worlds.Task
	shown  []events.ShownBullet
	tokens int // of the prompt
	score  float64
}

// evaluateOn answers tasks with the contexts of an agent.
func (r *runner) evaluateOn(ctx context.Context, agent service.Backend, tasks []worlds.Task) (*point, error) {
	p, err := r.readPlaybook(ctx)
	if err != nil {
		return nil, err
	}
	answers := make([]heldOut, len(tasks))
	err = train.Each(len(tasks), parallelAnswers, func(i int) error {
		req := r.request(&tasks[i])
		req.DryRun = true
		served, err := agent.Context(ctx, req)
		if err != nil {
			return fmt.Errorf("request context of task %s: %w", tasks[i].ID, err)
		}
		if served.Stale {
			return fmt.Errorf("request context of task %s: version %d is not available", tasks[i].ID, r.version)
		}
		answers[i] = heldOut{
			Task: &tasks[i], shown: served.Shown, tokens: served.Manifest.Tokens,
			score: r.world.Verdict(tasks[i], r.world.Attempt(tasks[i], systemOf(served.Messages))).Score,
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	dead, err := r.session.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	right := 0.0
	shown, tokens := 0, 0
	for i := range answers {
		right += answers[i].score
		shown += len(answers[i].shown)
		tokens += answers[i].tokens
	}
	n := float64(len(tasks))
	v := map[string]float64{
		bulletsKey: float64(p.Len()), activeKey: float64(countActive(p)), deadKey: float64(dead.CachedInfo().State.Msgs),
		accuracyKey: right / n, inPromptKey: float64(shown) / n, promptTokensKey: float64(tokens) / n,
	}
	r.addCosts(v)
	r.decidingRules(v, p, answers)
	r.changedRules(v, answers)
	return &point{tasks: r.done, values: v}, nil
}

// addCosts sets the costs of a task in training: calls and tokens of models, and the share of a prompt that a provider can reuse.
func (r *runner) addCosts(v map[string]float64) {
	if r.done > 0 {
		v[callsKey] = 1 + float64(r.model.calls.Load())/float64(r.done)
		v[reflectorCallsKey] = float64(r.model.reflections.Load()) / float64(r.done)
		v[modelTokensKey] = float64(r.model.tokens.Load()) / float64(r.done)
	}
	if len(r.prefix) > 0 {
		v[prefixKey] = meanOf(r.prefix).Mean
		r.prefix = nil // the next evaluation is about later prompts
	}
}

func countActive(p *book.Playbook) (n int) {
	for b := range p.All() {
		if b.Shown() {
			n++
		}
	}
	return n
}

// changedRules sets the accuracy on the tasks that a changed rule decides, if rules of the world change.
func (r *runner) changedRules(v map[string]float64, answers []heldOut) {
	all, right := 0, 0.0
	for i := range answers {
		if isChanged(r.world, answers[i].Task) {
			all++
			right += answers[i].score
		}
	}
	if all > 0 {
		v[changedKey] = right / float64(all)
	}
}

// isChanged reports whether a rule that changes decides a task.
func isChanged(w worlds.World, t *worlds.Task) bool {
	d, ok := w.(worlds.Changer)
	return ok && slices.ContainsFunc(t.Deciding, func(rule int) bool { return slices.Contains(d.Changed(), rule) })
}

// decidingRules sets the share of deciding rules that an active bullet states, the share of these that the prompt contains,
// and the share of tasks with all deciding rules in the prompt.
func (r *runner) decidingRules(v map[string]float64, p *book.Playbook, answers []heldOut) {
	type phaseRule struct{ phase, rule int }
	stated := make(map[phaseRule]bool) // the rules asked for so far, and whether an active bullet states them
	isStated := func(phase, rule int) bool {
		key := phaseRule{phase, rule}
		if ok, known := stated[key]; known {
			return ok
		}
		for b := range p.All() {
			if b.Shown() && r.world.States(b.Content, phase, rule) {
				stated[key] = true
				return true
			}
		}
		stated[key] = false
		return false
	}
	var all, known, found int // rules that decide a task, of these stated in the playbook, and of these in the prompt
	complete := 0             // tasks with all of their rules in the prompt
	for i := range answers {
		a := &answers[i]
		missing := false
		for _, rule := range a.Deciding {
			all++
			if !isStated(a.Phase, rule) {
				missing = true
				continue
			}
			known++
			if slices.ContainsFunc(a.shown, func(b events.ShownBullet) bool { return r.world.States(b.Content, a.Phase, rule) }) {
				found++
			} else {
				missing = true
			}
		}
		if !missing {
			complete++
		}
	}
	v[statedKey] = float64(known) / float64(max(all, 1))
	v[completeKey] = float64(complete) / float64(max(len(answers), 1))
	if known > 0 {
		v[statedInPromptKey] = float64(found) / float64(known)
	}
}

// sharedPrefix returns the length of the common prefix with a previous text, as a share of the text. It returns 1 for an empty text.
func sharedPrefix(previous, text string) float64 {
	if text == "" {
		return 1
	}
	n := 0
	for n < len(text) && n < len(previous) && text[n] == previous[n] {
		n++
	}
	return float64(n) / float64(len(text))
}
