// Package roles is the part of a simulated language model that all worlds can share. It answers the prompts of the
// Generator, the Reflector, the Curator, the reducer and the refiner, with configured rates of errors. The Language of a
// world reads and writes the rules.
//
// Every reply depends only on the seed and on the text of the prompt.
package roles

import (
	"fmt"
	"slices"
	"strings"

	"debrief/cmd/internal/simulated/worlds/prompt"
	"debrief/cmd/internal/simulated/worlds/world"
)

// Rule is the meaning of a text that states a rule.
type Rule interface {
	// Condition identifies the case that the rule decides. Two rules with one condition and different meanings
	// contradict each other.
	Condition() string
	// Meaning identifies the condition and the decision. Paraphrases have one meaning.
	Meaning() string
	Section() string
	// Text states the rule. The draw selects one of several wordings.
	Text(draw uint64) string
}

// Language reads and writes the language of a world. It knows no hidden rule. All methods are safe for concurrent use.
type Language interface {
	// Read returns the rule that a text states, or false.
	Read(text string) (Rule, bool)
	// Answer answers a task by the bullets in a system prompt.
	Answer(question, context, system string) prompt.Answer
	// Analyse derives a rule from one execution with a failure or an unknown outcome.
	Analyse(e *prompt.Execution, d Dice) Analysis
	// Generalise returns a wrong generalisation of a rule: it names a detail of the execution that does not matter, or
	// leaves out one that does.
	Generalise(r Rule, e *prompt.Execution, d Dice) Rule
	// Platitudes returns n pieces of advice that are true and useless.
	Platitudes(n int) []string
}

// Follower is a Language whose model finds out which bullets an agent followed if the agent cites none.
type Follower interface {
	// Followed returns the ids of the shown bullets that the calls of the run follow.
	Followed(e *prompt.Execution) []string
}

// Analysis is the result of an analysis. Insight is nil if the material shows no cause.
type Analysis struct {
	Insight                    Rule
	Reasoning, Error, Approach string
	Blamed                     []string // ids of the bullets that led to the error
}

// Dice draws pseudo-random numbers for one prompt. Draws for different purposes are independent.
type Dice uint64

// Draw returns the number for a purpose.
func (d Dice) Draw(purpose string) uint64 { return world.Draw(uint64(d), purpose) }

// Chance returns true with the given probability.
func (d Dice) Chance(rate float64, purpose string) bool {
	return world.Chance(rate, uint64(d), purpose)
}

// Model answers prompts.
type Model struct {
	Seed     uint64
	Errors   world.Imperfection
	Language Language
}

// Reply answers the prompt of a role. It implements World.Reply.
func (m *Model) Reply(schema string, messages []world.Message) string {
	d := Dice(world.Draw(m.Seed, schema, prompt.Text(messages)))
	reply := ""
	switch schema {
	case "generator":
		question, context := prompt.Task(messages)
		a := m.Language.Answer(question, context, prompt.Earlier(messages)+prompt.System(messages))
		a.BulletIDs = slices.DeleteFunc(a.BulletIDs, prompt.IsEarlier)
		return prompt.JSON(a)
	case "reflector":
		e := prompt.ReadExecution(messages)
		reply = prompt.JSON(m.reflect(&e, d))
	case "curator":
		reply = prompt.JSON(m.curate(prompt.ReadCuration(messages), d))
	case "reducer":
		reply = prompt.JSON(m.reduce(prompt.Proposals(messages)))
	case "refiner":
		reply = prompt.JSON(m.refine(prompt.ReadCuration(messages)))
	case "summary":
		return prompt.Summarise(messages)
	default:
		return "I am a simulated model and answer only the prompts of the roles."
	}
	if d.Chance(m.Errors.BrokenJSON, "broken") {
		return prompt.Break(reply, d.Draw("kind of break"))
	}
	return reply
}

