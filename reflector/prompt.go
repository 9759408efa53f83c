package reflector

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// promptVersion is the version of a Reflector with the default instructions. Change it together with the prompt.
const promptVersion = "r11"

// outcomesVersion is the version of a Reflector without a model.
const outcomesVersion = "outcomes1"

// systemForm describes the reply. The last brace is missing, because recordsForm may follow.
const systemForm = "\n\nAnswer with one JSON object and nothing around it:\n" +
	`{"reasoning": "how you came to it", ` +
	`"error_identification": "what exactly went off, \"\" for nothing", ` +
	`"root_cause_analysis": "why", ` +
	`"correct_approach": "what would have been right", ` +
	`"when": "the condition under which the insight holds: what a reader of another task would check, in at most 30 words that continue a sentence after \"When\", in lower case unless with a name; \"\" if it always holds", ` +
	`"key_insight": "the one sentence, without this condition, or \"\"", ` +
	`"section": "a word or two under which a reader would look for the insight", ` +
	`"further_insights": [{"when": "its condition", "insight": "one sentence", "section": "a word or two"}], ` +
	`"label_suspect": "why the outcome itself is wrong, or \"\"", ` +
	`"bullet_tags": [{"id": "bullet id", "tag": "helpful|harmful|neutral"}]`

// Limits of the parts of the prompt, in bytes. A trace may have any length, so it also has a limit in tokens,
// Config.TraceBudget. Shortened text contains a mark with the number of bytes that are left out.
const (
	longText  = 8 << 10 // context, reasoning, and the question beside a context
	shortText = 4 << 10 // answer, target, feedback
	maxTrace  = 1 << 20
)

// Names of the quotations in the prompt.
const (
	quoteContext   = "context"
	quoteBoth      = "context and question"
	quoteQuestion  = "question"
	quoteBullets   = "bullets shown"
	quoteWithheld  = "bullets withheld"
	quoteNotes     = "reflections shown"
	quoteRounds    = "earlier attempts"
	quoteTrace     = "trace"
	quoteOther     = "calls of another run of the task"
	quoteOtherTry  = "another answer to the task"
	quoteOtherNote = "feedback on the other answer"
	quoteReasoning = "reasoning"
	quoteAnswer    = "answer"
	quoteTarget    = "expected answer"
	quoteFeedback  = "feedback"
)

// reflectionPrompt returns the prompt that asks a model to reflect on one execution, without another run of its task. With an unknown
// outcome it asks to learn from the trace alone and to judge no bullet.
//
// All text of a task, a model, a tool or a person is quoted. The marks around a quotation contain a hash of all quoted
// text, so no text can close its own quotation.
func reflectionPrompt(e *events.Execution, cfg Config) chat.Prompt {
	return promptOf(e, material(e, nil, cfg), cfg)
}

// promptOf returns the prompt of reflectionPrompt with this material.
func promptOf(e *events.Execution, parts []chat.Quotation, cfg Config) chat.Prompt {
	instructions := strings.TrimSpace(cfg.Instructions)
	isFirstRound := len(e.PreviousRounds) == 0
	system := chat.PromptAttempt
	switch {
	case instructions != "":
		system = instructions + "\n"
	case isFirstRound && e.Outcome.Label == events.Success && len(e.Steps) == 0 && !isComparison(parts):
		system = chat.PromptRightAnswer
	}
	if !isFirstRound {
		system += chat.PromptEarlierAttempts
	}
	if describesAgent(e) {
		system += chat.PromptAgentRules
	}
	if quotedWithheld(e) != "" {
		system += chat.PromptWithheld
	}
	if quotedNotes(e) != "" {
		system += chat.PromptNotes
	}
	system += chat.PromptQuotes
	schema, form := reflectionSchema, systemForm
	if wantsRecords(e) {
		system += chat.PromptRecords
		schema, form = recordsSchema, systemForm+recordsForm
	}
	system += form + "}"
	user := outcomeLine(e) + "\n" + chat.Quote(parts)
	return chat.Prompt{
		Name:     "reflector",
		Messages: []chat.Message{{Speaker: chat.System, Text: system}, {Speaker: chat.User, Text: user}},
		Schema:   schema,
	}
}

