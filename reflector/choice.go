package reflector

import (
	"fmt"
	"strings"

	"debrief/events/chat"
)

// choice is a part of some texts that fits into a budget of tokens.
type choice struct {
	texts  []string // each ends with a line feed
	kept   []bool
	budget int // tokens that are left
	mark   int // tokens that each kept text reserves for the mark of a gap before it
}

func newChoice(texts []string, budget int) *choice {
	return &choice{texts: texts, kept: make([]bool, len(texts)), budget: budget}
}

// take keeps a text, if there is one and it fits.
func (c *choice) take(i int) {
	isText := i >= 0 && i < len(c.texts)
	if !isText || c.kept[i] || c.budget <= 0 {
		return
	}
	if tokens := chat.Tokens(c.texts[i]) + c.mark; tokens <= c.budget {
		c.kept[i] = true
		c.budget -= tokens
	}
}

// join returns the kept texts in their order. A mark with the number of the texts, which are called things, stands for each gap.
func (c *choice) join(things string) string {
	var out strings.Builder
	cut := 0
	flush := func() {
		if cut > 0 {
			fmt.Fprintf(&out, "[%d %s left out]\n", cut, things)
			cut = 0
		}
	}
	for i, text := range c.texts {
		if !c.kept[i] {
			cut++
			continue
		}
		flush()
		out.WriteString(text)
	}
	flush()
	return out.String()
}
