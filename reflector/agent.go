package reflector

import (
	"slices"
	"strconv"
	"strings"

	"debrief/events"
	"debrief/events/chat"
	"debrief/playbook/recall"
	"debrief/playbook/text"
)

// An attempt often fails because the agent breaks a rule of its system prompt, or does not use one of its tools. The steps show neither the
// rule nor the tool. So the prompt about an attempt that did not succeed also quotes the system prompt and the tools. They have a separate
// budget.

// Names of the quotations about the agent.
const (
	quoteSystem = "system prompt of the agent"
	quoteTools  = "tools of the agent"
)

// describesAgent reports whether the prompt about an execution quotes the description of its agent.
func describesAgent(e *events.Execution) bool {
	return e.Outcome.Label != events.Success && e.Agent != nil && (e.Agent.SystemPrompt != "" || len(e.Agent.Tools) > 0)
}

// agentQuotes returns the quotations of the agent's description, of at most budget tokens. The tools take up to half of it.
func agentQuotes(e *events.Execution, budget int) (quotes []chat.Quotation) {
	if !describesAgent(e) {
		return nil
	}
	if tools := quotedTools(e, budget/2); tools != "" {
		budget -= chat.Tokens(tools)
		quotes = append(quotes, chat.Quotation{Name: quoteTools, Text: strings.TrimSpace(tools)})
	}
	if system := quotedSystem(e, budget); system != "" {
		quotes = append(quotes, chat.Quotation{Name: quoteSystem, Text: strings.TrimSpace(system)})
	}
	return quotes
}

// quotedTools returns a line for each tool: its name and its description. If the lines exceed the budget, each is cut to an equal share. If
// they still exceed it, some tools are left out: those that the attempt called go in first.
func quotedTools(e *events.Execution, budget int) string {
	tools := e.Agent.Tools
	if len(tools) == 0 {
		return ""
	}
	lines, tokens := make([]string, len(tools)), 0
	for i, t := range tools {
		lines[i] = toolLine(t)
		tokens += chat.Tokens(lines[i])
	}
	if tokens > budget {
		share := budget / len(tools)
		for i := range lines {
			if n := chat.PrefixLen(lines[i], share-1); n < len(lines[i]) { // one token for the ellipsis
				n = max(n, len(tools[i].Name)) // a line has at least the whole name
				lines[i] = strings.TrimSpace(lines[i][:n]) + text.Ellipsis + "\n"
			}
		}
	}
	c := newChoice(lines, budget)
	for i, t := range tools {
		if isCalled(e, t.Name) {
			c.take(i)
		}
	}
	for i := range lines {
		c.take(i)
	}
	return c.join("tools")
}

func toolLine(t events.Tool) string {
	return strings.TrimSuffix(t.Name+": "+strings.Join(strings.Fields(t.Description), " "), ": ") + "\n"
}

func isCalled(e *events.Execution, tool string) bool {
	return slices.ContainsFunc(e.Steps, func(s events.Step) bool {
		return slices.ContainsFunc(s.Calls, func(c events.ToolCall) bool { return c.Tool == tool })
	})
}

// quotedSystem returns the system prompt. If it exceeds the budget, quotedSystem returns a part: the passages that have most in common with
// the attempt, each with the heading above it, and the first other passages that still fit.
func quotedSystem(e *events.Execution, budget int) string {
	prompt := strings.TrimSpace(e.Agent.SystemPrompt)
	if chat.Tokens(prompt) <= budget {
		return prompt
	}
	passages := passagesOf(prompt)
	var index recall.WordIndex
	for i, passage := range passages {
		index.Put(strconv.Itoa(i), passage)
	}
	c := newChoice(passages, budget)
	c.gapMark = chat.Tokens("[100 passages left out]\n")
	for _, m := range index.Top(subjectOf(e), len(passages)) {
		at, _ := strconv.Atoi(m.Key) // set above
		for h := at - 1; h >= 0; h-- {
			if isHeading(passages[h]) {
				c.take(h)
				break
			}
		}
		c.take(at)
	}
	for i := range passages {
		c.take(i)
	}
	return c.join("passages")
}

// maxPassage is the maximum length of a passage, in bytes.
const maxPassage = 800

// passagesOf splits a system prompt at blank lines and headings. A long passage is split between its lines, and a long line between its
// sentences.
func passagesOf(prompt string) (passages []string) {
	var passage strings.Builder
	flush := func() {
		if strings.TrimSpace(passage.String()) != "" {
			passages = append(passages, strings.TrimRight(passage.String(), "\n")+"\n")
		}
		passage.Reset()
	}
	for line := range strings.Lines(prompt) {
		line = strings.TrimRight(line, " \t\r\n") + "\n"
		if line == "\n" || isHeading(line) || passage.Len()+len(line) > maxPassage {
			flush()
		}
		for len(line) > maxPassage {
			end := strings.LastIndex(line[:maxPassage], ". ") + len(". ")
			if end < maxPassage/2 { // no sentence ends there
				end = len(text.Prefix(line, maxPassage))
			}
			passages = append(passages, strings.TrimSpace(line[:end])+"\n")
			line = line[end:]
		}
		passage.WriteString(line)
		if isHeading(line) {
			flush()
		}
	}
	flush()
	return passages
}

// isHeading reports whether a passage is a heading in Markdown.
func isHeading(passage string) bool {
	return strings.HasPrefix(passage, "#") && strings.Count(passage, "\n") <= 1
}

// lastSteps is the number of steps at the end that show the subject of an attempt.
const lastSteps = 4

// subjectOf returns the words of an attempt that a rule for it may contain: the question, the expected answer, the feedback, the calls,
// and the texts and errors of the failed steps and the last ones.
func subjectOf(e *events.Execution) string {
	var out strings.Builder
	add := func(texts ...string) {
		for _, s := range texts {
			out.WriteString(strings.ReplaceAll(excerpt(s, shortText), "_", " "))
			out.WriteString("\n")
		}
	}
	add(e.Question, e.Target, e.Outcome.Feedback, e.Answer)
	for i := range e.Steps {
		s := &e.Steps[i]
		isLast := i >= len(e.Steps)-lastSteps
		failed := slices.ContainsFunc(s.Calls, func(c events.ToolCall) bool { return c.Outcome.Failed() })
		if isLast || failed {
			add(s.Text)
		}
		for j := range s.Calls {
			add(s.Calls[j].Tool)
			if s.Calls[j].Outcome.Failed() {
				add(s.Calls[j].Output)
			}
		}
	}
	return out.String()
}

// evidenceTokens returns the tokens of the quotations that Config.EvidenceBudget limits: the description of the agent and the calls of
// another run.
func evidenceTokens(parts []chat.Quotation) (n int) {
	for _, q := range parts {
		switch q.Name {
		case quoteSystem, quoteTools, quoteOther:
			n += chat.Tokens(q.Text)
		}
	}
	return n
}
