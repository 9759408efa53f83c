package simulated

import (
	"maps"
	"slices"
	"strings"

	prompts "debrief/cmd/internal/worlds/prompt"
)

type summaryReply struct {
	Summary string `json:"summary"`
}

// summarise keeps up to 30 words of the first line of every turn.
func (m *model) summarise(p *prompt) summaryReply {
	quotes := prompts.Quotes(p.textOf(false))
	var said []string
	for _, name := range slices.Sorted(maps.Keys(quotes)) {
		text, _, _ := strings.Cut(strings.TrimSpace(quotes[name]), "\n")
		if words := strings.Fields(text); len(words) > 0 {
			said = append(said, name+": "+strings.Join(words[:min(len(words), 30)], " "))
		}
	}
	return summaryReply{strings.Join(said, "\n")}
}
