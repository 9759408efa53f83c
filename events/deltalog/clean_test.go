package deltalog

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"debrief/events"
)

func TestSelectStrays(t *testing.T) {
	t.Parallel()
	all := func(seqs ...uint64) (strays []Stray) {
		for _, seq := range seqs {
			strays = append(strays, Stray{Seq: seq})
		}
		return strays
	}
	broken, newer, outage := fmt.Errorf("read: %w", ErrBrokenLog), fmt.Errorf("read: %w", events.ErrNewerSchema), errors.New("no reply")
	for _, test := range []struct {
		name      string
		undecided []Stray
		err       error
		seqs      []uint64
		want      []uint64
		missing   int
		fails     error
	}{
		{name: "all", want: []uint64{3, 5}},
		{name: "some", seqs: []uint64{5}, want: []uint64{5}},
		{name: "not a stray", seqs: []uint64{3, 4, 6}, missing: 2},
		{name: "broken log", undecided: all(7, 8), err: broken, fails: ErrBrokenLog},
		{name: "newer schema", undecided: all(7, 8), err: newer, fails: events.ErrNewerSchema},
		{name: "undecided of a broken log", undecided: all(7, 8), err: broken, seqs: []uint64{8, 3}, want: []uint64{3, 8}},
		{name: "undecided of a newer schema", undecided: all(7, 8), err: newer, seqs: []uint64{7}, want: []uint64{7}},
		{name: "not in a broken log", undecided: all(7, 8), err: broken, seqs: []uint64{9}, missing: 1},
		{name: "outage", err: outage, seqs: []uint64{3}, fails: outage},
	} {
		strays := all(3, 5)
		got, err := selectStrays("b", strays, test.undecided, test.err, test.seqs)
		var missing *NotStraysError
		if errors.As(err, &missing) != (test.missing > 0) || missing != nil && missing.Number != test.missing {
			t.Errorf("%s: got error %v, want %d messages that are not strays", test.name, err, test.missing)
		}
		if test.fails != nil && !errors.Is(err, test.fails) || err != nil && test.fails == nil && missing == nil {
			t.Errorf("%s: got error %v, want %v", test.name, err, test.fails)
		}
		var seqs []uint64
		for _, s := range got {
			seqs = append(seqs, s.Seq)
		}
		if !slices.Equal(seqs, test.want) || strays[0].Seq != 3 || strays[1].Seq != 5 {
			t.Errorf("%s: got strays %v of %v, want %v", test.name, seqs, strays, test.want)
		}
	}
}

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
