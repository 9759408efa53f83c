package history

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"debrief/playbook"
)

func TestWithdrawn(t *testing.T) {
	t.Parallel()
	added := &playbook.Delta{Version: 1, Author: "debrief learn", Ops: []playbook.Op{
		{Kind: playbook.Add, Bullet: "a", Content: "one"}, {Kind: playbook.Add, Bullet: "b", Content: "two"},
	}}
	for _, test := range []struct {
		name  string
		delta playbook.Delta
		want  []string
	}{
		{"removed by a person", playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}}, []string{"one"}},
		{"replaced by a person", playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "a", Content: "three"}}}, []string{"one"}},
		{"merged by a person", playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Merge, Bullet: "a", Sources: []playbook.BulletID{"b"}, Content: "one and two"}}}, []string{"one", "two"}},
		{"the same text", playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Update, Bullet: "a", Content: "one"}}}, nil},
		{"removed and added again", playbook.Delta{Author: "ann", Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}, {Kind: playbook.Add, Bullet: "c", Content: "one"}}}, nil},
		{"removed by the curator", playbook.Delta{Author: Curator, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}}, nil},
		{"forgotten", playbook.Delta{Author: "ann", Forget: &playbook.Selector{User: "u"}, Ops: []playbook.Op{{Kind: playbook.Remove, Bullet: "a"}}}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.delta.Version = 2
			got, err := Withdrawn(func(fn func(*playbook.Delta) error) error {
				for _, d := range []*playbook.Delta{added, &test.delta} {
					if err := fn(d); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, slices.Sorted(maps.Keys(got))); diff != "" {
				t.Errorf("withdrawn texts (-want +got):\n%s", diff)
			}
		})
	}
}
