package learning

import (
	"context"

	"github.com/rs/zerolog"
)

const prefixKey = "shared_prefix"

// cachePart measures the use of a provider's prompt cache: the share of the system part that the previous prompt of
// the same playbook version begins with. Training prompts withhold bullets at random, held-out prompts do not.
var cachePart = worldPart{
	name: "cache", title: "share of the system part that is a prefix of the previous training prompt at one playbook version",
	arms: []string{string(defaultGate)}, tasks: 1500, quick: 300,
	columns: []column{
		{prefixKey, "shared prefix", percentInterval},
		{"prompt_tokens", "tokens", count},
		{"bullets_in_prompt", "in prompt", number1},
		{"model_calls_per_task", "calls", number2}, // one of the agent, and those of the Reflector and the Curator
		{"reflector_calls_per_task", "of the Reflector", number2},
		{"model_tokens_per_task", "model tokens", count},
		{accuracyKey, "accuracy", percent},
	},
	run: func(ctx context.Context, b *worldsBench, r *worldRun, log zerolog.Logger) ([]*point, error) {
		return b.curve(ctx, r, checkpoints(b.tasks)[1:], log)
	},
	goals: cacheGoals,
}

// sharedPrefix returns the share of a text that a previous text begins with. An empty text is shared completely.
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
