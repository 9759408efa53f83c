package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	prompts "debrief/cmd/internal/worlds/prompt"
)

// prompt is the whole input of the model.
type prompt struct {
	schema   string // name of the requested JSON schema
	messages []message
	salt     uint64
}

type message struct {
	Speaker string          `json:"role"`
	Text    text            `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

// text is a message's content. On the wire it is a string or a list of parts; parts without text are ignored.
type text string

func (t *text) UnmarshalJSON(raw []byte) error {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		*t = text(s)
		return nil
	}
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return err
	}
	for _, p := range parts {
		*t += text(p.Text)
	}
	return nil
}

// textOf joins the system messages, or all messages that are neither from the system nor from the assistant.
func (p *prompt) textOf(system bool) string {
	var all strings.Builder
	for _, m := range p.messages {
		if m.Speaker != "assistant" && (m.Speaker == "system" || m.Speaker == "developer") == system {
			all.WriteString(string(m.Text))
			all.WriteString("\n")
		}
	}
	return all.String()
}

// task returns the task of a generator's prompt: the last user message that contains a task, from its context on. The
// prompt also contains earlier turns.
func (p *prompt) task() string {
	for _, m := range slices.Backward(p.messages) {
		if m.Speaker != "user" {
			continue
		}
		text := string(m.Text)
		at := strings.Index(text, "# Task\n")
		if at < 0 {
			continue
		}
		if context := strings.LastIndex(text[:at], "# Context\n"); context >= 0 {
			at = context
		}
		return text[at:]
	}
	return p.textOf(false)
}

// bytes returns the length of all messages.
func (p *prompt) bytes() int {
	n := 0
	for _, m := range p.messages {
		n += len(m.Text) + len(m.Calls)
	}
	return n
}

// draw returns a pseudo-random number: a hash of the prompt, the purpose and the seed. It does not depend on earlier or
// concurrent calls.
func (p *prompt) draw(purpose string) uint64 {
	h := sha256.New()
	var n [8]byte
	field := func(s string) {
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	binary.BigEndian.PutUint64(n[:], p.salt)
	h.Write(n[:])
	field(purpose)
	field(p.schema)
	for _, m := range p.messages {
		field(m.Speaker)
		field(string(m.Text))
		if len(m.Calls) > 0 {
			field(string(m.Calls))
		}
	}
	return binary.BigEndian.Uint64(h.Sum(nil))
}

// chance returns true for a share of the prompts, 0 to 1.
func (p *prompt) chance(purpose string, rate float64) bool {
	return rate > 0 && float64(p.draw(purpose)>>11)/(1<<53) < rate
}

// role returns the role that sent the prompt. It reads the name of the schema, or else the fields that the instructions
// mention.
func (p *prompt) role() string {
	switch p.schema {
	case "generator", "reflector", "curator", "reducer", "refiner", "summary":
		return p.schema
	}
	instructions := p.textOf(true)
	switch {
	case strings.Contains(instructions, `"bullet_tags"`):
		return "reflector"
	case strings.Contains(instructions, `"decisions"`):
		return "reducer"
	case strings.Contains(instructions, `"operations"`) && strings.Contains(instructions, "tidy"):
		return "refiner"
	case strings.Contains(instructions, `"operations"`):
		return "curator"
	case strings.Contains(instructions, `"summary"`):
		return "summary"
	case strings.Contains(instructions, `"final_answer"`):
		return "generator"
	}
	return ""
}

// parsedText is a bullet or an insight, with the rule that it states.
type parsedText struct {
	id, text string
	rule     rule
	hasRule  bool // text states rule
}

func parseText(id, text string) parsedText {
	a := parsedText{id: id, text: text}
	a.rule, a.hasRule = readRule(text)
	return a
}

// readBullets returns the bullets in a text, each with the rule that it states.
func readBullets(text string) (out []parsedText) {
	for _, b := range prompts.Bullets(text) {
		out = append(out, parseText(b.ID, b.Text))
	}
	return out
}

// readRounds finds the rules in the insights of earlier rounds, newest first.
func readRounds(text string) []parsedText {
	var out []parsedText
	for line := range strings.Lines(text) {
		if said, ok := strings.CutPrefix(line, "  insight: "); ok {
			if a := parseText("", strings.TrimSpace(said)); a.hasRule {
				out = append(out, a)
			}
		}
	}
	slices.Reverse(out)
	return out
}

// readShown reads the bullets of a reflector's prompt: one JSON object per line.
func readShown(text string) (shown []parsedText, cited map[string]bool) {
	cited = make(map[string]bool)
	for line := range strings.Lines(text) {
		var b struct {
			ID      string `json:"id"`
			Content string `json:"content"`
			Cited   bool   `json:"cited"`
		}
		if json.Unmarshal([]byte(line), &b) == nil && b.ID != "" {
			shown = append(shown, parseText(b.ID, b.Content))
			cited[b.ID] = b.Cited
		}
	}
	return shown, cited
}

// insight is one line of a curator's prompt.
type insight struct {
	Number  int      `json:"number"`
	Insight string   `json:"insight"`
	Also    []string `json:"also"`
	Section string   `json:"section"`
}

func readInsights(text string) []insight {
	var out []insight
	for line := range strings.Lines(text) {
		var in insight
		if strings.HasPrefix(line, "{") && json.Unmarshal([]byte(line), &in) == nil && in.Number > 0 {
			out = append(out, in)
		}
	}
	return out
}

// Instructions injected into tasks and traces that a gullible model obeys.
var (
	bulletOrder = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?(?:add (?:a |the |this )?(?:new )?bullet|remember)\W+([^\n]+)`)
	answerOrder = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?answer (?:with )?\W?(-?[\w.]*\w)`)
)

// readAmount finds a step's amount in the lines "name: amount" of a reasoning.
func readAmount(reasoning, name string) (found cents, ok bool) {
	for line := range strings.Lines(reasoning) {
		if label, amount, cut := strings.Cut(line, ":"); cut && strings.EqualFold(strings.TrimSpace(label), name) {
			if c, valid := parseCents(amount); valid {
				found, ok = c, true
			}
		}
	}
	return found, ok
}
