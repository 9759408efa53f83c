package reflector

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// promptVersion is the version of the prompt. It is part of the ids of reflections, so a new prompt makes new
// reflections.
const promptVersion = "r6"

// outcomesVersion is the version of a Reflector without a model.
const outcomesVersion = "outcomes1"

const systemForm = `

Answer with one JSON object and nothing around it:
{"reasoning": "how you came to it", "error_identification": "what exactly went off, \"\" for nothing", "root_cause_analysis": "why", "correct_approach": "what would have been right", "when": "the condition under which the insight holds: what a reader of another task would check, in at most 30 words; \"\" if it always holds", "key_insight": "the one sentence, or \"\"", "section": "a word or two under which a reader would look for the insight", "further_insights": [{"when": "its condition", "insight": "one sentence", "section": "a word or two"}], "label_suspect": "why the outcome itself is wrong, or \"\"", "bullet_tags": [{"id": "bullet id", "tag": "helpful|harmful|neutral"}]`

// wireReflection is the reply that the schema asks for.
type wireReflection struct {
	Reasoning           string        `json:"reasoning"`
	ErrorIdentification string        `json:"error_identification"`
	RootCauseAnalysis   string        `json:"root_cause_analysis"`
	CorrectApproach     string        `json:"correct_approach"`
	When                string        `json:"when"`
	KeyInsight          string        `json:"key_insight"`
	Section             string        `json:"section"`
	FurtherInsights     []wireInsight `json:"further_insights"`
	LabelSuspect        string        `json:"label_suspect"`
	BulletTags          []wireTag     `json:"bullet_tags"`
}

type wireInsight struct {
	When    string `json:"when"`
	Insight string `json:"insight"`
	Section string `json:"section"`
}

type wireTag struct {
	ID  string `json:"id"`
	Tag string `json:"tag"`
}

// wireWithRecords is the reply with summaries of the steps.
type wireWithRecords struct {
	wireReflection
	Records []wireRecord `json:"records"`
}

type wireRecord struct {
	Step      int              `json:"step"`
	Synthesis string           `json:"synthesis"`
	Progress  string           `json:"progress"`
	Calls     []wireCallRecord `json:"calls"`
}

type wireCallRecord struct {
	Line      string   `json:"line"`
	Insights  string   `json:"insights"`
	Learning  string   `json:"learning"`
	Relevance string   `json:"relevance"`
	Next      []string `json:"next_suggested_actions"`
}

var (
	reflectionSchema = chat.SchemaOf[wireReflection]()
	recordsSchema    = chat.SchemaOf[wireWithRecords]()
)

// Limits of the parts of the prompt, in bytes. A trace may have any length, so it also has a limit in tokens,
// Config.TraceBudget. Shortened text contains a mark with the number of bytes that are left out.
const (
	longText  = 8 << 10 // question, context, reasoning
	shortText = 4 << 10 // answer, target, feedback
	maxTrace  = 1 << 20
)

// Names of the quotations in the prompt.
const (
	quoteContext   = "context"
	quoteQuestion  = "question"
	quoteBullets   = "bullets shown"
	quoteTries     = "earlier attempts"
	quoteTrace     = "trace"
	quoteOther     = "calls of another run of the task"
	quoteOtherTry  = "another answer to the task"
	quoteReasoning = "reasoning"
	quoteAnswer    = "answer"
	quoteTarget    = "expected answer"
	quoteFeedback  = "feedback"
)

