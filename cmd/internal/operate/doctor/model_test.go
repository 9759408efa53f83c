package doctor

import (
	"context"
	"errors"
	"slices"
	"testing"

	"debrief/events"
	"debrief/events/chat"
	"debrief/events/streams"
)

func TestModelOfEachRole(t *testing.T) {
	t.Parallel()
	noKey := errors.New("key required")
	for _, test := range []struct {
		name     string
		names    [3]string // of the models of the generator, the reflector and the curator
		err      error
		requests []string // roles in the requests
		results  []Result
	}{
		{name: "no model", results: []Result{OK}},
		{name: "one model", names: [3]string{"m", "m", "m"}, requests: []string{events.RoleGenerator}, results: []Result{OK}},
		{name: "two models", names: [3]string{"m", "n", "m"}, requests: []string{events.RoleGenerator, events.RoleReflector}, results: []Result{OK, OK}},
		{name: "only the curator", names: [3]string{"", "", "m"}, requests: []string{events.RoleCurator}, results: []Result{OK}},
		{name: "no client", names: [3]string{"m", "", "n"}, err: noKey, results: []Result{Fail, Fail}},
	} {
		var requests []string
		model := chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
			requests = append(requests, p.Name)
			return chat.Reply{}, nil
		})
		var all []RoleModel
		for i, role := range streams.Roles {
			m := RoleModel{Role: role, Name: test.names[i]}
			if m.Name != "" {
				m.Model, m.Err = model, test.err
			}
			all = append(all, m)
		}
		x := new(Report)
		x.Models(t.Context(), all)
		var results []Result
		for _, c := range x.Checks {
			results = append(results, c.Result)
		}
		if !slices.Equal(requests, test.requests) || !slices.Equal(results, test.results) {
			t.Errorf("%s: got requests of %v and results %v, want %v and %v", test.name, requests, results, test.requests, test.results)
		}
	}
}
