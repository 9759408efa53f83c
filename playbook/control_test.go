package playbook

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestShare(t *testing.T) {
	t.Parallel()
	for share, want := range map[Share]int{
		"": 0, "off": 0, "5%": 50, "0.1%": 1, "2.5%": 25, "50%": 500, "50.0%": 500, "10%": 100,
		"0%": -1, "0.0%": -1, "50.1%": -1, "100%": -1, "5": -1, "0.05": -1, "5 %": -1, " 5%": -1, "-5%": -1, "+5%": -1, "5.25%": -1, "5.%": -1, ".5%": -1, "%": -1,
		"256%": -1, "1e1%": -1, "0x5%": -1, "٥%": -1, "on": -1, "Off": -1, "5%%": -1, "99999999999999999999%": -1,
	} {
		if got := share.PerMille(); share.Valid() != (want >= 0) || got != max(want, 0) {
			t.Errorf("%q: got %d, valid %t, want %d", share, got, share.Valid(), want)
		}
		err := (&Delta{Version: 1, Control: share}).Validate()
		if (err == nil) != (want >= 0) || err != nil && !strings.HasPrefix(err.Error(), "control: ") {
			t.Errorf("%q: got error %v", share, err)
		}
	}
}

// controlled returns the state of a playbook after deltas.
func controlled(t *testing.T, deltas ...Delta) *Admission {
	t.Helper()
	p := new(Playbook)
	for i := range deltas {
		d := &deltas[i]
		d.Version = uint64(i + 1)
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	a := p.Admission()
	return &a
}

func TestControlShare(t *testing.T) {
	t.Parallel()
	salt := []byte("salt")
	byDefault := &Policy{Control: "5%"}
	for name, test := range map[string]struct {
		deltas []Delta
		want   Share
	}{
		"a new playbook":                         {nil, ShareOff},
		"by a person":                            {[]Delta{{Control: "10%", ControlSalt: salt}}, "10%"},
		"by the Curator":                         {[]Delta{{Policy: byDefault, ControlSalt: salt}}, "5%"},
		"a person before the Curator":            {[]Delta{{Control: "10%", ControlSalt: salt}, {Policy: byDefault}}, "10%"},
		"off by a person, on by the Curator":     {[]Delta{{Policy: byDefault, ControlSalt: salt}, {Control: ShareOff}}, ShareOff},
		"off by the Curator":                     {[]Delta{{Policy: byDefault, ControlSalt: salt}, {Policy: &Policy{Control: ShareOff}}}, ShareOff},
		"other changes keep it":                  {[]Delta{{Control: "10%", ControlSalt: salt}, {Gate: GateOff}, {Policy: &Policy{}}}, "10%"},
		"without a salt, so no group is random":  {[]Delta{{Control: "10%"}}, ShareOff},
		"on again: the salt is that of the past": {[]Delta{{Control: "10%", ControlSalt: salt}, {Control: ShareOff}, {Control: "20%"}}, "20%"},
	} {
		if got := controlled(t, test.deltas...).ControlShare(); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

// TestInControl: of 20,000 sessions the share is in the control group, within 4 standard deviations, for each form of the names. A larger
// share keeps the sessions in it.
func TestInControl(t *testing.T) {
	t.Parallel()
	const n = 20_000
	a := &Admission{ControlSalt: []byte("a salt of 16 byte")}
	for name, session := range map[string]func(i int) (owner, session string){
		"numbers":              func(i int) (string, string) { return "", fmt.Sprint(i) },
		"one session by owner": func(i int) (string, string) { return fmt.Sprint(i), "s" },
		"long common names":    func(i int) (string, string) { return "o", strings.Repeat("s", 4096) + fmt.Sprint(i) },
		"zero bytes":           func(i int) (string, string) { return "", strings.Repeat("\x00", i) },
		"invalid text":         func(i int) (string, string) { return "\xff\n", "\xc0" + fmt.Sprint(i) + "../*.>" },
	} {
		var before []bool
		for _, share := range []Share{"0.1%", "5%", "25%", "50%"} {
			p := float64(share.PerMille()) / 1000
			in := make([]bool, n)
			count := 0
			for i := range n {
				owner, session := session(i)
				in[i] = a.InControl("b", owner, session, share)
				if in[i] {
					count++
				}
				if before != nil && before[i] && !in[i] {
					t.Fatalf("%s: session %d leaves the control group with share %s", name, i, share)
				}
			}
			if bound := 4 * math.Sqrt(n*p*(1-p)); math.Abs(float64(count)-n*p) > bound {
				t.Errorf("%s, share %s: got %d of %d sessions, want %.0f ± %.0f", name, share, count, n, n*p, bound)
			}
			before = in
		}
	}
}

// TestInControlDependsOnEachName: of 1,000 sessions, about half change their group with the playbook, the owner and the salt, and if the
// border between two names moves.
func TestInControlDependsOnEachName(t *testing.T) {
	t.Parallel()
	a, other := &Admission{ControlSalt: []byte("salt")}, &Admission{ControlSalt: []byte("tlas")}
	for name, group := range map[string]func(s string) bool{
		"playbook": func(s string) bool { return a.InControl("c", "o", s, "50%") },
		"owner":    func(s string) bool { return a.InControl("b", "p", s, "50%") },
		"salt":     func(s string) bool { return other.InControl("b", "o", s, "50%") },
		"border":   func(s string) bool { return a.InControl("b", "o"+s[:1], s[1:], "50%") },
	} {
		changed := 0
		for i := range 1000 {
			if s := fmt.Sprint("s", i); group(s) != a.InControl("b", "o", s, "50%") {
				changed++
			}
		}
		if changed < 430 || changed > 570 {
			t.Errorf("%s: %d of 1000 sessions change their group, want about 500", name, changed)
		}
	}
}

// TestControlIsNotTypical: the outcomes of a control group do not change what counts as typical, because no bullet could help there.
func TestControlIsNotTypical(t *testing.T) {
	t.Parallel()
	run := func(control bool) Cover {
		return Cover{ID: fmt.Sprint(control), Evidence: &Evidence{Outcome: "success", Score: 1, Control: control}}
	}
	p := new(Playbook)
	if _, err := p.Apply(&Delta{Version: 1, Covers: []Cover{run(false), run(true)}}); err != nil {
		t.Fatal(err)
	}
	if got := p.Tally().Plain; got.Count != 1 {
		t.Errorf("got %+v, want one task", got)
	}
}
