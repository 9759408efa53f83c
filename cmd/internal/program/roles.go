package program

import (
	"errors"
	"time"

	"debrief/curator"
	"debrief/curator/gate"
	"debrief/generator"
	"debrief/generator/prompt/assembly"
	"debrief/generator/scoring"
	"debrief/playbook"
	"debrief/reflector"
)

// The structs of this file define the flags of the roles. Each one stands for a configuration of a library and has fields
// with the same names and types: Settings copies the values to the configuration, SetDefaults takes the defaults from it,
// and Validate reports its errors with the names of the flags. To add a setting, add the field to the configuration and
// here. TestFlagsCoverTheLibraries fails if one of them lacks a field.

// Generator contains the flags of the generator.
type Generator struct {
	Slots int `name:"generator-slots" help:"Maximum number of tasks answered at the same time."`

	RawReply int `name:"raw-reply" help:"Store this many bytes of the model's raw reply with each execution, up to 65536; 0 for none." default:"0" rare:""`

	Limits

	Recall generator.Recall `name:"recall" help:"Scope of recalled executions: session, book (also other users' sessions) or none." group:"Context" rare:""`

	RecallMemory int `name:"recall-memory" help:"Memory limit for recalled executions, in bytes; the oldest are evicted." group:"Context" rare:""`

	GeneratorPrompt string `name:"generator-prompt" help:"File with the generator's instructions, in place of the built-in ones. The answer format is added." type:"path" placeholder:"FILE" rare:""`
}

func (g *Generator) SetDefaults() { copyFields(g, generator.Config{}.WithDefaults()) }

// Settings returns the generator's configuration with the instructions from the file.
func (g Generator) Settings() (cfg generator.Config, err error) {
	copyFields(&cfg, g)
	cfg.Instructions, err = Instructions("--generator-prompt", g.GeneratorPrompt)
	return cfg, err
}

func (g Generator) Validate() error {
	var cfg generator.Config
	copyFields(&cfg, g)
	return FlagErrors(cfg.Validate(), g)
}

// ServeFlags contains the flag for a generator that runs no tasks.
type ServeFlags struct {
	ServeOnly bool `help:"Run no tasks: only serve contexts to agents that call their own model."`
}

// Limits contains the flags of contexts.
type Limits struct {
	Total        int `name:"context-tokens" help:"Maximum tokens of a context, including instructions and question." group:"Context" rare:""`
	Bullets      int `name:"bullet-tokens" help:"Maximum tokens of bullets in a context." group:"Context" rare:""`
	MaxBullets   int `name:"bullets" help:"Maximum bullets in a context; -1 for as many as fit." group:"Context" rare:""`
	Conversation int `name:"conversation-tokens" help:"Tokens of earlier turns and recalled history; adapted to the session (x 0.5 to 4)." group:"Context" rare:""`
	Items        int `name:"conversation-items" help:"Maximum messages and tool steps of earlier turns." group:"Context" rare:""`

	Window      assembly.Window `name:"window" help:"Earlier user turns of the session in a context: 1 to 20, none (no limit) or adaptive." group:"Context"`
	WindowMin   int             `name:"window-min" help:"Minimum turns of --window adaptive." group:"Context" rare:""`
	WindowMax   int             `name:"window-max" help:"Maximum turns of --window adaptive." group:"Context" rare:""`
	Texts       assembly.Texts  `name:"window-text" help:"Agent texts shown in earlier turns: final, none or all." group:"Context" rare:""`
	Reflections int             `name:"reflections" help:"Recent reflections in a context, of the session and of similar tasks each; -1 for none." group:"Context" rare:""`
	Recall      int             `name:"recall-top" help:"Maximum older executions recalled for a context; -1 for none." group:"Context" rare:""`

	Votes   bool    `name:"bullet-votes" help:"Show the votes of bullets in prompts. Each vote then ends the prefix that a provider can reuse." group:"Context" rare:""`
	Weights Weights `embed:"" prefix:"weight-" group:"Context"`
}

// Weights contains the flags of the parts of a bullet's score. The tag "zero" marks flags for which 0 does not select the default.
type Weights struct {
	Effectiveness float64 `name:"effectiveness" help:"Weight of the effectiveness in the order of bullets. If all three weights are 0: by rank." default:"0" zero:"" rare:""`
	Recency       float64 `name:"recency" help:"Weight of the recency of the last use in the order of bullets." default:"0" zero:"" rare:""`
	Relevance     float64 `name:"relevance" help:"Weight of the relevance to the query in the order of bullets." default:"0" zero:"" rare:""`
}

func (l *Limits) SetDefaults() { copyFields(l, assembly.Limits{}.WithDefaults()) }

// Settings returns the limits of a context.
func (l Limits) Settings() (limits assembly.Limits) {
	copyFields(&limits, l)
	return limits
}

func (l Limits) Validate() error { return FlagErrors(l.Settings().Validate(), l) }

