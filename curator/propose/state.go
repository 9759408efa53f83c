package propose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"debrief/curator/draft"
	"debrief/playbook"
	"debrief/playbook/text"
)

// State describes the playbook and the progress of a run in a prompt. The zero value writes nothing.
type State struct {
	playbook.Stats
	Tokens      int // of the active bullets
	TokenBudget int // maximum of Tokens; below 1 for no limit
	// Step is the number of the newest sample among the insights, in Epoch of a run of Steps samples. Step is 0 outside of training
	// runs, and Steps is 0 if the number of samples is unknown.
	Step, Steps, Epoch int
}

// maxSections is the maximum number of sections in a prompt. The largest ones are named.
const maxSections = 20

// state returns the state of the playbook and the progress of the items. It depends only on the playbook and the items, so
// that a repeated round has the same prompts.
func (round *Round) state(items []*Item) State {
	s := State{TokenBudget: round.TokenBudget}
	s.Stats = playbook.StatsOf(func(yield func(*playbook.Bullet) bool) {
		for b := range round.Playbook.All() {
			if b.Shown() {
				s.Tokens += draft.Tokens(b)
			}
			if !yield(withPresentVotes(b)) {
				return
			}
		}
	})
	for _, item := range items {
		if o := &item.Reflection.Origin; o.Step > s.Step {
			s.Step = o.Step
			s.Steps = o.Steps
			s.Epoch = o.Epoch
		}
	}
	return s
}

// withPresentVotes returns a bullet with the votes on its present wording. The counters have the votes on all wordings, and a vote on a text
// before its correction says nothing about the text in the prompt. The outcomes of the tasks that cited the wording stand for its votes:
// a harmful vote counts there as a failure. In its first experiment, or without a standing (gate off), a bullet keeps its counters.
func withPresentVotes(b *playbook.Bullet) *playbook.Bullet {
	e := b.CurrentExperiment()
	if e.Number < 2 || e.Standing == "" {
		return b
	}
	present := *b
	present.Helpful = 0
	for score, n := range e.Cited {
		if 2*score >= playbook.MaxScore {
			present.Helpful += n
		}
	}
	present.Harmful = e.Cited.Count() - present.Helpful
	return &present
}

// render formats bullets with the votes on their present wordings.
func render(bullets []*playbook.Bullet) string {
	present := make([]*playbook.Bullet, len(bullets))
	for i, b := range bullets {
		present[i] = withPresentVotes(b)
	}
	return playbook.RenderWithVotes(present)
}

// write writes the state as a section of a prompt. The state follows the bullets, because it changes with each commit and
// would end the prefix that a provider can reuse.
func (s *State) write(out *strings.Builder) {
	if s.Total == 0 && s.Step == 0 {
		return
	}
	out.WriteString("# State\n\n")
	if s.Total > 0 {
		fmt.Fprintf(out, "Bullets: %d, of which %d are active: %d high performing, %d problematic, %d unused.\n",
			s.Total, s.ByStatus[playbook.Active], s.HighPerforming, s.Problematic, s.Unused)
		if len(s.Sections) > 0 {
			fmt.Fprintf(out, "Active bullets by section: %s.\n", s.sectionList())
		}
		fmt.Fprintf(out, "Tokens of the active bullets: %d", s.Tokens)
		if s.TokenBudget > 0 {
			fmt.Fprintf(out, " of at most %d", s.TokenBudget)
		}
		out.WriteString(".\n")
	}
	if s.Step > 0 {
		fmt.Fprintf(out, "Progress of the run: it learns from samples up to number %d", s.Step)
		if s.Steps >= s.Step {
			fmt.Fprintf(out, " of %d", s.Steps)
		}
		if s.Epoch > 0 {
			fmt.Fprintf(out, ", epoch %d", s.Epoch)
		}
		out.WriteString(".\n")
	}
	out.WriteString("\n")
}

func (s *State) sectionList() string {
	largest := slices.Clone(s.Sections)
	slices.SortFunc(largest, func(a, b playbook.SectionStats) int {
		return cmp.Or(cmp.Compare(b.Bullets, a.Bullets), cmp.Compare(a.Section, b.Section))
	})
	names := make([]string, 0, maxSections+1)
	for _, section := range largest[:min(len(largest), maxSections)] {
		names = append(names, fmt.Sprintf("%s %d", text.Line(playbook.SectionTitle(section.Section), playbook.MaxSection), section.Bullets))
	}
	if more := len(largest) - maxSections; more > 0 {
		names = append(names, fmt.Sprintf("%d more sections", more))
	}
	return strings.Join(names, ", ")
}
