// Package worlds has the common parts of all simulated worlds. A world measures learning: it has tasks with hidden rules, an agent, and a model for the
// Reflector and the Curator. Each world is a package below this one, and an entry in cmd/bench/worlds.go.
//
// A world shares no code with the product: it imports only the standard library and other packages of the worlds. The
// model of a world reads prompts, and knows language but no rules. It therefore learns only through the playbook.
//
//	world.go   World      the types of a world and of its tasks; texts.go writes lists of tasks and texts
//	cases.go   Case       rules that decide a part of an answer, in the worlds text and tools
//	draw.go    Draw       random draws; embed.go makes embeddings of them
//	cache.go   Cached     caches of readers of texts, and of tasks
//	prompt.go  ReadTask   the prompts of all roles, as a model sees them; reply.go writes the replies
//	roles.go   Model      the model, with configured rates of errors. It answers the prompts of the Generator, the Reflector,
//	                      the Curator, the reducer and the refiner. The Language of a world reads and writes the rules.
//
// Every reply depends only on the seed and on the text of the prompt.
package worlds

// Task is one task of a world.
type Task struct {
	ID, Question, Context string
	// Phase is the set of rules that decides the answer. It is 0 except in a drifting world.
	Phase int
	// Deciding lists the rules that decide the answer, as indexes into ByHand(Phase). The product never sees it.
	Deciding []int
}

// Message is one message of a prompt. Speaker is "system", "user", "assistant" or "tool".
type Message struct{ Speaker, Text string }

// Step is one tool call of an attempt.
type Step struct {
	Tool, Arguments, Output string
	Failed                  bool
}

// Attempt is the answer of an agent to a task. Cited lists the ids of the bullets that the agent used.
type Attempt struct {
	Answer, Reasoning string
	Cited             []string
	Steps             []Step
}

// Verdict is the feedback on an attempt. A score of 1 is right, 0 is wrong, and between them the attempt is right in part.
type Verdict struct {
	Score    float64
	Feedback string
}

// Right reports whether the attempt is right as a whole.
func (v Verdict) Right() bool { return v.Score == 1 }

// World is a family of tasks with hidden rules, and a model that knows the language of the tasks but not the rules. All
// methods are safe for concurrent use. Their results depend only on the seed of the world and the arguments.
type World interface {
	Name() string
	// Train returns the first n training tasks.
	Train(n int) []Task
	// HeldOut returns the first n held-out tasks of a phase. None of them is a training task.
	HeldOut(phase, n int) []Task
	// ByHand returns bullets that state every rule of a phase. An agent with all of them answers nearly every task.
	ByHand(phase int) []string
	// Attempt returns the answer of an agent. The system prompt contains the bullets, as lines "- [id] content".
	Attempt(t Task, system string) Attempt
	// Verdict returns the true verdict on an attempt.
	Verdict(t Task, a Attempt) Verdict
	// Wrong returns the opposite of the true verdict v, with plausible wrong feedback.
	Wrong(t Task, a Attempt, v Verdict) Verdict
	// Reply returns the reply of an imperfect model to the prompt of a role. The schema is the name of the requested JSON
	// schema: generator, reflector, curator, reducer, refiner or summary.
	Reply(schema string, messages []Message) string
	// Features returns the weights of what a text is about, for an embedding (Embed). Paraphrases have similar features.
	Features(text string) map[string]float64
	// Platitudes returns pieces of advice that are true and useless.
	Platitudes() []string
	// Distractors returns n different rules in the grammar of the world. Each is plausible, and none applies to any task.
	Distractors(n int) []string
	// States reports whether a bullet states exactly the rule ByHand(phase)[rule].
	States(bullet string, phase, rule int) bool
}

// Changer is a World with rules that change after some training tasks.
type Changer interface {
	// Changed returns the rules that differ between the phases, as indexes into ByHand. A task with one of them in Deciding
	// has another right answer in each phase.
	Changed() []int
}

// Imperfection holds the error rates of the simulated Reflector and Curator. Each is a share of replies, 0 to 1.
type Imperfection struct {
	WrongGeneralisation float64 `json:"wrong_generalisation"` // a reflector blames a detail that does not matter
	Platitude           float64 `json:"platitude"`            // a reflector gives useless advice in place of a rule
	Paraphrase          float64 `json:"paraphrase"`           // a reflector or curator states a rule in other words
	WrongTag            float64 `json:"wrong_tag"`            // a reflector votes for a bullet in the wrong direction
	BrokenJSON          float64 `json:"broken_json"`          // a reply is not parseable
	Idle                float64 `json:"idle"`                 // a reflector finds nothing, or a curator proposes nothing
	Duplicate           float64 `json:"duplicate"`            // a curator adds a text with the meaning of a bullet
	UnknownID           float64 `json:"unknown_id"`           // a reply contains the id of a bullet that does not exist
	Forgetful           bool    `json:"forgetful,omitempty"`  // the lessons of a reflector leave out the scope of a rule, in worlds where rules have one
}

// Default returns moderate error rates.
func Default() Imperfection {
	return Imperfection{
		WrongGeneralisation: 0.10, Platitude: 0.10, Paraphrase: 0.5, WrongTag: 0.05,
		BrokenJSON: 0.01, Idle: 0.10, Duplicate: 0.10, UnknownID: 0.02,
	}
}