// Evaluators contains the flags of evaluator programs.
type Evaluators struct {
	Programs []scoring.Program `name:"evaluator-program" sep:"none" help:"Run COMMAND for evaluator program:NAME; see 'debrief train --help'. Repeatable." placeholder:"NAME=COMMAND [ARGS…]" group:"Evaluators" rare:""`
	Timeout  time.Duration     `name:"evaluator-timeout" help:"Maximum duration of one evaluator program run." group:"Evaluators" rare:""`
	Rubric   string            `name:"judge-rubric" help:"File with the rubric of the evaluator judge, in place of the built-in one." type:"path" placeholder:"FILE" group:"Evaluators" rare:""`
}

func (e *Evaluators) SetDefaults() { copyFields(e, scoring.Config{}.WithDefaults()) }

// Settings returns the configuration of the evaluator programs.
func (e Evaluators) Settings() (cfg scoring.Config) {
	copyFields(&cfg, e)
	cfg.Rubric, _ = Instructions("--judge-rubric", e.Rubric) // Validate returns the error
	return cfg
}

func (e Evaluators) Validate() error {
	_, err := Instructions("--judge-rubric", e.Rubric)
	return errors.Join(err, FlagErrors(e.Settings().Validate(), e))
}

// Reflector contains the flags of the reflector.
type Reflector struct {
	Slots int `name:"reflector-slots" help:"Executions that are reflected on at the same time."`

	Rounds      int `name:"rounds" help:"Rounds for a task with an evaluator, 1 to 3: a wrong answer is tried again with advice."`
	TraceBudget int `name:"trace-budget" help:"Maximum tokens of an execution's steps in the prompt: those around errors and the last." rare:""`

	EvidenceBudget int `name:"evidence-budget" help:"Maximum tokens of the agent's system prompt and tools and another run's calls in the prompt." rare:""`

	ReflectorPrompt string `name:"reflector-prompt" help:"File with the reflector's instructions, in place of the built-in ones. The answer format is added." type:"path" placeholder:"FILE" rare:""`
}

func (r *Reflector) SetDefaults() { copyFields(r, reflector.Config{}.WithDefaults()) }

// Settings returns the reflector's configuration with the instructions from the file.
func (r Reflector) Settings() (cfg reflector.Config, err error) {
	copyFields(&cfg, r)
	cfg.Instructions, err = Instructions("--reflector-prompt", r.ReflectorPrompt)
	return cfg, err
}

func (r Reflector) Validate() error {
	var cfg reflector.Config
	copyFields(&cfg, r)
	return FlagErrors(cfg.Validate(), r)
}

// Curator contains the flags of the curator.
type Curator struct {
	Slots    int `name:"curator-slots" help:"Playbooks to process in parallel."`
	MaxBatch int `name:"curator-batch" help:"Maximum number of events in one batch of a playbook." rare:""`

	MaxTokens int `name:"token-budget" help:"Maximum estimated tokens of all bullets of a playbook; -1 for no limit."`

	GateMode playbook.Gate   `name:"gate" help:"Gate mode of playbooks that 'debrief playbook gate' did not set: off, guard or strict." placeholder:"MODE" group:"Gate"`
	Gate     Gate            `embed:""`
	Review   playbook.Review `name:"review" help:"Review mode of playbooks that 'debrief playbook review mode' did not set: first or off." placeholder:"MODE" group:"Gate"`
	Control  playbook.Share  `name:"control" help:"Share of the sessions without advice, of playbooks that 'debrief playbook control' did not set: off, or up to 50%." placeholder:"SHARE" group:"Gate"`
	Trust    []string        `name:"trust" help:"Trust in SOURCE: trusted (default), untrusted, limited to SHARE % (50) of the evidence." placeholder:"SOURCE=LEVEL[:SHARE]" rare:""`
	MaxBurst int             `name:"burst" help:"New bullets of a session or limited source in 10 min before quarantine; -1: no limit." rare:""`
}

// Gate contains the flags of the gate.
type Gate struct {
	Alpha       float64 `name:"gate-alpha" help:"Error probability of each decision of the gate about a bullet." group:"Gate" rare:""`
	MaxOutcomes int     `name:"gate-outcomes" help:"Strict gate: outcomes after which a bullet on probation without a result retires." group:"Gate" rare:""`
}

func (g *Gate) SetDefaults() { copyFields(g, gate.Config{}.WithDefaults()) }

// Settings returns the configuration of the gate.
func (g Gate) Settings() (cfg gate.Config) {
	copyFields(&cfg, g)
	return cfg
}

func (g Gate) Validate() error { return FlagErrors(g.Settings().Validate(), g) }

func (c *Curator) SetDefaults() { copyFields(c, curator.Config{}.WithDefaults()) }

// Settings returns the curator's configuration.
func (c Curator) Settings() (cfg curator.Config) {
	copyFields(&cfg, c)
	return cfg
}

func (c Curator) Validate() error { return FlagErrors(c.Settings().Validate(), c) }
