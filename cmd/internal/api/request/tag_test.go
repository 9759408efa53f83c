package request

import (
	"context"
	"testing"

	"debrief/cmd/internal/api/explain"
	"debrief/playbook"
)

// oneVersion finds one version, however it is named.
type oneVersion uint64

func (v oneVersion) At(context.Context, playbook.Book, string) (*playbook.Playbook, string, error) {
	return new(playbook.Playbook), "", nil
}

func (v oneVersion) Version(context.Context, playbook.Book, string) (explain.Version, error) {
	return explain.Version{Number: uint64(v)}, nil
}

func TestTag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		version uint64
		ok      bool
	}{
		{"release-3", 17, true}, {"release-3", 0, false}, {"newest", 17, false}, {"3", 17, false}, {"", 17, false},
	} {
		r := &EditRequest{Tag: &NewTag{Name: test.name}}
		plan, err := r.Plan(t.Context(), oneVersion(test.version), "default", new(playbook.Playbook))
		if (err == nil) != test.ok {
			t.Errorf("%q for version %d: got error %v", test.name, test.version, err)
			continue
		}
		if err != nil {
			continue
		}
		if names := plan.Edit.Names; len(names) != 1 || names[0].Name != test.name || names[0].Version != test.version {
			t.Errorf("%q for version %d: got %+v", test.name, test.version, names)
		}
	}
}
