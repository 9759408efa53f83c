package assembly

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// piece is what stays in a conversation or goes as a whole: what a user said, an answer, or a step that called tools
// together with what they returned.
type piece struct {
	kind events.PartKind
	ref  string
	at   time.Time
	turn int          // of its session, 0 where it has none
	text string       // what was said
	told string       // its gist, once it was wanted
	step *events.Step // of tools
	// final answers are the last thing said in a turn. The others are chatter.
	final bool
	// running pieces belong to the turn that the model is in the middle of, which sees its own thoughts.
	running bool
}

// pieces are what an interaction holds, in order. A piece's place in it is part of its name, and the same for all.
func pieces(i *events.Interaction) []piece {
	question := strings.TrimSpace(i.Question)
	if about := strings.TrimSpace(i.Context); about != "" {
		question = about + "\n\n" + question
	}
	all := append([]piece{{kind: events.PartUser, at: i.At, text: question}}, stepPieces(i.Steps, i.At)...)
	if answer := strings.TrimSpace(i.Answer); answer != "" && strings.TrimSpace(all[len(all)-1].text) != answer {
		all = append(all, piece{kind: events.PartAnswer, at: i.At, text: answer})
	}
	for k := range all {
		all[k].turn = i.Turn
	}
	return named(string(i.Execution), all)
}

// runningPieces are what happened since the query, which is their place 0.
func runningPieces(steps []events.Step, now time.Time) []piece {
	all := named("", append([]piece{{kind: events.PartUser, at: now}}, stepPieces(steps, now)...))
	for i := range all {
		all[i].running = true
	}
	return all
}

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

func named(of string, all []piece) []piece {
	for i := range all {
		p := &all[i]
		p.ref = of + "#" + strconv.Itoa(i)
		p.final = p.kind == events.PartAnswer && (i == len(all)-1 || all[i+1].kind == events.PartUser)
	}
	return all
}

// Texts says which of an agent's words later turns see.
type Texts string

// The choices of texts.
const (
	FinalText Texts = "final" // a turn's last words; the default
	NoText    Texts = "none"  // calls of tools alone
	AllText   Texts = "all"   // every word
)

// keeps reports whether earlier turns are shown with this piece.
func (t Texts) keeps(p *piece) bool {
	switch {
	case p.running || t == AllText || p.kind != events.PartAnswer:
		return true
	case t == NoText:
		return false
	}
	return p.final
}

// messages are what a piece is in a chat. Of longer texts keep bytes are shown, of all of them when it is 0. Ids of
// calls are counted on from the number given, as those of real agents repeat.
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

// tokens estimates what a piece costs.
func (p *piece) tokens(texts Texts, keep int) int {
	n, calls := 0, 1000 // ids as long as they get
	for _, m := range p.messages(texts, keep, &calls) {
		n += m.Tokens()
	}
	return n
}

// weight is about what a piece would have cost that is left out: nobody pays for it, so it is not worth more than a look.
func (p *piece) weight() int {
	n := chat.Tokens(p.text)
	if p.step != nil {
		n = 0
		for _, c := range p.step.Calls {
			n += chat.Tokens(c.Arguments) + chat.Tokens(c.Output)
		}
	}
	return n + frame
}

// least is how few bytes of a text are worth showing.
const least = 64

// fit is how many bytes of a piece's texts to keep so that it costs no more than so many tokens: 0 for all of them.
func (p *piece) fit(texts Texts, tokens int) (keep, cost int) {
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
		keep = max(keep, least)
		if cost = p.tokens(texts, keep); cost <= tokens || keep == least {
			return keep, cost
		}
	}
}

// shorten is text of at most keep bytes, cut between characters, with a remark on top that says so; all of it when keep
// is 0. What no chat may hold is replaced.
func shorten(text string, keep int) string {
	text = clean(text)
	if keep <= 0 || len(text) <= keep {
		return text
	}
	return fmt.Sprintf("%s [%d bytes left out]", events.Beginning(text, keep), len(text)-keep)
}

// clean is text as valid UTF-8 without NUL, which some servers refuse.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// toolName is a tool's name as the wire allows it: 1 to 64 letters, digits, underscores and hyphens.
func toolName(name string) string {
	fit := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if fit == "" {
		return "tool"
	}
	return fit[:min(len(fit), 64)]
}

// arguments are those of a call as a JSON object, which servers insist on: what is none, or was cut, is put in one.
func arguments(text string, keep int) string {
	short := shorten(text, keep)
	if trimmed := strings.TrimSpace(short); strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed)) {
		return trimmed
	}
	if strings.TrimSpace(short) == "" {
		return "{}"
	}
	wrapped, err := json.Marshal(map[string]string{"arguments": short})
	if err != nil {
		return "{}" // text always encodes
	}
	return string(wrapped)
}
