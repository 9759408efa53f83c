package request

import "testing"

func TestTag(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		version uint64
		ok      bool
	}{
		{"release-3", 17, true}, {"release-3", 0, false}, {"newest", 17, false}, {"3", 17, false}, {"", 17, false},
	} {
		e, err := Tag(test.name, test.version)
		if (err == nil) != test.ok {
			t.Errorf("%q for version %d: got error %v", test.name, test.version, err)
			continue
		}
		if err == nil && (len(e.Names) != 1 || e.Names[0].Name != test.name || e.Names[0].Version != test.version) {
			t.Errorf("%q for version %d: got %+v", test.name, test.version, e)
		}
	}
}
