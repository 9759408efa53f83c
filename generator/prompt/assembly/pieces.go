package assembly

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/text"
)

// piece is a unit of a conversation that is included or omitted as a whole: a user message, an answer, or a step with
// its tool calls and their results.
type piece struct {
	kind     events.PartKind
	ref      string // handle of its interaction, # and its position; the handle is "" for the work since the query
	at       time.Time
	text     string       // of the user or the model
	gistText string       // cached result of gist
	step     *events.Step // of tool calls; else nil
	final    bool         // the last text of a turn
	running  bool         // of the work since the query, of which the model sees all texts
}

// pieces returns the pieces of an interaction in order.
func pieces(i *events.Interaction) []piece {
	question := strings.TrimSpace(i.Question)
	if about := strings.TrimSpace(i.Context); about != "" {
		question = about + "\n\n" + question
	}
	all := append([]piece{{kind: events.PartUser, at: i.At, text: question}}, stepPieces(i.Steps, i.At)...)
	answer, last := strings.TrimSpace(i.Answer), &all[len(all)-1]
	isLastStep := last.kind == events.PartAnswer && strings.TrimSpace(last.text) == answer
	if answer != "" && !isLastStep {
		all = append(all, piece{kind: events.PartAnswer, at: i.At, text: answer})
	}
	return assignRefs(string(i.Execution), all)
}

// runningPieces returns the query, without its text, and the pieces since the query.
func runningPieces(steps []events.Step, now time.Time) []piece {
	all := assignRefs("", append([]piece{{kind: events.PartUser, at: now}}, stepPieces(steps, now)...))
	for i := range all {
		all[i].running = true
	}
	return all
}

// stepPieces returns the pieces of steps. at is the time of steps without a time.
func stepPieces(steps []events.Step, at time.Time) []piece {
	var all []piece
	for i := range steps {
		s := &steps[i]
		if !s.At.IsZero() {
			at = s.At
		}
		switch {
		case s.Speaker == chat.User:
			all = append(all, piece{kind: events.PartUser, at: at, text: s.Text})
		case len(s.Calls) > 0:
			all = append(all, piece{kind: events.PartTools, at: at, text: s.Text, step: s})
		case strings.TrimSpace(s.Text) != "":
			all = append(all, piece{kind: events.PartAnswer, at: at, text: s.Text})
		}
		if s.Feedback != "" {
			all = append(all, piece{kind: events.PartUser, at: at, text: s.Feedback})
		}
	}
	return all
}

// assignRefs sets ref and final of the pieces of an interaction.
func assignRefs(handle string, all []piece) []piece {
	for i := range all {
		p := &all[i]
		p.ref = handle + "#" + strconv.Itoa(i)
		p.final = p.kind == events.PartAnswer && (i == len(all)-1 || all[i+1].kind == events.PartUser)
	}
	return all
}

// Texts selects which of the agent's texts later turns see.
type Texts string

// The values of Texts.
const (
	FinalText Texts = "final" // the last text of a turn; the default
	NoText    Texts = "none"  // tool calls only
	AllText   Texts = "all"   // all texts
)

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Texts) UnmarshalText(text []byte) error {
	switch v := Texts(text); v {
	case FinalText, NoText, AllText:
		*t = v
		return nil
	}
	return fmt.Errorf("want final, none or all, got %q", text)
}

// keeps reports whether a context includes this piece.
func (t Texts) keeps(p *piece) bool {
	switch {
	case p.running || t == AllText || p.kind != events.PartAnswer:
		return true
	case t == NoText:
		return false
	}
	return p.final
}

// messages converts a piece to chat messages. Texts are shortened to keep bytes; 0 keeps all. calls is the number of calls in the messages before.
// Each call gets an id with the next number, because the ids of agents may repeat.
func (p *piece) messages(texts Texts, keep int, calls *int) []chat.Message {
	switch p.kind {
	case events.PartUser:
		return []chat.Message{{Speaker: chat.User, Text: shorten(p.text, keep)}}
	case events.PartAnswer:
		return []chat.Message{{Speaker: chat.Assistant, Text: shorten(p.text, keep)}}
	}
	turn := chat.Message{Speaker: chat.Assistant}
	if p.running || texts == AllText {
		turn.Text = shorten(p.text, keep)
	}
	results := make([]chat.Message, 0, len(p.step.Calls))
	for _, c := range p.step.Calls {
		*calls++
		id := fmt.Sprintf("call_%d", *calls)
		turn.Calls = append(turn.Calls, chat.Call{ID: id, Tool: toolName(c.Tool), Arguments: arguments(c.Arguments, keep)})
		output := c.Output
		if strings.TrimSpace(output) == "" {
			output = "(nothing)"
		}
		results = append(results, chat.Message{Speaker: chat.Tool, Text: shorten(output, keep), CallID: id})
	}
	return append([]chat.Message{turn}, results...)
}

// tokens estimates the tokens of a piece with its texts shortened to keep bytes.
func (p *piece) tokens(texts Texts, keep int) int {
	n, calls := 0, 1000 // so that the ids of the calls are long
	for _, m := range p.messages(texts, keep, &calls) {
		n += m.Tokens()
	}
	return n
}

// estimateTokens estimates the tokens of an omitted piece roughly, for the manifest.
func (p *piece) estimateTokens() int {
	n := chat.Tokens(p.text)
	if p.step != nil {
		n = 0
		for _, c := range p.step.Calls {
			n += chat.Tokens(c.Arguments) + chat.Tokens(c.Output)
		}
	}
	return n + messageOverhead
}

// minShownBytes is the minimum length of a shortened text.
const minShownBytes = 64

// fitTokens returns how many bytes of each text to keep so that the piece fits into tokens, 0 for all, and the tokens of the shortened
// piece. If even minShownBytes do not fit, cost exceeds tokens.
func (p *piece) fitTokens(texts Texts, tokens int) (keep, cost int) {
	cost = p.tokens(texts, 0)
	if cost <= tokens {
		return 0, cost
	}
	longest := len(p.text)
	if p.step != nil {
		for _, c := range p.step.Calls {
			longest = max(longest, len(c.Output), len(c.Arguments))
		}
	}
	for keep = longest / 2; ; keep /= 2 {
		keep = max(keep, minShownBytes)
		cost = p.tokens(texts, keep)
		if cost <= tokens || keep == minShownBytes {
			return keep, cost
		}
	}
}

// shorten returns at most keep bytes of s and a mark with the number of omitted bytes. A keep of 0 returns the
// whole text. Invalid characters are replaced.
func shorten(s string, keep int) string {
	s = text.Clean(s)
	if keep <= 0 || len(s) <= keep {
		return s
	}
	return fmt.Sprintf("%s [%d bytes left out]", text.Clip(s, keep), len(s)-keep)
}

// toolName returns a tool name that the wire format allows: 1 to 64 letters, digits, underscores and hyphens.
func toolName(name string) string {
	fit := strings.Map(func(r rune) rune {
		isLetter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		isDigit := r >= '0' && r <= '9'
		if isLetter || isDigit || r == '-' {
			return r
		}
		return '_'
	}, name)
	if fit == "" {
		return "tool"
	}
	return fit[:min(len(fit), 64)]
}

// arguments returns the arguments of a call as a JSON object, as servers require. Other or shortened text is wrapped
// in one.
func arguments(text string, keep int) string {
	short := shorten(text, keep)
	if trimmed := strings.TrimSpace(short); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	if strings.TrimSpace(short) == "" {
		return "{}"
	}
	wrapped, _ := json.Marshal(map[string]string{"arguments": short}) // a map of texts always encodes
	return string(wrapped)
}
