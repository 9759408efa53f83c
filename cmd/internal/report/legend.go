package report

import (
	"maps"
	"slices"

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

// operations explains the operations of the Curator.
var operations = map[playbook.OpKind]string{
	playbook.Add:          "Adds a bullet.",
	playbook.Update:       "Replaces the text of a bullet.",
	playbook.Tag:          "Adds votes to a bullet: a reflection found it helpful, harmful or neutral for its sample.",
	playbook.Remove:       "Deletes a bullet.",
	playbook.SetStatus:    "Changes the status of a bullet, for example to retired.",
	playbook.Pin:          "Pins a bullet, which is then shown before all others, or unpins it.",
	playbook.Merge:        "Replaces several bullets by one, with all their votes.",
	playbook.Put:          "Stores a complete bullet of a file, another playbook or an earlier version.",
	playbook.Retag:        "Moves votes after a corrected outcome.",
	playbook.AddExposures: "Adds outcomes of samples to the record of a bullet, which decides whether it stays.",
	playbook.Confirm:      "Records that another sample gave the same lesson as a bullet.",
}

// operationTerms returns the explanations of the operations that a run has applied.
func operationTerms(applied map[string]int) (out []term) {
	for _, kind := range slices.Sorted(maps.Keys(applied)) {
		if meaning := operations[playbook.OpKind(kind)]; meaning != "" {
			out = append(out, term{kind, meaning})
		}
	}
	return out
}
