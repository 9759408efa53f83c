package reflector

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/admit"
	"debrief/playbook/similar"
	"debrief/playbook/text"
	"debrief/reflector/rules"
)

// A lesson of package rules states what worked, with exact counts of runs, but not the reason. A model that reads the runs can find the
// reason. The explanation is added after the lesson, whose text stays word for word, because the counts belong to it.

// Explanation is the reason that a model found for a lesson.
type Explanation struct {
	Text     string // empty if the model found no reason, or if its text was rejected
	Rejected string // why the text was rejected; empty if it was not
	Model    string
	Usage    chat.Usage
}

const explainForm = `

Answer with one JSON object and nothing around it:
{"reasoning": "how you came to it", "explanation": "one or two sentences, or \"\""}`

type wireExplanation struct {
	Reasoning   string `json:"reasoning"`
	Explanation string `json:"explanation"`
}

var explanationSchema = chat.SchemaOf[wireExplanation]()

// Limits of an explanation.
const (
	maxExplanation = 500 // bytes
	maxExplainRuns = 2   // runs in the prompt
)

// Explain asks a model for the reason of a lesson. The runs are examples that support it: the first one, and one of the same task that
// ended differently. All texts of the runs are untrusted, and so is the reply: Explain rejects an explanation that gives orders to
// models, copies the runs, repeats the lesson or claims counts.
func Explain(ctx context.Context, m chat.Model, l *rules.Lesson, runs []*events.Execution, cfg Config) (Explanation, error) {
	runs = runs[:min(len(runs), maxExplainRuns)]
	quoted := quotedRuns(runs, cfg.WithDefaults())
	found, reply, err := chat.Ask(ctx, m, explainPrompt(l, runs, quoted), parseExplanation)
	out := Explanation{Model: text.Quotable(reply.Model, maxModelName), Usage: reply.Usage}
	if err != nil || found == "" {
		return out, err
	}
	out.Rejected = rejectExplanation(found, l, quoted)
	if out.Rejected == "" {
		out.Text = found
	}
	return out, nil
}

// maxModelName is the maximum length of the name of a model in a reason, in bytes.
const maxModelName = 80

func explainPrompt(l *rules.Lesson, runs []*events.Execution, quoted []chat.Quotation) chat.Prompt {
	var user strings.Builder
	for i, e := range runs {
		fmt.Fprintf(&user, "Run %d. %s\n", i+1, outcomeLabel(e))
	}
	parts := append([]chat.Quotation{{Name: "lesson", Text: l.Content}, {Name: "counts of the lesson", Text: l.Evidence}}, quoted...)
	user.WriteString(chat.Quote(parts))
	return chat.Prompt{
		Name:     "reflector-explain",
		Messages: []chat.Message{{Speaker: chat.System, Text: chat.PromptExplanation + chat.PromptQuotes + explainForm}, {Speaker: chat.User, Text: user.String()}},
		Schema:   explanationSchema,
	}
}

func outcomeLabel(e *events.Execution) string {
	if !e.Outcome.Known() {
		return "Outcome: unknown."
	}
	return fmt.Sprintf("Outcome: %s.", e.Outcome.Label)
}

// quotedRuns returns the material of the runs, which share the budgets of tokens.
func quotedRuns(runs []*events.Execution, cfg Config) (parts []chat.Quotation) {
	if len(runs) > 0 {
		cfg.TraceBudget, cfg.EvidenceBudget = max(1, cfg.TraceBudget/len(runs)), max(1, cfg.EvidenceBudget/len(runs))
	}
	for i, e := range runs {
		for _, q := range material(e, nil, cfg) {
			q.Name = fmt.Sprintf("%s of run %d", q.Name, i+1)
			parts = append(parts, q)
		}
	}
	return parts
}

func parseExplanation(r chat.Reply) (string, error) {
	reply, err := chat.ParseObject(r, "explanation")
	return text.UnlessNone(strings.Join(strings.Fields(reply.Text("explanation")), " ")), err
}

// claimedCount matches numbers of runs and shares, which only the program may give.
var claimedCount = regexp.MustCompile(`(?i)\d\s*(?:%|percent\b|/\s*\d|(?:out )?of (?:the |all )?\d|(?:(?:recorded|failed|successful|other) )?(?:runs?|tasks?|times|attempts?|cases?)\b)`)

// rejectExplanation returns why an explanation must be dropped, "" if it may stay.
func rejectExplanation(s string, l *rules.Lesson, quoted []chat.Quotation) string {
	switch found, suspect := admit.Screen(s); {
	case suspect:
		return found.String()
	case len(s) > maxExplanation:
		return fmt.Sprintf("longer than %d bytes", maxExplanation)
	case claimedCount.MatchString(s):
		return "contains a count"
	case prepareLesson(s).isEcho(l.Content, similar.Prepare):
		return "repeats the lesson"
	}
	if from := copySource(s, sourcesOf(quoted)); from != "" {
		return "copied from the runs (" + from + ")"
	}
	return ""
}
