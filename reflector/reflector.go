// Package reflector analyses the outcome of executions. A reflection says which bullets in the prompt helped or hurt,
// which error was made, and which lesson would help with later tasks. The Reflector asks a model. Without a model it
// passes on outcomes only. It never changes a playbook.
//
// A delivery is an execution, or feedback on one (worker.go, feedback.go). The prompt quotes the execution (prompt.go, agent.go) and another
// run of its task (compare.go). The reply is parsed (reply.go, records.go) and screened, because the quoted texts are not trusted
// (screening.go). A wrong answer may lead to another round (rounds.go), else the result is a reflection.
package reflector

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/config"
	"debrief/playbook"
	"debrief/playbook/similar"
	"debrief/playbook/text"
	"debrief/reflector/rules"
)

// Config configures a Reflector. A zero field has its default; see package config for the rules of all configurations.
type Config struct {
	Slots int // executions that are reflected on at the same time; default 16

	// Rounds is the number of rounds for a task with an evaluator, up to events.MaxRounds: a wrong answer is tried again
	// with advice. The default is 1.
	Rounds int
	// TraceBudget is the maximum number of tokens of an execution's steps in the prompt. The steps around errors and the
	// last ones are kept. The default is 6,000.
	TraceBudget int
	// EvidenceBudget is the maximum number of tokens of the quotations besides the execution: the system prompt and the tools of its agent,
	// and the calls of another run of its task, which get a third. A longer system prompt is cut to the passages that have most in common
	// with the attempt. The default is 3,000, enough for the whole airline policy of tau-bench or tau2-bench (1,436 and 1,918 tokens), the
	// tools and the other run.
	EvidenceBudget int

	// Instructions replace the default instructions of the model; empty means the default. The form of the reply, and
	// the warning not to follow orders in quoted text, are always added.
	Instructions string
}

// WithDefaults returns the configuration with defaults in place of zero fields.
func (c Config) WithDefaults() Config {
	c.Slots = cmp.Or(c.Slots, 16)
	c.Rounds = cmp.Or(c.Rounds, 1)
	c.TraceBudget = cmp.Or(c.TraceBudget, 6000)
	c.EvidenceBudget = cmp.Or(c.EvidenceBudget, 3000)
	return c
}

// Validate returns all invalid fields, joined.
func (c Config) Validate() error {
	c = c.WithDefaults()
	var e config.Errors
	config.AtLeast(&e, "Slots", c.Slots, 1)
	if c.Rounds < 1 || c.Rounds > events.MaxRounds {
		e.Add("Rounds", "must be 1 to %d, got %d", events.MaxRounds, c.Rounds)
	}
	config.AtLeast(&e, "TraceBudget", c.TraceBudget, 1)
	config.AtLeast(&e, "EvidenceBudget", c.EvidenceBudget, 1)
	return e.Join()
}

// Reflector reflects on executions. It is safe for concurrent use.
type Reflector struct {
	model   chat.Model
	version string // part of the ids of reflections, so another version reflects on the same execution again
	cfg     Config

	awaiting awaiting
	prepared *lru.Cache[string, *similar.Text] // results of prepare
}

// New returns a Reflector that asks the model. With a nil model a reflection has the outcome and no lesson.
// New returns the error of [Config.Validate].
func New(model chat.Model, cfg Config) (*Reflector, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Instructions = strings.TrimSpace(cfg.Instructions)
	version := promptVersion
	switch {
	case model == nil:
		version = outcomesVersion
	case cfg.Instructions != "":
		version += "+p" + chat.Fingerprint(cfg.Instructions)
	}
	prepared, err := lru.New[string, *similar.Text](maxPrepared)
	return &Reflector{model: model, version: version, cfg: cfg.WithDefaults(), prepared: prepared}, err
}

// maxPrepared is the size of Reflector.prepared. The same bullets are in the prompts of many executions. A text takes about 1 KiB.
const maxPrepared = 8192

// prepare returns a bullet that is prepared for comparison.
func (r *Reflector) prepare(bullet string) *similar.Text {
	prepared, known := r.prepared.Get(bullet)
	if !known {
		prepared = similar.Prepare(bullet)
		r.prepared.Add(bullet, prepared)
	}
	return prepared
}

// Reflect returns the reflection on an execution with the given handle, treated as the last round of its sample. A worker
// produces the same reflection for such an execution if it is held. Reflect stores nothing and reads no other execution.
func (r *Reflector) Reflect(ctx context.Context, e *events.Execution, h events.Handle) (*events.Reflection, error) {
	ref, err := r.reflect(ctx, e, nil, "")
	if err != nil {
		return nil, fmt.Errorf("reflect on %s: %w", h, err)
	}
	ref.Handle = h
	finishSample(e, ref)
	markCopies(e, ref, nil, r.cfg)
	return ref, nil
}

// Estimate returns the calls and the tokens that Reflect will probably need for an execution, and 0 if it will not ask the model.
func (r *Reflector) Estimate(e *events.Execution) (calls, tokens int) {
	if !r.asks(e, "") {
		return 0, 0
	}
	p := reflectionPrompt(e, r.cfg)
	return 1, p.Tokens() + chat.ReplyTokens
}

