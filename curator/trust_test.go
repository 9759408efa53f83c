package curator

import (
	"slices"
	"strings"
	"testing"

	"debrief/playbook"
)

func TestParseTrust(t *testing.T) {
	t.Parallel()
	known, err := parseTrust([]string{"a=untrusted", "b=c=limited:30%", "d=trusted", "e=limited"})
	want := []playbook.SourceTrust{
		{Source: "a", Level: playbook.Untrusted},
		{Source: "b=c", Level: playbook.Limited, Share: 30},
		{Source: "d", Level: playbook.Trusted},
		{Source: "e", Level: playbook.Limited, Share: defaultShare},
		{Source: playbook.InferredSource, Level: playbook.Limited, Share: inferredShare},
	}
	if err != nil || !slices.Equal(known, want) {
		t.Errorf("got %v, %v, want %v", known, err, want)
	}
	if known, err := parseTrust([]string{"inferred=untrusted"}); err != nil || len(known) != 1 || known[0].Level != playbook.Untrusted {
		t.Errorf("got %v, %v", known, err)
	}
	for _, trust := range [][]string{{"a"}, {"=limited"}, {"a=some"}, {"a=limited:0"}, {"a=limited:100"}, {"a=limited:x"}, {"a=trusted:5"}, {"a=trusted", "a=limited"}} {
		if err := (Config{Trust: trust}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "Trust: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: got %v, want one error, of Trust", trust, err)
		}
	}
	err = Config{GateMode: "maybe", Review: "later", Control: "60%", MaxBurst: -2}.Validate()
	for _, field := range []string{"MaxBurst", "GateMode", "Review", "Control"} {
		if err == nil || !strings.Contains(err.Error(), field+": ") {
			t.Errorf("got %v, want an error of %s", err, field)
		}
	}
}
