package learning

import (
	"context"
	"fmt"
	"slices"

	"debrief/cmd/internal/simulated/worlds/world"
	"debrief/cmd/internal/train"
	"debrief/events"
	"debrief/events/service"

	book "debrief/playbook"
)

// Keys of the values of an evaluation. The columns of a part name them, and JSON output has them. Those of a task are averages over all tasks
// so far.
const (
	accuracyKey       = "held_out_accuracy"
	changedKey        = "accuracy_on_changed_rules"
	trainedKey        = "accuracy_on_training_tasks" // since the last evaluation, each task answered once
	leastKey          = "least_gain"                 // see addGains
	bulletsKey        = "bullets"
	activeKey         = "active_bullets"
	inPromptKey       = "bullets_in_prompt"
	promptTokensKey   = "prompt_tokens"
	statedKey         = "deciding_rules_stated" // by an active bullet
	decidingKey       = "stated_deciding_rules_in_prompt"
	completeKey       = "tasks_with_all_deciding_rules"
	prefixKey         = "shared_prefix"        // mean of sharedPrefix over the training prompts
	callsKey          = "model_calls_per_task" // the agent's call included
	reflectorCallsKey = "reflector_calls_per_task"
	modelTokensKey    = "model_tokens_per_task" // of the Reflector and the Curator
	noAdviceKey       = "calls_without_advice"  // share of the calls through the gateway
	deadKey           = "dead_letters"
)

// evaluate answers the held-out tasks. Nothing is withheld, stored or learned.
func (r *runner) evaluate(ctx context.Context) (*point, error) {
	phase := r.phase(r.done)
	if r.arm.isFixed { // evaluated once, for comparison with the end of other arms
		phase = r.phase(r.measurement.tasks)
	}
	return r.evaluateOn(ctx, r.agent, r.world.HeldOut(phase, r.measurement.heldOut))
}

// evaluateOn answers tasks with the contexts of an agent.
func (r *runner) evaluateOn(ctx context.Context, agent service.Backend, tasks []world.Task) (*point, error) {
	p, err := r.readPlaybook(ctx)
	if err != nil {
		return nil, err
	}
	scores, shown := make([]float64, len(tasks)), make([][]events.ShownBullet, len(tasks))
	tokens := make([]int, len(tasks))
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
		scores[i] = r.world.Verdict(tasks[i], r.world.Attempt(tasks[i], r.bulletsIn(served.Messages))).Score
		shown[i], tokens[i] = served.Shown, served.Manifest.Tokens
		return nil
	})
	if err != nil {
		return nil, err
	}
	dead, err := r.session.JetStream().Stream(ctx, events.StreamDead)
	if err != nil {
		return nil, fmt.Errorf("open stream %s: %w", events.StreamDead, err)
	}
	n := float64(len(tasks))
	v := map[string]float64{
		bulletsKey: float64(p.Len()), activeKey: float64(countActive(p)), deadKey: float64(dead.CachedInfo().State.Msgs),
	}
	right := 0.0
	allShown := 0
	allTokens := 0
	for i := range tasks {
		right += scores[i]
		allShown += len(shown[i])
		allTokens += tokens[i]
	}
	v[accuracyKey] = right / n
	v[inPromptKey] = float64(allShown) / n
	v[promptTokensKey] = float64(allTokens) / n
	if r.done > 0 {
		v[callsKey] = 1 + float64(r.model.calls.Load())/float64(r.done)
		v[reflectorCallsKey] = float64(r.model.reflections.Load()) / float64(r.done)
		v[modelTokensKey] = float64(r.model.tokens.Load()) / float64(r.done)
	}
	if n := float64(len(r.prefix)); n > 0 {
		sum := 0.0
		for _, share := range r.prefix {
			sum += share
		}
		v[prefixKey] = sum / n
		r.prefix = nil // the next evaluation is about later prompts
	}
	if r.gateway != nil {
		r.gateway.addGains(v)
	}
	r.decidingRules(v, p, tasks, shown)
	r.changedRules(v, tasks, scores)
	return &point{tasks: r.done, values: v}, nil
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
func (r *runner) changedRules(v map[string]float64, tasks []world.Task, scores []float64) {
	all, right := 0, 0.0
	for i := range tasks {
		if isChanged(r.world, &tasks[i]) {
			all++
			right += scores[i]
		}
	}
	if all > 0 {
		v[changedKey] = right / float64(all)
	}
}

// isChanged reports whether a rule that changes decides a task.
func isChanged(w world.World, t *world.Task) bool {
	d, ok := w.(world.Changer)
	return ok && slices.ContainsFunc(t.Deciding, func(rule int) bool { return slices.Contains(d.Changed(), rule) })
}

// decidingRules sets the share of deciding rules that an active bullet states, the share of these that the prompt contains,
// and the share of tasks with all deciding rules in the prompt.
func (r *runner) decidingRules(v map[string]float64, p *book.Playbook, tasks []world.Task, shown [][]events.ShownBullet) {
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
	for i := range tasks {
		missing := false
		for _, rule := range tasks[i].Deciding {
			all++
			if !isStated(tasks[i].Phase, rule) {
				missing = true
				continue
			}
			known++
			if slices.ContainsFunc(shown[i], func(b events.ShownBullet) bool { return r.world.States(b.Content, tasks[i].Phase, rule) }) {
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
	v[completeKey] = float64(complete) / float64(max(len(tasks), 1))
	if known > 0 {
		v[decidingKey] = float64(found) / float64(known)
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
