package admit

import (
	"testing"

	"debrief/playbook"
)

// Every combination of the facts, unknown ones included. A text may enter a prompt only if this list of conditions holds, which is
// written apart from the code.
func TestDecideExhaustsTheFacts(t *testing.T) {
	t.Parallel()
	silent := map[State]bool{Quarantined: true, Rejected: true, Retired: true, Removed: true, Forgotten: true}
	n := 0
	eachText(func(x Text) {
		n++
		known := x.Gate == playbook.GateGuard || x.Gate == playbook.GateOff || x.Gate == playbook.GateStrict
		learned := (x.Source == Model || x.Source == Rule) && x.Trust != "" && x.State != ""
		want := false
		switch x.Use {
		case UseBullet:
			want = known && !x.Reworded && (x.State == Active || x.State == Probation && x.Gate == playbook.GateStrict)
		case UseInsight:
			want = known && learned && (x.State == Undecided || x.Repeated && (x.State == Active || x.State == Probation)) && x.Trust == playbook.Trusted && !x.Inferred && !x.Review &&
				x.Gate != playbook.GateStrict && !x.Suspect
		case UseSession:
			want = known && learned && !silent[x.State] && x.Trust != playbook.Untrusted && !x.Review && !x.Foreign && !x.Suspect
		case UseRound:
			want = !x.Suspect
		}
		want = want && (!x.Control || x.Use == UseRound)
		got := Decide(x)
		if got.Shown() != want || got.Shown() != (got.Code == "") {
			t.Errorf("%+v: got %+v, want shown: %v", x, got, want)
		}
		if x.Use != UseRound && (silent[x.State] || x.State == "") && got.Shown() {
			t.Errorf("%+v is shown", x)
		}
	})
	if n < 10000 {
		t.Errorf("%d combinations", n)
	}
}

// A new text is shown at once only if nobody has to look at it first. Candidates wait for another execution.
func TestFirstStatusExhaustsTheFacts(t *testing.T) {
	t.Parallel()
	eachText(func(x Text) {
		status, code := FirstStatus(x)
		if x.Source == Person {
			if status != playbook.Active {
				t.Errorf("%+v: got %s", x, status)
			}
			return
		}
		shown := status == playbook.Active || status == playbook.Probation
		if shown != (code == "") {
			t.Errorf("%+v: got %s with code %q", x, status, code)
		}
		if shown && (x.Suspect || x.Review || x.Source == "" || x.Gate == "") {
			t.Errorf("%+v: got %s", x, status)
		}
		if shown && x.Source != Import && (x.Inferred || x.Trust == playbook.Untrusted || x.Trust == "") {
			t.Errorf("%+v: got %s", x, status)
		}
		if status == playbook.Candidate && (x.Suspect || x.Review || x.Trust == playbook.Untrusted || !x.Inferred) {
			t.Errorf("%+v: got %s", x, status)
		}
	})
}

// eachText calls fn for each combination of facts.
func eachText(fn func(Text)) {
	flags := []bool{false, true}
	for _, use := range []Use{"", UseBullet, UseInsight, UseSession, UseRound} {
		for _, source := range []Source{"", Model, Rule, Import, Person} {
			for _, trust := range []playbook.Trust{"", playbook.Trusted, playbook.Limited, playbook.Untrusted} {
				for _, state := range []State{"", Undecided, Decided, Active, Probation, Candidate, Quarantined, Rejected, Retired, Removed, Forgotten} {
					for _, gate := range []playbook.Gate{"", playbook.GateGuard, playbook.GateOff, playbook.GateStrict} {
						for bits := range 128 {
							fn(Text{
								Use: use, Source: source, Trust: trust, State: state, Gate: gate, Inferred: flags[bits&1], Review: flags[bits>>1&1],
								Foreign: flags[bits>>2&1], Suspect: flags[bits>>3&1], Repeated: flags[bits>>4&1], Reworded: flags[bits>>5&1],
								Control: flags[bits>>6&1],
							})
						}
					}
				}
			}
		}
	}
}

func TestStateOf(t *testing.T) {
	t.Parallel()
	kept := &playbook.Experiment{Standing: playbook.StandingKept}
	for _, test := range []struct {
		name   string
		bullet *playbook.Bullet
		want   State
	}{
		{"none", nil, Removed},
		{"active", &playbook.Bullet{}, Active},
		{"retired by the gate", &playbook.Bullet{Status: playbook.Retired}, Retired},
		{"retired by a person", &playbook.Bullet{Status: playbook.Retired, Experiment: kept}, Rejected},
		{"quarantine", &playbook.Bullet{Status: playbook.Quarantined}, Quarantined},
		{"a status of a newer version", &playbook.Bullet{Status: "later"}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := StateOf(test.bullet); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
