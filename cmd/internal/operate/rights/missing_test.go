package rights

import "testing"

func TestPermissions(t *testing.T) {
	t.Parallel()
	operator := &Permissions{Allow: []string{"debrief.>", "$JS.API.>"}, Deny: []string{"debrief.delta.>"}}
	for _, test := range []struct {
		name    string
		list    *Permissions
		subject string
		want    bool
	}{
		{"who has no list may do everything", nil, "debrief.delta.x", true},
		{"an empty list allows everything", &Permissions{}, "debrief.delta.x", true},
		{"but what is denied", &Permissions{Deny: []string{"debrief.*.x"}}, "debrief.delta.x", false},
		{"what is allowed", operator, "debrief.task.x", true},
		{"what is allowed and denied", operator, "debrief.delta.x", false},
		{"what is not allowed", operator, "$JS.SNAPSHOT.ACK.DELTAS.x.1.1", false},
		{"a star is one token", &Permissions{Allow: []string{"debrief.*"}}, "debrief.task.x", false},
		{"an end is one token or more", &Permissions{Allow: []string{"debrief.task.>"}}, "debrief.task", false},
		{"a queue group is no part of the subject", &Permissions{Allow: []string{"debrief.* workers"}}, "debrief.health", true},
	} {
		if got := test.list.allows(test.subject); got != test.want {
			t.Errorf("%s: %s: got %v, want %v", test.name, test.subject, got, test.want)
		}
	}
}
