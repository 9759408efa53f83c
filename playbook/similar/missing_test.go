package similar

import "testing"

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		s, in string
		want  Kind
	}{
		{"the material is oak", "the material is pine, steel or oak", Same},
		{"the material is oak or pine", "material: pine, oak", Same},
		{"sand the boards", "Sanding each board first", Same},
		{"the material is oak", "the material is pine", Words},
		{"the job is not paid", "the job is paid", Negations},
		{"an order needs no note", "an order needs a note", Negations},
		{"apply 3 coats of `oil_4`", "apply coats of oil", Numbers},
		{"call `get_user` first", "call `get_users` first", Identifiers},
		{"'sand' before 'stain'", "do sand, then stain, before noon", Same},
		{"", "anything", Same},
	} {
		if got := Missing(test.s, test.in); got.Kind != test.want || (got.Reason == "") != (test.want == Same) {
			t.Errorf("%q in %q: got %+v, want kind %d", test.s, test.in, got, test.want)
		}
	}
}
