package worlds

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Bullet is a bullet in a prompt.
type Bullet struct {
	ID, Text string
	Cited    bool // only in a Reflector's prompt
}

// SystemText joins the system messages of a prompt.
func SystemText(messages []Message) string {
	return join(messages, func(speaker string) bool { return speaker == "system" || speaker == "developer" })
}

// UserText joins the messages of a prompt that are neither from the system nor from the assistant.
func UserText(messages []Message) string {
	return join(messages, func(speaker string) bool {
		return speaker != "system" && speaker != "developer" && speaker != "assistant"
	})
}

// AllText joins all messages of a prompt. It is the input of random draws about the prompt.
func AllText(messages []Message) string {
	return join(messages, func(string) bool { return true })
}

func join(messages []Message, accept func(speaker string) bool) string {
	var all strings.Builder
	for _, m := range messages {
		if accept(m.Speaker) {
			all.WriteString(m.Text)
			all.WriteString("\n")
		}
	}
	return all.String()
}

var votes = regexp.MustCompile(` \(helpful=\d+, harmful=\d+\)$`)

// ReadBullets returns the bullets in a text, in order. A bullet is a line "- [id] content"; further lines of the content are
// indented by two spaces. Vote counts after the content are removed.
func ReadBullets(text string) []Bullet {
	var out []Bullet
	id, content := "", ""
	flush := func() {
		if id != "" {
			if strings.HasSuffix(content, ")") {
				content = votes.ReplaceAllString(content, "")
			}
			out = append(out, Bullet{ID: id, Text: content})
		}
		id = ""
	}
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if bullet, ok := strings.CutPrefix(line, "- ["); ok {
			flush()
			id, content, _ = strings.Cut(bullet, "] ")
		} else if more, ok := strings.CutPrefix(line, "  "); ok && id != "" {
			content += "\n" + more
		} else {
			flush()
		}
	}
	flush()
	return out
}

var quoteBegin = regexp.MustCompile(`(?m)^\[\[begin ([a-z0-9 ]+) ([0-9a-f]{16})\]\]$`)

// ReadQuotes returns the quotations in a text by name. A quotation is between the lines "[[begin name mark]]" and
// "[[end name mark]]". Of two quotations with one name ReadQuotes returns the last.
func ReadQuotes(text string) map[string]string {
	quotes := make(map[string]string)
	for {
		m := quoteBegin.FindStringSubmatchIndex(text)
		if m == nil {
			return quotes
		}
		name, mark := text[m[2]:m[3]], text[m[4]:m[5]]
		text = text[m[1]:]
		body, rest, closed := strings.Cut(text, "\n[[end "+name+" "+mark+"]]")
		if !closed {
			return quotes
		}
		quotes[name] = strings.TrimPrefix(body, "\n")
		text = rest
	}
}

// ReadTask returns the question and the context of a Generator's prompt. They are in the last user message with the header "# Task";
// a later message can ask for another format. Without that header, the question is the last user message.
func ReadTask(messages []Message) (question, context string) {
	last := ""
	for _, m := range slices.Backward(messages) {
		if m.Speaker != "user" {
			continue
		}
		if last == "" {
			last = strings.TrimSpace(m.Text)
		}
		at := strings.LastIndex(m.Text, "# Task\n")
		if at < 0 {
			continue
		}
		if from := strings.LastIndex(m.Text[:at], "# Context\n"); from >= 0 {
			context = strings.TrimSpace(m.Text[from+len("# Context\n") : at])
		}
		return strings.TrimSpace(m.Text[at+len("# Task\n"):]), context
	}
	return last, ""
}

// earlier is the id of the bullets of ReadEarlierInsights.
const earlier = "earlier"

// ReadEarlierInsights returns the insights of earlier attempts at the task of a Generator's prompt as bullets, the newest first.
func ReadEarlierInsights(messages []Message) string {
	var out string
	for line := range strings.Lines(ReadQuotes(UserText(messages))["earlier attempts at this task"]) {
		if insight, ok := strings.CutPrefix(line, "  insight: "); ok {
			out = "- [" + earlier + "] " + strings.TrimSpace(insight) + "\n" + out
		}
	}
	return out
}

// IsEarlierInsight reports whether an id is that of the bullets of ReadEarlierInsights, which an answer cannot cite.
func IsEarlierInsight(id string) bool { return id == earlier }