// isComparison reports whether another answer to the task is quoted.
func isComparison(parts []chat.Quotation) bool {
	return slices.ContainsFunc(parts, func(q chat.Quotation) bool { return q.Name == quoteOther || q.Name == quoteOtherTry })
}

// material returns the quotations about an execution. other is another run of its task, nil for none.
func material(e *events.Execution, other *otherRun, cfg Config) (parts []chat.Quotation) {
	cfg = cfg.WithDefaults()
	evidence := cfg.EvidenceBudget
	quote := func(name, text string, limit int) {
		text = strings.TrimSpace(text)
		if text != "" {
			parts = append(parts, chat.Quotation{Name: name, Text: excerpt(text, limit)})
		}
	}
	if strings.TrimSpace(e.Context) == strings.TrimSpace(e.Question) { // one field of a data set is often both
		quote(quoteBoth, e.Question, 2*longText)
	} else {
		quote(quoteContext, e.Context, longText)
		quote(quoteQuestion, e.Question, 2*longText-min(len(e.Context), longText)) // the question alone may have the room of both
	}
	// The bullets, tries and steps are shortened one by one: their limits here only bound the sum.
	quote(quoteBullets, quotedBullets(e), len(e.Shown)*shortText)
	quote(quoteWithheld, quotedWithheld(e), events.MaxExposures*shortText)
	quote(quoteNotes, quotedNotes(e), longText)
	quote(quoteRounds, quotedRounds(e.PreviousRounds), events.MaxPreviousRounds*shortText)
	quote(quoteTrace, quotedTrace(e.Steps, cfg.TraceBudget), maxTrace)
	otherTry := e.OtherTry
	if other != nil {
		calls := other.quotedCalls(evidence / 3)
		evidence -= chat.Tokens(calls)
		quote(quoteOther, calls, maxTrace)
		if calls == "" {
			otherTry = &other.try
		}
	}
	if otherTry != nil {
		quote(quoteOtherTry, quotedTry(otherTry), longText)
		quote(quoteOtherNote, otherTry.Outcome.Feedback, maxTryText)
	}
	parts = append(parts, agentQuotes(e, evidence)...)
	quote(quoteReasoning, e.Reasoning, longText)
	quote(quoteAnswer, e.Answer, shortText)
	if e.Outcome.Label != events.Success || e.Answer == "" { // a right answer equals the target
		quote(quoteTarget, e.Target, shortText)
	}
	quote(quoteFeedback, e.Outcome.Feedback, shortText)
	return parts
}

// quotedTry returns the outcome, the reasoning and the answer of another try.
func quotedTry(t *events.Try) string {
	out := outcomeOf(&t.Outcome)
	if reasoning := strings.TrimSpace(t.Reasoning); reasoning != "" {
		out += fmt.Sprintf("reasoning: %s\n", excerpt(reasoning, longText/2))
	}
	return out + fmt.Sprintf("answer: %s\n", excerpt(strings.TrimSpace(t.Answer), stepOutput))
}

// quotedRounds summarizes the earlier rounds, a few lines each.
func quotedRounds(rounds []events.PreviousRound) string {
	var out strings.Builder
	for i := range rounds {
		t := &rounds[i]
		fmt.Fprintf(&out, "attempt %d answered: %s\n", i+1, excerpt(strings.TrimSpace(t.Answer), stepOutput))
		for _, advice := range []string{t.Approach, t.Insight} {
			if advice != "" {
				fmt.Fprintf(&out, "  advice: %s\n", excerpt(advice, stepOutput))
			}
		}
	}
	return out.String()
}

