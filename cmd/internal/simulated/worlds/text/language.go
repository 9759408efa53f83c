package text

import (
	"strings"

	"debrief/cmd/internal/simulated/worlds"
)

// Language is the knowledge of a model about tickets. It has no hidden rule.
type Language struct{}

// NewModel returns a model that knows no hidden rule. The seed selects the prompts with errors.
func NewModel(seed uint64, e worlds.Imperfection) *worlds.Model {
	return &worlds.Model{Seed: seed, Errors: e, Language: Language{}}
}

// Read implements worlds.Language.
func (Language) Read(text string) (worlds.Rule, bool) {
	r, ok := readRule(text)
	return rule{r}, ok
}

// answer holds the queue and the priority of an answer, by slot.
type answer map[string]string

func (a answer) String() string { return a[toQueue] + ", priority " + a[toPriority] }

// readAnswer returns the queue and the priority that a text names. What it does not name is empty.
func readAnswer(text string) answer {
	return answer{toQueue: readQueue(text), toPriority: readPriority(text)}
}

// differsIn returns the slots in which two answers differ, the queue first.
func (a answer) differsIn(other answer) (different []string) {
	for _, slot := range []string{toQueue, toPriority} {
		if a[slot] != other[slot] {
			different = append(different, slot)
		}
	}
	return different
}

// Answer implements worlds.Language. The model applies the bullets. If several apply, the one with most features decides, then
// the first.
func (Language) Answer(question, _, system string) worlds.Answer {
	t := readTicket(question)
	advice := worlds.ReadAdvice(worlds.ReadBullets(system), readRule)
	out := worlds.Answer{BulletIDs: []string{}}
	decide := func(slot, usual string) string {
		decided, id := advice.Decide(slot, t)
		if id == "" {
			out.Reasoning += "No bullet decides the " + slot + ", so it is the usual one.\n"
			return usual
		}
		out.BulletIDs = append(out.BulletIDs, id)
		out.Reasoning += "The " + slot + " follows from [" + id + "].\n"
		return decided.Value
	}
	queue, priority := decide(toQueue, defaultQueue), decide(toPriority, defaultPriority)
	out.FinalAnswer = answer{toQueue: queue, toPriority: priority}.String()
	return out
}

// Platitudes implements worlds.Language.
func (Language) Platitudes() []string {
	return worlds.Platitudes(7,
		[]string{"Read the whole message", "Stay polite", "Take your time", "Check the details again", "Keep the customer in mind", "Avoid hasty conclusions", "Work with care", "Note the essential facts", "Consider the wider picture"},
		[]string{"before you decide.", "in every situation.", "because quality counts.", "and confirm the result.", "as a matter of good service.", "so that errors stay rare.", "whenever you are unsure."})
}

// Features implements worlds.World: the subjects of a text, and with less weight its words and noise.
func (Language) Features(text string) map[string]float64 {
	out := make(map[string]float64)
	for _, t := range []ticket{readTicket(text), readCondition(text)} {
		for f, v := range t {
			if v != "" {
				out[featureNames[f]+" "+v] = 1
			}
		}
	}
	if q := readQueue(text); q != "" {
		out["queue "+q] = 0.6
	}
	for _, w := range word.FindAllString(strings.ToLower(text), -1) {
		out["word "+w] += 0.12
	}
	worlds.AddNoise(out, text)
	return out
}
