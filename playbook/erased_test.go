package playbook_test

import (
	"testing"

	"debrief/playbook"
)

// TestIsErased: a text of a model or a person that only begins like an erased one is kept.
func TestIsErased(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		playbook.ErasedText: true, playbook.ErasedContent(12, 0): true, "[erased] rows stay out of the report": false, "erased": false, "": false,
	} {
		if got := playbook.IsErased(text); got != want {
			t.Errorf("%q: got %t, want %t", text, got, want)
		}
	}
}
