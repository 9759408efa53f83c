package simulated

import (
	"maps"
	"slices"
	"strings"
)

type summarised struct {
	Summary string `json:"summary"`
}

// summarise keeps the first words of every turn, which is what a stand-in can do.
func (m *model) summarise(p *prompt) summarised {
	quotes := readQuotes(p.saidBy(false))
	var said []string
	for _, name := range slices.Sorted(maps.Keys(quotes)) {
		text, _, _ := strings.Cut(strings.TrimSpace(quotes[name]), "\n")
		if words := strings.Fields(text); len(words) > 0 {
			said = append(said, name+": "+strings.Join(words[:min(len(words), 30)], " "))
		}
	}
	return summarised{strings.Join(said, "\n")}
}
