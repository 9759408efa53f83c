package curator

import (
	"strings"
	"testing"

	"debrief/curator/draft"
)

func TestParseTrust(t *testing.T) {
	t.Parallel()
	known, err := parseTrust([]string{"a=untrusted", "b=c=limited:30%", "d=trusted", "e=limited"})
	if err != nil || len(known) != 4 || known["b=c"] != (draft.Source{Level: draft.Limited, Share: 30}) || known["e"].Share != defaultShare || known["a"].Level != draft.Untrusted {
		t.Errorf("got %v, %v", known, err)
	}
	for text, want := range map[string]string{
		"a": "want SOURCE=LEVEL", "=limited": "want SOURCE=LEVEL", "a=some": "level", "a=limited:0": "share", "a=limited:100": "share",
		"a=limited:x": "share", "a=trusted:5": "level limited only",
	} {
		if err := (Config{Trust: []string{text}}).Validate(); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "Trust: ") {
			t.Errorf("%q: got %v, want an error with %q", text, err, want)
		}
	}
	if err := (Config{Trust: []string{"a=trusted", "a=limited"}}).Validate(); err == nil {
		t.Error("duplicate source: got no error")
	}
	if err := (Config{GateMode: "maybe", MaxBurst: -2}).Validate(); err == nil || !strings.Contains(err.Error(), "GateMode: ") || !strings.Contains(err.Error(), "MaxBurst: ") {
		t.Errorf("got %v, want an error that names --gate and --burst", err)
	}
}