// outcomeLine describes the outcome. It contains no untrusted text.
func outcomeLine(e *events.Execution) string {
	target := " The expected answer is not known."
	if e.Outcome.Label == events.Success && e.Answer != "" {
		target = "" // it equals the answer
	} else if strings.TrimSpace(e.Target) != "" {
		target = " The expected answer is quoted below; it may hold more than the answer, such as intermediate results."
	}
	switch e.Outcome.Label {
	case events.Success:
		return "Outcome: success." + target
	case events.Partial, events.Failure:
		return fmt.Sprintf("Outcome: %s (score %.2f of 1).%s", e.Outcome.Label, e.Outcome.Score, target)
	}
	return "Outcome: unknown." + target + " Learn from what the trace itself shows, such as an error and what got past it, and leave bullet_tags empty."
}

// quotedBullets returns one JSON object for each bullet, one on a line, so that no content can imitate a second
// bullet.
func quotedBullets(e *events.Execution) string {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	var line struct {
		ID      playbook.BulletID `json:"id"`
		Content string            `json:"content"`
		Cited   bool              `json:"cited,omitempty"`
	}
	for _, b := range e.Shown {
		if b.Content == "" { // no longer stored
			continue
		}
		line.ID, line.Content = b.ID, excerpt(b.Content, shortText/2)
		line.Cited = slices.Contains(e.Cited, b.ID)
		_ = enc.Encode(&line) // strings and a bool always encode, and a strings.Builder never fails
	}
	return out.String()
}

// withheldExposures returns the exposures of the bullets that an experiment withheld from the prompt of the last round. For a run that succeeded it
// returns none: it says nothing about their texts.
func withheldExposures(e *events.Execution) (list []*events.Exposure) {
	isFlawed := e.Outcome.Label == events.Failure || e.Outcome.Label == events.Partial
	if e.Manifest == nil || !isFlawed {
		return nil
	}
	for i := range e.Manifest.Exposures {
		if x := &e.Manifest.Exposures[i]; x.Arm == playbook.ArmWithheld {
			list = append(list, x)
		}
	}
	return list
}

// quotedWithheld returns the withheld bullets, as quotedBullets those that were shown.
func quotedWithheld(e *events.Execution) string {
	withheld := &events.Execution{}
	for _, x := range withheldExposures(e) {
		withheld.Shown = append(withheld.Shown, events.ShownBullet{ID: x.Bullet, Content: x.Content})
	}
	return quotedBullets(withheld)
}

// shownNotes returns the parts of the manifest that are reflections in the prompt of the last round.
func shownNotes(e *events.Execution) (parts []*events.Part) {
	if e.Manifest == nil {
		return nil
	}
	for i := range e.Manifest.Parts {
		if p := &e.Manifest.Parts[i]; p.Kind == events.PartReflection {
			parts = append(parts, p)
		}
	}
	return parts
}

// noteLines returns the texts of a note, one on a line with its name.
func noteLines(n *events.Note) (lines []string) {
	for _, t := range [][2]string{{events.NoteError, n.Error}, {events.NoteApproach, n.Approach}, {events.NoteInsight, n.Insight}} {
		if line := text.Line(t[1], len(t[1])); line != "" {
			lines = append(lines, t[0]+": "+line)
		}
	}
	return lines
}

// quotedNotes returns the reflections that the attempt was shown. It may have followed them, although no bullet says the same.
func quotedNotes(e *events.Execution) string {
	var out strings.Builder
	for _, p := range shownNotes(e) {
		if p.Text != "" { // else no longer stored
			out.WriteString("- " + strings.ReplaceAll(p.Text, "\n", "\n  ") + "\n")
		}
	}
	return out.String()
}

