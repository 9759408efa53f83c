package generator

// Told is what models are told before they answer: ours, and those of agents that are served a context.
func Told() string { return Instructions + "\n" + agentGuide }
