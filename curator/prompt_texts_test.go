package curator

import (
	"testing"

	"debrief/events/bus/bustest"
	"debrief/playbook"
)

func TestPromptOfAnotherRoleIsRefused(t *testing.T) {
	t.Parallel()
	c := bustest.Must(New(nil, Config{Instructions: []string{"You check the work of others with a long list of questions and never do it again yourself."}}))
	why := c.rules.Refuse("Check the work of others with a long list of questions.")
	if why == nil || why.Code != playbook.ReasonRestated {
		t.Errorf("got %+v, want %s", why, playbook.ReasonRestated)
	}
}
