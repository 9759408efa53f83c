package simulated

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// prompt is all that the model sees of the world.
type prompt struct {
	schema   string // name of the schema asked for
	messages []message
	salt     uint64
}

type message struct {
	Speaker string          `json:"role"`
	Text    text            `json:"content"`
	Calls   json.RawMessage `json:"tool_calls"`
}

// text is a message's content: a string, or parts of which the texts count.
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

func (p *prompt) saidBy(system bool) string {
	var all strings.Builder
	for _, m := range p.messages {
		if m.Speaker != "assistant" && (m.Speaker == "system" || m.Speaker == "developer") == system {
			all.WriteString(string(m.Text))
			all.WriteString("\n")
		}
	}
	return all.String()
}

// task is what a generator is asked: the last message of a user that holds a task, without the background before it.
// Earlier turns are in the prompt too.
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
	return p.saidBy(false)
}

// bytes is the length of all messages.
func (p *prompt) bytes() int {
	n := 0
	for _, m := range p.messages {
		n += len(m.Text) + len(m.Calls)
	}
	return n
}

// draw is a number made from the prompt and a purpose: the same for the same prompt, whatever was asked before or is
// asked at the same time.
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

// chance reports true for this share of prompts.
func (p *prompt) chance(purpose string, rate float64) bool {
	return rate > 0 && float64(p.draw(purpose)>>11)/(1<<53) < rate
}

// role says who asks, by the name of the schema or else by the fields that the instructions ask for.
func (p *prompt) role() string {
	switch p.schema {
	case "generator", "reflector", "curator", "reducer", "refiner", "summary":
		return p.schema
	}
	instructions := p.saidBy(true)
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

// advice is a bullet as a prompt shows it.
type advice struct {
	id, text string
	rule     rule
	speaks   bool // rule holds what it says
}

func advise(id, text string) advice {
	a := advice{id: id, text: text}
	a.rule, a.speaks = readRule(text)
	return a
}

var votesShown = regexp.MustCompile(` \(helpful=\d+, harmful=\d+\)$`)

// readBullets finds the bullets in a text: "- [id] content (helpful=1, harmful=0)", further lines of the content
// indented by two spaces.
func readBullets(text string) []advice {
	var out []advice
	id, content := "", ""
	flush := func() {
		if id != "" {
			out = append(out, advise(id, votesShown.ReplaceAllString(content, "")))
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

// readTries finds the rules in the advice on earlier attempts, newest first.
func readTries(text string) []advice {
	var out []advice
	for line := range strings.Lines(text) {
		if said, ok := strings.CutPrefix(line, "  insight: "); ok {
			if a := advise("", strings.TrimSpace(said)); a.speaks {
				out = append(out, a)
			}
		}
	}
	slices.Reverse(out)
	return out
}

var quoteBegin = regexp.MustCompile(`(?m)^\[\[begin ([a-z0-9 ]+) ([0-9a-f]{16})\]\]$`)

// readQuotes finds the quoted parts of a reflector's prompt. A quotation ends where its own mark says so.
func readQuotes(text string) map[string]string {
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

// readShown reads the bullets of a reflector's prompt: one JSON object a line.
func readShown(text string) (shown []advice, cited map[string]bool) {
	cited = make(map[string]bool)
	for line := range strings.Lines(text) {
		var b struct {
			ID      string `json:"id"`
			Content string `json:"content"`
			Cited   bool   `json:"cited"`
		}
		if json.Unmarshal([]byte(line), &b) == nil && b.ID != "" {
			shown = append(shown, advise(b.ID, b.Content))
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

// injected is an order hidden in material: what a gullible model does about it.
var (
	injectedBullet = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?(?:add (?:a |the |this )?(?:new )?bullet|remember)\W+([^\n]+)`)
	injectedAnswer = regexp.MustCompile(`(?i)ignore (?:all|any|every|the|your|previous)[^\n]{0,200}?answer (?:with )?\W?(-?[\w.]*\w)`)
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