// quotedTrace returns the steps as text of at most budget tokens. It first omits the steps that say least about the
// outcome: those in the middle without an error.
func quotedTrace(steps []events.Step, budget int) string {
	texts := make([]string, len(steps))
	var failed []int
	for i := range steps {
		texts[i] = quotedStep(i, &steps[i])
		if slices.ContainsFunc(steps[i].Calls, func(c events.ToolCall) bool { return c.Outcome.Failed() }) {
			failed = append(failed, i)
		}
	}
	c := newChoice(texts, budget)
	if last := len(steps) - 1; last >= 0 { // the end comes first
		limit := max(2*budget, 200) // bytes; a text with two bytes for each token of the budget mostly fits
		texts[last] = strings.TrimRight(excerpt(texts[last], limit), "\n") + "\n"
		c.take(last)
	}
	for _, i := range slices.Backward(failed) {
		c.take(i)     // the error,
		c.take(i + 1) // the reaction,
		c.take(i - 1) // and the step before it
	}
	c.take(0) // the beginning
	for i := len(steps) - 2; i > 0; i-- {
		c.take(i)
	}
	return c.join("steps")
}

// Limits within one step of a trace, in bytes.
const (
	stepText   = 2 << 10
	stepArgs   = 1000 // enough for a booking with its passengers and payments
	stepOutput = 1000
	stepCalls  = 8 // calls
)

func quotedStep(i int, s *events.Step) string {
	var out strings.Builder
	fmt.Fprintf(&out, "step %d, %s", i+1, cmp.Or(s.Speaker, chat.Assistant))
	if text := strings.TrimSpace(s.Text); text != "" {
		out.WriteString(": ")
		out.WriteString(excerpt(text, stepText))
	}
	out.WriteString("\n")
	for j := range s.Calls[:min(len(s.Calls), stepCalls)] {
		c := &s.Calls[j]
		fmt.Fprintf(&out, "  call %s(%s)", excerpt(c.Tool, stepArgs), excerpt(c.Arguments, stepArgs))
		output := excerpt(strings.TrimSpace(c.Output), stepOutput)
		// The result of a call that ended the run is unknown: an agent that stops at a tool sends no further request with it.
		if isUnknown := c.Outcome == "" || c.Outcome == events.Unknown; isUnknown && output == "" {
			out.WriteString(" [its result is not recorded]\n")
			continue
		}
		if c.Outcome != "" {
			fmt.Fprintf(&out, " [%s]", c.Outcome)
		}
		fmt.Fprintf(&out, " -> %s\n", output)
	}
	if more := len(s.Calls) - stepCalls; more > 0 {
		fmt.Fprintf(&out, "  [%d calls left out]\n", more)
	}
	return out.String()
}

// excerpt shortens text to at most limit bytes plus the mark: it keeps the beginning and the end, cut between runes.
func excerpt(s string, limit int) string {
	if len(s) <= limit {
		return text.Valid(s)
	}
	first, last := text.Cut(s, limit/2, limit/2)
	return text.Valid(fmt.Sprintf("%s [… %d bytes left out …] %s", first, len(s)-len(first)-len(last), last))
}

// choice is a part of some texts that fits into a budget of tokens.
type choice struct {
	texts   []string // each ends with a line feed
	kept    []bool   // by text
	budget  int      // tokens that are left
	gapMark int      // tokens that each kept text reserves for the mark of a gap before it
}

func newChoice(texts []string, budget int) *choice {
	return &choice{texts: texts, kept: make([]bool, len(texts)), budget: budget}
}

// take keeps the text with an index, if it exists and fits into the budget.
func (c *choice) take(i int) {
	isText := i >= 0 && i < len(c.texts)
	if !isText || c.kept[i] || c.budget <= 0 {
		return
	}
	if tokens := chat.Tokens(c.texts[i]) + c.gapMark; tokens <= c.budget {
		c.kept[i] = true
		c.budget -= tokens
	}
}

// join returns the kept texts in their order, with a mark for each gap, such as "[3 steps left out]". things is the word for the texts.
func (c *choice) join(things string) string {
	var out strings.Builder
	gap := 0 // texts that were left out before the current one
	writeGap := func() {
		if gap > 0 {
			fmt.Fprintf(&out, "[%d %s left out]\n", gap, things)
			gap = 0
		}
	}
	for i, text := range c.texts {
		if !c.kept[i] {
			gap++
			continue
		}
		writeGap()
		out.WriteString(text)
	}
	writeGap()
	return out.String()
}
