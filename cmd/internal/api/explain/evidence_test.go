package explain

import (
	"fmt"
	"testing"

	"debrief/events"
	"debrief/playbook"
)

// TestNewestExampleOfTheOwner checks that many newer executions of other owners do not hide the newest one that the caller may read.
func TestNewestExampleOfTheOwner(t *testing.T) {
	t.Parallel()
	stored := NewStored(nil, func(e *events.Execution) bool { return e.Owner == "ann" })
	var evidence []*playbook.Evidence
	add := func(owner string, hasExpired bool) {
		handle := fmt.Sprint("e", len(evidence))
		evidence = append(evidence, &playbook.Evidence{Execution: handle, Owner: owner})
		stored.executions[handle] = nil
		if !hasExpired {
			stored.executions[handle] = &events.Execution{Owner: owner, Question: handle}
		}
	}
	add("ann", false)
	add("ann", false)
	add("ann", true)
	for range 10 {
		add("ben", false)
	}
	isAnn := func(owner string) bool { return owner == "ann" }
	if got, err := stored.NewestExample(t.Context(), evidence, isAnn); err != nil || got == nil || got.Execution != "e1" {
		t.Errorf("got %+v, %v, want e1", got, err)
	}
	stored.executions["e1"].Owner = "ben" // the evidence of an imported log names another execution
	if got, err := stored.NewestExample(t.Context(), evidence, isAnn); err != nil || got == nil || got.Execution != "e0" {
		t.Errorf("got %+v, %v, want e0", got, err)
	}
	if got, err := stored.NewestExample(t.Context(), evidence, func(string) bool { return false }); err != nil || got != nil {
		t.Errorf("got %+v, %v, want none", got, err)
	}
}