// reflect analyses an execution.
func (m *Model) reflect(e *prompt.Execution, d Dice) prompt.Reflection {
	out := prompt.Reflection{BulletTags: []prompt.Tag{}}
	m.findFollowed(e)
	if e.Outcome == "success" {
		out.Reasoning = "The result is right. The cited bullets led to it."
		for _, b := range e.Shown {
			if b.Cited {
				out.BulletTags = append(out.BulletTags, prompt.Tag{ID: b.ID, Tag: "helpful"})
			}
		}
		m.distortTags(&out, d)
		return out
	}
	a := m.Language.Analyse(e, d)
	out.Reasoning = a.Reasoning
	out.ErrorIdentification = a.Error
	out.CorrectApproach = a.Approach
	switch {
	case d.Chance(m.Errors.Idle, "idle"): // no insight
	case d.Chance(m.Errors.Platitude, "platitude"):
		all := m.Language.Platitudes(40)
		out.KeyInsight, out.Section = all[d.Draw("which platitude")%uint64(len(all))], "general"
	case a.Insight != nil:
		r := a.Insight
		if d.Chance(m.Errors.WrongGeneralisation, "wrong generalisation") {
			r = m.Language.Generalise(r, e, d)
		}
		out.KeyInsight, out.Section = m.state(r, e, d), r.Section()
		out.RootCauseAnalysis = "The playbook did not state this rule, or stated another one."
	}
	if e.Outcome == "unknown" {
		return out
	}
	for _, b := range e.Shown {
		if !b.Cited {
			continue
		}
		tag := "neutral"
		if slices.Contains(a.Blamed, b.ID) {
			tag = "harmful"
		}
		out.BulletTags = append(out.BulletTags, prompt.Tag{ID: b.ID, Tag: tag})
	}
	m.distortTags(&out, d)
	return out
}

// findFollowed marks the followed bullets as cited if the agent cites none.
func (m *Model) findFollowed(e *prompt.Execution) {
	f, ok := m.Language.(Follower)
	if !ok || slices.ContainsFunc(e.Shown, func(b prompt.Bullet) bool { return b.Cited }) {
		return
	}
	followed := f.Followed(e)
	for i := range e.Shown {
		e.Shown[i].Cited = slices.Contains(followed, e.Shown[i].ID)
	}
}

// state returns a rule in words that do not repeat the feedback or a bullet, because the prompt asks for own words.
func (m *Model) state(r Rule, e *prompt.Execution, d Dice) string {
	text := r.Text(m.wording(d, "wording"))
	for i := 0; i < 20 && repeats(text, e); i++ {
		text = r.Text(d.Draw(fmt.Sprint("other wording ", i)))
	}
	return text
}

func repeats(text string, e *prompt.Execution) bool {
	if strings.Contains(e.Feedback, text) {
		return true
	}
	for _, b := range e.Shown {
		if b.Text == text {
			return true
		}
	}
	return false
}

// wording returns the draw for a wording of a rule: 0, which is the plain wording, or at the rate of paraphrases another draw.
func (m *Model) wording(d Dice, purpose string) uint64 {
	if !d.Chance(m.Errors.Paraphrase, "paraphrase "+purpose) {
		return 0
	}
	return d.Draw(purpose) | 1
}

// distortTags inverts one vote at the rate WrongTag, and adds a vote for an unknown bullet at the rate UnknownID.
func (m *Model) distortTags(out *prompt.Reflection, d Dice) {
	if n := len(out.BulletTags); n > 0 && d.Chance(m.Errors.WrongTag, "wrong tag") {
		t := &out.BulletTags[d.Draw("which tag")%uint64(n)]
		if t.Tag == "helpful" {
			t.Tag = "harmful"
		} else {
			t.Tag = "helpful"
		}
	}
	if d.Chance(m.Errors.UnknownID, "unknown id") {
		out.BulletTags = append(out.BulletTags, prompt.Tag{ID: unknownID(d), Tag: "helpful"})
	}
}

func unknownID(d Dice) string { return fmt.Sprintf("zz-%05d", d.Draw("id")%100000) }