// asks reports whether the model is asked about an execution: the outcome is known, or the tool calls can teach something. It is not asked
// about a right answer after wrong ones, because it was asked about these.
func (r *Reflector) asks(e *events.Execution, feedback events.ID) bool {
	solvedOnRetry := feedback == "" && len(e.PreviousRounds) > 0 && e.Outcome.Label == events.Success
	mayTeach := e.Outcome.Known() || rules.HasSignal(e)
	return r.model != nil && mayTeach && !solvedOnRetry
}

// reflect returns the reflection on an execution. It asks the model if there is something to learn, see asks.
func (r *Reflector) reflect(ctx context.Context, e *events.Execution, other *otherRun, feedback events.ID) (*events.Reflection, error) {
	sample := e.SampleID()
	ref := &events.Reflection{
		Book: e.Book,
		ID:   events.ReflectionID(sample, feedback, r.version), Execution: e.ID, Sample: sample, Feedback: feedback, Reflector: r.version,
		Owner: e.Owner, User: e.User, Session: e.Session, Control: e.InControl(), Origin: e.Origin,
		Question: text.Ends(text.WithoutLists(e.Question), maxQuestion), Outcome: e.Outcome, Created: time.Now().UTC(),
	}
	addExposures(e, ref)
	if e.Outcome.Violation {
		ref.Suspends = e.Blamed()
	}
	if !r.asks(e, feedback) {
		return ref, nil
	}
	parse := func(reply chat.Reply) (analysis, error) { return parseReflection(reply, e) }
	parts := material(e, other, r.cfg)
	out, reply, err := chat.Ask(ctx, r.model, promptOf(e, parts, r.cfg), parse)
	if err != nil {
		return nil, err
	}
	out.screen(e, other, r.cfg, r.prepare)
	ref.Reasoning = out.Reasoning
	ref.ErrorIdentification = out.ErrorIdentification
	ref.RootCauseAnalysis = out.RootCauseAnalysis
	ref.CorrectApproach = out.CorrectApproach
	ref.KeyInsight = out.KeyInsight
	ref.Tags = out.Tags
	if out.KeyInsight != "" {
		ref.Lessons = append(ref.Lessons, events.Lesson{Section: out.Section, When: out.When, Content: out.KeyInsight})
	}
	ref.Lessons = append(ref.Lessons, out.Lessons...)
	ref.Records, ref.Ignored = out.Records, out.Ignored
	// An empty name would mean that no model was asked. The advice of such a reflection waits for a person.
	ref.Model, ref.Usage = cmp.Or(reply.Model, "unnamed"), reply.Usage
	ref.EvidenceTokens = evidenceTokens(parts)
	if other != nil && other.Execution != "" {
		ref.OtherRun = &other.OtherRun
	}
	if len(e.Cited) == 0 && e.ReportedByAgent() { // a Generator cites the bullets that it follows
		followed := *e
		followed.Cited = followedBullets(ref.Tags)
		addExposures(&followed, ref)
	}
	if out.LabelSuspect != "" && e.Outcome.Known() {
		ref.LabelSuspect = text.Clip(out.LabelSuspect, maxSuspect)
		withdraw(ref)
	}
	return ref, nil
}

// followedBullets returns the bullets with a helpful or harmful vote. They stand for the citations of an agent that names none: the
// prompt of the Reflector asks for these votes where following a bullet made a difference.
func followedBullets(tags []events.BulletTag) (ids []playbook.BulletID) {
	for _, t := range tags {
		if t.Tag == events.Helpful || t.Tag == events.Harmful {
			ids = append(ids, t.ID)
		}
	}
	return ids
}

// addExposures copies the exposures and the score of the first round to the reflection, if the outcome is known. Prompts of later rounds
// also contain advice that is not in the playbook.
func addExposures(e *events.Execution, ref *events.Reflection) {
	if !e.Outcome.Known() {
		return
	}
	if len(e.PreviousRounds) > 0 {
		ref.Exposures, ref.FirstRoundScore = e.PreviousRounds[0].Exposures, e.PreviousRounds[0].Score
	} else {
		ref.Exposures, ref.FirstRoundScore = e.Exposures(), e.Outcome.Score
	}
}

// hasContent reports whether a reflection contains something that the Curator uses.
func hasContent(ref *events.Reflection) bool {
	return len(ref.Tags)+len(ref.Lessons)+len(ref.Exposures)+len(ref.Suspends)+len(ref.Records) > 0 || ref.LabelSuspect != ""
}

// Limits of texts of a reflection, in bytes.
const (
	maxQuestion = 500
	maxSuspect  = 500 // reason to doubt the outcome
)

// withdraw drops the lessons, the votes and the advice of a reflection whose outcome is doubted, and the outcomes of bullets that
// no experiment assigned. It keeps the outcomes of the random arms: a model doubts some kinds of outcomes more than others, so to leave out
// the doubted ones would bias the comparison of the arms.
func withdraw(ref *events.Reflection) {
	ref.KeyInsight = ""
	ref.CorrectApproach = ""
	ref.Lessons = nil
	ref.Tags = nil
	ref.Exposures = slices.DeleteFunc(slices.Clone(ref.Exposures), func(x events.Exposure) bool { return x.Arm == playbook.ArmOpen })
}
