package curator

import (
	"slices"
	"testing"

	"debrief/curator/draft"
	"debrief/events"
	"debrief/events/config/configtest"
)

func TestParseTrust(t *testing.T) {
	t.Parallel()
	known, err := parseTrust([]string{"a=untrusted", "b=c=limited:30%", "d=trusted", "e=limited"})
	if err != nil || len(known) != 5 || known[events.Inferred] != (draft.Source{Level: draft.Limited, Share: inferredShare}) || known["b=c"] != (draft.Source{Level: draft.Limited, Share: 30}) || known["e"].Share != defaultShare || known["a"].Level != draft.Untrusted {
		t.Errorf("got %v, %v", known, err)
	}
	if known, err := parseTrust([]string{"inferred=untrusted"}); err != nil || known[events.Inferred].Level != draft.Untrusted {
		t.Errorf("got %v, %v", known, err)
	}
	for _, trust := range [][]string{{"a"}, {"=limited"}, {"a=some"}, {"a=limited:0"}, {"a=limited:100"}, {"a=limited:x"}, {"a=trusted:5"}, {"a=trusted", "a=limited"}} {
		if got := configtest.Fields(Config{Trust: trust}.Validate()); !slices.Equal(got, []string{"Trust"}) {
			t.Errorf("%q: got errors of %q, want one of Trust", trust, got)
		}
	}
	if got := configtest.Fields(Config{GateMode: "maybe", MaxBurst: -2}.Validate()); !slices.Equal(got, []string{"MaxBurst", "GateMode"}) {
		t.Errorf("got errors of %q, want one of GateMode and one of MaxBurst", got)
	}
}
