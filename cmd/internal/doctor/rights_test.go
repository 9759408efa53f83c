package doctor

import "testing"

func TestRights(t *testing.T) {
	t.Parallel()
	operator := &list{Allow: []string{"ace.>", "$JS.API.>"}, Deny: []string{"ace.delta.>"}}
	for _, test := range []struct {
		name    string
		list    *list
		subject string
		want    bool
	}{
		{"who has no list may do everything", nil, "ace.delta.x", true},
		{"an empty list allows everything", &list{}, "ace.delta.x", true},
		{"but what is denied", &list{Deny: []string{"ace.*.x"}}, "ace.delta.x", false},
		{"what is allowed", operator, "ace.task.x", true},
		{"what is allowed and denied", operator, "ace.delta.x", false},
		{"what is not allowed", operator, "$JS.SNAPSHOT.ACK.DELTAS.x.1.1", false},
		{"a star is one token", &list{Allow: []string{"ace.*"}}, "ace.task.x", false},
		{"an end is one token or more", &list{Allow: []string{"ace.task.>"}}, "ace.task", false},
		{"a queue group is no part of the subject", &list{Allow: []string{"ace.* workers"}}, "ace.health", true},
	} {
		if got := test.list.lets(test.subject); got != test.want {
			t.Errorf("%s: %s: got %v, want %v", test.name, test.subject, got, test.want)
		}
	}
}
