package report

import (
	"maps"
	"slices"

	"debrief/cmd/internal/explain"
	"debrief/playbook"
)

// term is a word of the page with its explanation.
type term struct{ Word, Meaning string }

// roles explains the roles.
var roles = []term{
	{"Generator", "Answers the samples, with the bullets of the playbook in its prompt."},
	{"Reflector", "Analyses each training answer and its outcome: votes on bullets, and lessons."},
	{"Curator", "Turns lessons and votes into operations on bullets. No other role changes the playbook."},
}

// operationTerms returns the explanations of the operations that a run has applied.
func operationTerms(applied map[string]int) (out []term) {
	for _, kind := range slices.Sorted(maps.Keys(applied)) {
		if meaning := explain.OperationMeaning(playbook.OpKind(kind)); meaning != "" {
			out = append(out, term{kind, meaning})
		}
	}
	return out
}
