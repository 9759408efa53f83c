package reflector

import (
	"fmt"
	"strings"

	"debrief/events/chat"
)

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
