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

// advice returns the advice as one user message, or no message without bullets and reflections. A bullet cannot contain the
// lines around the advice: its text would pose as the user's.
func (r *renderer) advice() []chat.Message {
	quoted := r.quotations()
	if r.system == nil || len(r.bullets) == 0 && quoted == "" {
		return nil
	}
	body := playbook.AppendPrompt(*r.system+"\n\n", r.bullets, r.manifest.Votes) + "\n" + quoted
	body = strings.TrimSpace(text.Clean(escapeTags(body)))
	return []chat.Message{{Speaker: chat.User, Text: AdviceBegin + "\n" + body + "\n" + AdviceEnd}}
}

// escapeTags changes the angle brackets of tags named playbook.
func escapeTags(s string) string { return tags.ReplaceAllString(s, "‹$1") }

var tags = regexp.MustCompile(`(?i)<([\s/]*playbook)`)