// reflectionPrompt returns the prompt that asks a model to reflect on one execution. With an unknown outcome it asks to learn
// from the trace alone and to judge no bullet.
//
// All text of a task, a model, a tool or a person is quoted. The marks around a quotation contain a hash of all quoted
// text, so no text can close its own quotation.
func reflectionPrompt(e *events.Execution, other *otherRun, cfg Config) chat.Prompt {
	system, instructions := chat.PromptAttempt, strings.TrimSpace(cfg.Instructions)
	if instructions != "" {
		system = instructions + "\n"
	}
	switch {
	case len(e.PreviousRounds) > 0:
		system += chat.PromptEarlierAttempts
	case instructions == "" && e.Outcome.Label == events.Success && len(e.Steps) == 0 && e.OtherTry == nil:
		system = chat.PromptRightAnswer
	}
	if describesAgent(e) {
		system += chat.PromptAgentRules
	}
	schema := reflectionSchema
	system += chat.PromptQuotes
	if wantsRecords(e) {
		schema = recordsSchema
		system += chat.PromptRecords + systemForm + recordsForm + "}"
	} else {
		system += systemForm + "}"
	}
	user := outcomeLine(e) + "\n" + chat.Quote(material(e, other, cfg))
	return chat.Prompt{
		Name:     "reflector",
		Messages: []chat.Message{{Speaker: chat.System, Text: system}, {Speaker: chat.User, Text: user}},
		Schema:   schema,
	}
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
	quote(quoteContext, e.Context, longText)
	quote(quoteQuestion, e.Question, longText)
	// The bullets, tries and steps are shortened one by one: their limits here only bound the sum.
	quote(quoteBullets, quotedBullets(e), len(e.Shown)*shortText)
	quote(quoteTries, quotedTries(e.PreviousRounds), events.MaxPreviousRounds*shortText)
	quote(quoteTrace, quotedTrace(e.Steps, cfg.TraceBudget), maxTrace)
	if other != nil {
		calls := other.quoted(evidence / 3)
		evidence -= chat.Tokens(calls)
		quote(quoteOther, calls, maxTrace)
	}
	if e.OtherTry != nil {
		quote(quoteOtherTry, quotedTry(e.OtherTry), longText)
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
	out := fmt.Sprintf("outcome: %s\n", t.Outcome.Label)
	if reasoning := strings.TrimSpace(t.Reasoning); reasoning != "" {
		out += fmt.Sprintf("reasoning: %s\n", excerpt(reasoning, longText/2))
	}
	return out + fmt.Sprintf("answer: %s\n", excerpt(strings.TrimSpace(t.Answer), stepOutput))
}

// quotedTries summarizes the earlier rounds, a few lines each.
func quotedTries(tries []events.PreviousRound) string {
	var out strings.Builder
	for i := range tries {
		t := &tries[i]
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
	cited := make(map[string]bool, len(e.Cited))
	for _, id := range e.Cited {
		cited[string(id)] = true
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	var line struct {
		ID      string `json:"id"`
		Content string `json:"content"`
		Cited   bool   `json:"cited,omitempty"`
	}
	for _, b := range e.Shown {
		if b.Content == "" { // no longer stored
			continue
		}
		line.ID = string(b.ID)
		line.Content = excerpt(b.Content, shortText/2)
		line.Cited = cited[string(b.ID)]
		if !line.Cited && isPlainJSON(line.ID) && isPlainJSON(line.Content) { // nearly all of them
			out.WriteString(`{"id":"` + line.ID + `","content":"` + line.Content + "\"}\n")
			continue
		}
		_ = enc.Encode(&line) // strings and a bool always encode, and a strings.Builder never fails
	}
	return out.String()
}

// isPlainJSON reports whether a text is the same as a JSON string, between quotation marks.
func isPlainJSON(s string) bool {
	for i := range len(s) {
		c := s[i]
		isASCII := c >= ' ' && c < 0x7f
		if !isASCII || c == '"' || c == '\\' {
			return false
		}
	}
	return true
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
	if last := len(steps) - 1; last >= 0 { // always show the end, shortened if necessary
		texts[last] = strings.TrimRight(excerpt(texts[last], max(2*budget, 200)), "\n") + "\n"
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
		if c.Outcome != "" {
			fmt.Fprintf(&out, " [%s]", c.Outcome)
		}
		fmt.Fprintf(&out, " -> %s\n", excerpt(strings.TrimSpace(c.Output), stepOutput))
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

// Output is the parsed reply of a model.
type Output struct {
	Reasoning           string
	ErrorIdentification string
	RootCauseAnalysis   string
	CorrectApproach     string
	// KeyInsight is empty if there is nothing to learn. Section is the section that the model proposes for it.
	// When is the condition under which it holds, and the screen puts it before the insight.
	KeyInsight string
	When       string
	Section    string
	// LabelSuspect is the reason why the model doubts the outcome, or "".
	LabelSuspect string
	// Lessons are further insights.
	Lessons []events.Lesson
	// Records are summaries of the last steps, for later turns of the session.
	Records []events.Record
	// Tags are votes on bullets in the prompt of the execution, at most one for each bullet.
	Tags []events.BulletTag
	// Ignored lists the parts of the reply that were dropped, one sentence with the reason each.
	Ignored []string
}

// Ask asks a model to reflect on an execution alone. It asks up to chat.MaxCalls times while the reply is not readable.
func Ask(ctx context.Context, m chat.Model, e *events.Execution, cfg Config) (Output, chat.Reply, error) {
	return ask(ctx, m, e, nil, cfg)
}

// ask is Ask with another run of the task in the prompt, if it is not nil.
func ask(ctx context.Context, m chat.Model, e *events.Execution, other *otherRun, cfg Config) (Output, chat.Reply, error) {
	return chat.Ask(ctx, m, reflectionPrompt(e, other, cfg), func(r chat.Reply) (Output, error) { return parseReflection(r, e) })
}

var errNotReflection = errors.New("parse reply: no field of a reflection")

// parseReflection parses a reply. It drops votes on bullets that were not in the prompt of the execution, and notes
// them in Ignored. With the error for a missing insight it returns the rest of the reply.
func parseReflection(r chat.Reply, e *events.Execution) (Output, error) {
	reply, err := chat.ParseObject(r, "key_insight")
	isMissing := errors.As(err, new(*chat.MissingError))
	if err != nil && !isMissing {
		return Output{}, err
	}
	out := Output{
		Reasoning:           reply.Text("reasoning"),
		ErrorIdentification: reply.Text("error_identification"),
		RootCauseAnalysis:   reply.Text("root_cause_analysis"),
		CorrectApproach:     reply.Text("correct_approach"),
		When:                reply.Text("when"),
		Section:             reply.Text("section"),
		LabelSuspect:        reply.Text("label_suspect"),
	}
	for _, field := range []string{"key_insight", "further_insights", "extracted_learnings"} {
		raw, _ := reply.Field(field)
		for _, l := range readInsights(raw, out.Section) {
			isKnown := func(known events.Lesson) bool { return known.Content == l.Content }
			switch {
			case out.KeyInsight == "":
				out.KeyInsight, out.Section = l.Content, l.Section
				out.When = cmp.Or(l.When, out.When)
			case l.Content != out.KeyInsight && !slices.ContainsFunc(out.Lessons, isKnown):
				out.Lessons = append(out.Lessons, l)
			}
		}
	}
	tags, _ := reply.Field("bullet_tags")
	out.readTags(tags, e)
	records, _ := reply.Field("records")
	out.readRecords(records, e)
	if isMissing {
		isOther := out.Reasoning+out.CorrectApproach == "" && len(out.Tags) == 0 // such as {"error": …}
		if isOther {
			return Output{}, errNotReflection
		}
		out.ignore("key_insight: missing, also when asked again")
	}
	return out, err
}

// readTags adds the votes of a list: [{"id": …, "tag": …}], or {"id": "tag"}.
func (o *Output) readTags(raw json.RawMessage, e *events.Execution) {
	var list []chat.Object
	if json.Unmarshal(raw, &list) != nil {
		var byID chat.Object
		if json.Unmarshal(raw, &byID) != nil {
			if len(raw) > 0 && string(raw) != "null" {
				o.Ignored = append(o.Ignored, "bullet_tags: not a list of id and tag")
			}
			return
		}
		for _, id := range slices.Sorted(maps.Keys(byID)) {
			name, _ := json.Marshal(id)
			list = append(list, chat.Object{"id": name, "tag": byID[id]})
		}
	}
	for _, t := range list {
		id := playbook.BulletID(strings.Trim(t.Text("bullet_id"), "[] \t\r\n"))
		vote, ok := parseVote(t.Text("tag"))
		switch {
		case id == "":
			o.Ignored = append(o.Ignored, "bullet_tags: tag without a bullet id")
		case !ok:
			o.Ignored = append(o.Ignored, fmt.Sprintf("bullet_tags: tag %q of bullet %q: want helpful, harmful or neutral", excerpt(t.Text("tag"), 40), excerpt(string(id), 80)))
		case !e.Outcome.Known():
			o.Ignored = append(o.Ignored, fmt.Sprintf("bullet_tags: vote on bullet %q: the outcome is unknown", excerpt(string(id), 80)))
		case !slices.ContainsFunc(e.Shown, func(b events.ShownBullet) bool { return b.ID == id }):
			o.Ignored = append(o.Ignored, fmt.Sprintf("bullet_tags: bullet %q was not in the prompt", excerpt(string(id), 80)))
		case slices.ContainsFunc(o.Tags, func(b events.BulletTag) bool { return b.ID == id }):
			o.Ignored = append(o.Ignored, fmt.Sprintf("bullet_tags: bullet %q has a vote already", excerpt(string(id), 80)))
		default:
			o.Tags = append(o.Tags, events.BulletTag{ID: id, Tag: vote})
		}
	}
}

// parseVote parses a tag in the spellings that models use.
func parseVote(tag string) (events.Vote, bool) {
	switch strings.ToLower(strings.Trim(tag, " \t\r\n\"'*.")) {
	case "helpful", "helped", "useful", "good", "positive", "+1":
		return events.Helpful, true
	case "harmful", "harmed", "misleading", "wrong", "bad", "negative", "-1":
		return events.Harmful, true
	case "neutral", "none", "irrelevant", "unused", "0":
		return events.Neutral, true
	}
	return "", false
}

// readInsights returns the insights in a field: a text, or a list of texts or objects such as {"insight": …, "section": …}.
func readInsights(raw json.RawMessage, section string) (all []events.Lesson) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for _, item := range list {
		l := events.Lesson{Section: section, Content: chat.FieldText(item)}
		var o chat.Object
		if json.Unmarshal(item, &o) == nil && o != nil {
			l.Section, l.When, l.Content = cmp.Or(o.Text("section"), section), o.Text("when"), cmp.Or(o.Text("key_insight"), o.Text("content"))
		}
		if l.Content != "" {
			all = append(all, l)
		}
	}
	return all
}
