package notes

import (
	"fmt"

	"debrief/cmd/internal/worlds/prompt"
	"debrief/cmd/internal/worlds/world"
)

// answer finds the account of a note. It follows the most specific bullet that applies, else the first. Without one it uses
// an account that the note states, else it guesses.
func (m *model) answer(question string, bullets []prompt.Bullet) prompt.Answer {
	note := language().readNote(question)
	if note.stated != "" {
		return prompt.Answer{Reasoning: "The note states its account.", BulletIDs: []string{}, FinalAnswer: note.stated}
	}
	all := make([]statement, len(bullets))
	for i, b := range bullets {
		all[i] = m.read(b.ID, b.Text)
	}
	if i := best(all, &note); i >= 0 {
		return prompt.Answer{
			Reasoning: fmt.Sprintf("I read %v and follow [%s].", note.concepts, all[i].id),
			BulletIDs: []string{all[i].id}, FinalAnswer: all[i].rule.account,
		}
	}
	guess := fmt.Sprint(4001 + world.Draw(m.seed, "guess", question)%2999)
	return prompt.Answer{Reasoning: fmt.Sprintf("I read %v. The playbook has no rule for it, so I guess.", note.concepts), BulletIDs: []string{}, FinalAnswer: guess}
}
