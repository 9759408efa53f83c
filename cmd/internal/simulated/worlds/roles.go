package worlds

import (
	"fmt"
	"slices"
	"strings"
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

// Conditional is a Rule whose condition a model can state apart from the text.
type Conditional interface {
	// When states the condition, "" if the rule always holds.
	When() string
}

// when returns the condition of a rule as a model states it, "" if the prompt does not ask for conditions.
func when(r Rule, asksWhen bool) string {
	if c, ok := r.(Conditional); ok && asksWhen {
		return c.When()
	}
	return ""
}

// Language reads and writes the language of a world. It knows no hidden rule. All methods are safe for concurrent use.
type Language interface {
	// Read returns the rule that a text states, or false.
	Read(text string) (Rule, bool)
	// Answer answers a task by the bullets in a system prompt.
	Answer(question, context, system string) Answer
	// Analyse derives a rule from one execution with a failure or an unknown outcome.
	Analyse(e *Execution, d Dice) Analysis
	// Generalise returns a wrong generalisation of a rule: it names a detail of the execution that does not matter, or
	// leaves out one that does.
	Generalise(r Rule, e *Execution, d Dice) Rule
	// Platitudes returns pieces of advice that are true and useless.
	Platitudes() []string
}

// Follower is a Language whose model finds out which bullets an agent followed if the agent cites none.
type Follower interface {
	// Followed returns the ids of the shown bullets that the calls of the run follow.
	Followed(e *Execution) []string
}

// Analysis is the result of an analysis. Insight is nil if the material shows no cause.
type Analysis struct {
	Insight                    Rule
	Reasoning, Error, Approach string
	Blamed                     []string // ids of the bullets that led to the error
}

// Model answers prompts.
type Model struct {
	Seed     uint64
	Errors   Imperfection
	Language Language
}

// Reply answers the prompt of a role. It implements World.Reply.
func (m *Model) Reply(schema string, messages []Message) string {
	d := Dice(Draw(m.Seed, schema, AllText(messages)))
	reply := ""
	switch schema {
	case "generator":
		question, context := ReadTask(messages)
		a := m.Language.Answer(question, context, ReadEarlierInsights(messages)+SystemText(messages))
		a.BulletIDs = slices.DeleteFunc(a.BulletIDs, IsEarlierInsight) // an answer cannot cite them
		return ReplyJSON(a)                                            // without errors: the rates are those of a Reflector and a Curator
	case "reflector":
		e := ReadExecution(messages)
		reply = ReplyJSON(m.reflect(&e, d))
	case "curator":
		reply = ReplyJSON(m.curate(ReadCuration(messages), d))
	case "reducer":
		reply = ReplyJSON(m.reduce(ReadProposals(messages)))
	case "refiner":
		reply = ReplyJSON(m.refine(ReadCuration(messages)))
	default:
		return "I am a simulated model and answer only the prompts of the roles."
	}
	if d.Chance(m.Errors.BrokenJSON, "broken") {
		return BreakJSON(reply, d.Draw("kind of break"))
	}
	return reply
}

// Attempt implements World.Attempt for an agent without tools.
func (m *Model) Attempt(t Task, system string) Attempt {
	a := m.Language.Answer(t.Question, t.Context, system)
	return Attempt{Answer: a.FinalAnswer, Reasoning: a.Reasoning, Cited: a.BulletIDs}
}

// reflect analyses an execution.
func (m *Model) reflect(e *Execution, d Dice) Reflection {
	out := Reflection{BulletTags: []Tag{}}
	m.findFollowed(e)
	if e.Outcome == "success" {
		out.Reasoning = "The result is right. The cited bullets led to it."
		for _, b := range e.Shown {
			if b.Cited {
				out.BulletTags = append(out.BulletTags, Tag{ID: b.ID, Tag: "helpful"})
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
		all := m.Language.Platitudes()
		out.KeyInsight, out.Section = all[d.Draw("which platitude")%uint64(len(all))], "general"
	case a.Insight != nil:
		r := a.Insight
		if d.Chance(m.Errors.WrongGeneralisation, "wrong generalisation") {
			r = m.Language.Generalise(r, e, d)
		}
		out.KeyInsight, out.Section = m.inOwnWords(r, e, d), r.Section()
		out.When = when(r, e.AsksWhen)
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
		out.BulletTags = append(out.BulletTags, Tag{ID: b.ID, Tag: tag})
	}
	m.distortTags(&out, d)
	return out
}

// findFollowed marks the followed bullets as cited if the agent cites none.
func (m *Model) findFollowed(e *Execution) {
	f, ok := m.Language.(Follower)
	if !ok || slices.ContainsFunc(e.Shown, func(b Bullet) bool { return b.Cited }) {
		return
	}
	followed := f.Followed(e)
	for i := range e.Shown {
		e.Shown[i].Cited = slices.Contains(followed, e.Shown[i].ID)
	}
}

// inOwnWords states a rule in words that do not repeat the feedback or a bullet, because the prompt asks for own words.
func (m *Model) inOwnWords(r Rule, e *Execution, d Dice) string {
	text := r.Text(m.wording(d, "wording"))
	for i := 0; i < 20 && repeats(text, e); i++ {
		text = r.Text(d.Draw(fmt.Sprint("other wording ", i)))
	}
	return text
}

func repeats(text string, e *Execution) bool {
	if strings.Contains(e.Feedback, text) {
		return true
	}
	for _, b := range e.Shown {
		if b.Text == text || strings.HasSuffix(b.Text, ": "+text) { // after its condition
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
	return d.Draw(purpose) | 1 // never 0
}

// distortTags inverts one vote at the rate WrongTag, and adds a vote for an unknown bullet at the rate UnknownID.
func (m *Model) distortTags(out *Reflection, d Dice) {
	if n := len(out.BulletTags); n > 0 && d.Chance(m.Errors.WrongTag, "wrong tag") {
		t := &out.BulletTags[d.Draw("which tag")%uint64(n)]
		if t.Tag == "helpful" {
			t.Tag = "harmful"
		} else {
			t.Tag = "helpful"
		}
	}
	if d.Chance(m.Errors.UnknownID, "unknown id") {
		out.BulletTags = append(out.BulletTags, Tag{ID: unknownID(d), Tag: "helpful"})
	}
}

func unknownID(d Dice) string { return fmt.Sprintf("zz-%05d", d.Draw("id")%100000) }
