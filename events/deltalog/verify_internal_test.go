package deltalog

import "testing"

// TestDamaged checks which severities of findings are damage.
func TestDamaged(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		severities []Severity
		want       bool
	}{{nil, false}, {[]Severity{Behind, Skipped, Missing, Note}, false}, {[]Severity{Note, Broken}, true}} {
		var v Verification
		for _, s := range test.severities {
			v.Findings = append(v.Findings, Finding{Severity: s})
		}
		if got := v.Damaged(); got != test.want {
			t.Errorf("%v: got %t, want %t", test.severities, got, test.want)
		}
	}
}
