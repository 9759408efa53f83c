package assembly

import (
	"regexp"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook"
	"debrief/playbook/text"
)

// The first and the last line of advice. Readers of conversations recognize advice by them.
const (
	AdviceBegin = "<playbook>"
	AdviceEnd   = "</playbook>"
)

// addAdvice adds the parts of advice: the instructions, bullets and reflections.
func (a *assembler) addAdvice() error {
	a.manifest.Advice = true
	a.system = events.Part{Kind: events.PartSystem, Ref: a.in.SystemRef, Tokens: a.systemTokens(nil) + chat.Tokens(AdviceBegin+AdviceEnd) + messageOverhead}
	if a.in.SystemRef == "" {
		a.system.Text = a.in.System
	}
	a.remaining = a.limits.Total - a.system.Tokens
	if a.remaining < 0 {
		return &LimitError{a.limits.Total, a.system.Tokens}
	}
	a.scaleBudgets()
	a.addBullets()
	a.addReflections()
	return nil
}

// advice returns the advice as one user message, or no message without bullets and reflections. It escapes the tags of the first and the last line
// in learned texts. Otherwise such a text could end the advice, and the rest of it would look like the user's text.
func (r *renderer) advice() []chat.Message {
	quoted := r.quotations()
	isEmpty := len(r.bullets) == 0 && quoted == ""
	if isEmpty || r.system == nil {
		return nil
	}
	body := playbook.AppendPrompt(*r.system+"\n\n", r.bullets, r.manifest.Votes) + "\n" + quoted
	body = strings.TrimSpace(text.Clean(escapeTags(body)))
	return []chat.Message{{Speaker: chat.User, Text: AdviceBegin + "\n" + body + "\n" + AdviceEnd}}
}

// escapeTags changes the angle brackets of tags named playbook.
func escapeTags(s string) string { return tags.ReplaceAllString(s, "‹$1") }

var tags = regexp.MustCompile(`(?i)<([\s/]*playbook)`)

// adviceLines returns the places of the learned texts in the message of advice. It recognizes the first line of a bullet by its id, and the heading
// of a reflection by noteMark. All further lines of both are indented, so a learned text cannot imitate such a line.
func (a *assembler) adviceLines(messages []chat.Message, shown []*playbook.Bullet) []events.AdviceLine {
	if !a.manifest.Advice || len(messages) == 0 {
		return nil
	}
	r := adviceReader{bullets: map[string]*playbook.Bullet{}}
	for _, b := range shown {
		r.bullets[string(b.ID)] = b
	}
	for _, p := range a.manifest.Parts {
		if p.Kind == events.PartReflection {
			r.notes = append(r.notes, a.sources.Notes[p.Ref])
		}
	}
	end := 0
	for line := range strings.Lines(messages[0].Text) {
		start := end
		end += len(line)
		r.read(line, start, end)
	}
	return r.lines
}

// adviceReader finds the learned texts in a message of advice.
type adviceReader struct {
	bullets map[string]*playbook.Bullet // by id
	notes   []*events.Note              // the notes whose headings are not read yet, in the order of the message
	lines   []events.AdviceLine         // the result
	inside  bool                        // whether an indented line belongs to the last of lines
}

// read reads the next line of the message, which is from start to end.
func (r *adviceReader) read(line string, start, end int) {
	afterMark, hasMark := strings.CutPrefix(line, "- [")
	id, _, _ := strings.Cut(afterMark, "] ")
	b := r.bullets[id]
	switch {
	case hasMark && b != nil:
		r.lines = append(r.lines, events.AdviceLine{Start: start, End: end, Bullet: b.ID, Wording: events.WordingOf(b.Content)})
		r.inside = true
	case len(r.notes) > 0 && strings.HasPrefix(line, noteMark):
		r.lines = append(r.lines, events.AdviceLine{Start: start, End: end, Reflection: r.notes[0].Reflection})
		r.notes, r.inside = r.notes[1:], true
	case !r.inside || !strings.HasPrefix(line, "  "):
		r.inside = false
	case r.lines[len(r.lines)-1].Bullet != "": // a further line of a bullet
		r.lines[len(r.lines)-1].End = end
	default: // a field of a reflection
		name, _, _ := strings.Cut(strings.TrimSpace(line), ": ")
		field := r.lines[len(r.lines)-1]
		field.Start = start
		field.End = end
		field.Field = noteFieldNames[name]
		r.lines = append(r.lines, field)
	}
}

// noteFieldNames maps the name of a text in a prompt to the field of the reflection.
var noteFieldNames = map[string]string{events.NoteError: events.FieldError, events.NoteApproach: events.FieldApproach, events.NoteInsight: events.FieldInsight}