// Execution is the material of a Reflector's prompt. Fields without a quotation are empty.
type Execution struct {
	Outcome                                       string // success, failure, partial or unknown
	Question, Answer, Reasoning, Target, Feedback string
	Trace                                         string
	Shown                                         []Bullet
	AsksWhen                                      bool // the prompt asks for the condition of the insight
}

// asksWhen reports whether the reply to a prompt has a field for the condition of a rule.
func asksWhen(messages []Message) bool { return strings.Contains(SystemText(messages), `"when"`) }

var outcome = regexp.MustCompile(`(?m)^Outcome: ([a-z]+)`)

// ReadExecution reads a Reflector's prompt.
func ReadExecution(messages []Message) Execution {
	text := UserText(messages)
	q := ReadQuotes(text)
	e := Execution{
		Question: q["question"], Answer: q["answer"], Reasoning: q["reasoning"], Target: q["expected answer"],
		Feedback: q["feedback"], Trace: q["trace"], AsksWhen: asksWhen(messages),
	}
	if m := outcome.FindStringSubmatch(text); m != nil {
		e.Outcome = m[1]
	}
	for line := range strings.Lines(q["bullets shown"]) {
		var b struct {
			ID      string `json:"id"`
			Content string `json:"content"`
			Cited   bool   `json:"cited"`
		}
		if json.Unmarshal([]byte(line), &b) == nil && b.ID != "" {
			e.Shown = append(e.Shown, Bullet{b.ID, b.Content, b.Cited})
		}
	}
	return e
}

// ToolCall is one tool call in the trace of a Reflector's prompt.
type ToolCall struct {
	Tool, Output string
	Failed       bool
}

// failures are the outcomes of failed tool calls.
var failures = []string{"failure", "timeout", "error"}

var callLine = regexp.MustCompile(`^  call ([^(]+)\(.*?\)(?: \[([a-z]+)\])? -> (.*)$`)

// ReadCalls returns the tool calls of a trace. Output of more than one line is joined.
func ReadCalls(trace string) []ToolCall {
	var out []ToolCall
	isOpen := false
	for line := range strings.Lines(trace) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "step ") {
			isOpen = false
			continue
		}
		if m := callLine.FindStringSubmatch(line); m != nil {
			out = append(out, ToolCall{Tool: m[1], Output: m[3], Failed: slices.Contains(failures, m[2])})
			isOpen = true
			continue
		}
		if isOpen {
			out[len(out)-1].Output += "\n" + line
		}
	}
	return out
}

// Insight is one insight of a Curator's prompt.
type Insight struct {
	Number   int      `json:"number"`
	Outcome  string   `json:"outcome"`
	Insight  string   `json:"insight"`
	Also     []string `json:"also"`
	Section  string   `json:"section"`
	Question string   `json:"question"`
	Withheld []string `json:"withheld"` // ids of bullets that the run was not shown
}

// Texts returns the insight and the further insights, without empty ones.
func (i *Insight) Texts() []string {
	var out []string
	for _, t := range append([]string{i.Insight}, i.Also...) {
		if t = strings.TrimSpace(t); t != "" {
			out = append(out, t)
		}
	}
	return out
}

// Curation is the material of a Curator's or refiner's prompt.
type Curation struct {
	Bullets  []Bullet // in the order of the prompt, undecided bullets included
	Rejected []string
	Insights []Insight
	AsksWhen bool // the prompt asks for the conditions of bullets
}

// ReadCuration reads a Curator's or refiner's prompt.
func ReadCuration(messages []Message) Curation {
	text := UserText(messages)
	c := Curation{Bullets: ReadBullets(text), AsksWhen: asksWhen(messages)}
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r struct {
			Insight
			Text string `json:"rejected_text"`
		}
		switch {
		case json.Unmarshal([]byte(line), &r) != nil: // no insight
		case r.Text != "":
			c.Rejected = append(c.Rejected, r.Text)
		case r.Number > 0:
			c.Insights = append(c.Insights, r.Insight)
		}
	}
	return c
}

// Proposal is one line of a reducer's prompt.
type Proposal struct {
	Proposal int    `json:"proposal"`
	Type     string `json:"type"`
	BulletID string `json:"bullet_id"`
	Content  string `json:"content"`
	Insights []int  `json:"insights"`
}

// ReadProposals reads a reducer's prompt.
func ReadProposals(messages []Message) []Proposal {
	var out []Proposal
	for line := range strings.Lines(UserText(messages)) {
		var p Proposal
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &p) == nil && p.Proposal > 0 {
			out = append(out, p)
		}
	}
	return out
}
