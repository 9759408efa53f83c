package playbook

import (
	"fmt"
	"slices"
	"testing"
)

func TestForgottenSelectors(t *testing.T) {
	t.Parallel()
	run := Evidence{Execution: "7-00000000", Sample: "s7", Owner: "ann", User: "zoe", Session: "s", Source: "agent/ann"}
	later := run
	later.Execution = "9-00000000"
	compared := func(e Evidence) Evidence {
		e.Sample, e.User, e.Session = "other", "wim", "t"
		e.Compared = &ComparedRun{Execution: e.Execution, User: run.User, Session: run.Session}
		e.Execution = "8-00000000"
		return e
	}
	for _, test := range []struct {
		name       string
		selector   Selector
		run, later bool // of the same description, but published after the forget
	}{
		{"owner", Selector{Owner: "ann"}, true, false},
		{"another owner", Selector{Owner: "bob"}, false, false},
		{"user", Selector{User: "zoe"}, true, false},
		{"another user", Selector{User: "yan"}, false, false},
		{"session of another user", Selector{Session: "s", User: "yan"}, false, false},
		{"source", Selector{Source: "agent"}, true, false},
		{"execution", Selector{Execution: "7-00000000"}, true, false},
		{"rounds of an execution", Selector{Execution: "7-00000000", Sample: "s7"}, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := new(Playbook)
			if _, err := p.Apply(&Delta{Version: 1, Forget: &test.selector, ForgetBefore: 9}); err != nil {
				t.Fatal(err)
			}
			a := p.Admission()
			if got, gotLater := a.Forgets(&run), a.Forgets(&later); got != test.run || gotLater != test.later {
				t.Errorf("got %t, and %t for the later run, want %t and %t", got, gotLater, test.run, test.later)
			}
			if other := compared(run); a.Forgets(&other) != test.run {
				t.Errorf("a run that was compared with it: got %t, want %t", !test.run, test.run)
			}
		})
	}
}

// More selectors than a playbook remembers: nothing that was forgotten returns, and new runs count.
func TestForgottenBeyondTheLimit(t *testing.T) {
	t.Parallel()
	p := new(Playbook)
	const n = maxForgotten + 10
	runs := make([]Evidence, n)
	for i := range runs {
		runs[i] = Evidence{Execution: fmt.Sprintf("%d-00000000", i+1), Session: fmt.Sprint("s", i)}
		d := &Delta{Version: p.Version() + 1, Forget: &Selector{Session: runs[i].Session}, ForgetBefore: uint64(i + 2)}
		if _, err := p.Apply(d); err != nil {
			t.Fatal(err)
		}
	}
	a := p.Admission()
	if len(a.Forgotten) != maxForgotten || a.ForgottenFloor.Version != 10 || a.LastForgotten() != n {
		t.Errorf("got %d selectors, floor %+v, want %d and version 10", len(a.Forgotten), a.ForgottenFloor, maxForgotten)
	}
	for i := range runs {
		if !a.Forgets(&runs[i]) {
			t.Errorf("run %d of %d returns", i, n)
		}
	}
	if a.Forgets(&Evidence{Execution: fmt.Sprintf("%d-00000000", n+5), Session: "s0"}) {
		t.Error("a run that was published later counts as forgotten")
	}
	again := &Delta{Version: n + 1, Forget: &Selector{Session: runs[n-1].Session}, ForgetBefore: n + 9}
	if _, err := p.Apply(again); err != nil {
		t.Fatal(err)
	}
	if a = p.Admission(); a.ForgottenFloor.Version != 10 || len(a.Forgotten) != maxForgotten {
		t.Error("the same selector takes a second place")
	}
}

// More removed bullets than a playbook remembers: no reflection of any returns, and the reflection of a bullet that is there may speak.
func TestDroppedBeyondTheLimit(t *testing.T) {
	t.Parallel()
	a := new(Admission)
	const n = maxDropped + 10
	for seq := range uint64(n) {
		a.drop(&Bullet{LearnedFrom: []uint64{seq + 1}})
	}
	for seq := range uint64(n) {
		if !a.WasDropped(seq+1, false) {
			t.Errorf("reflection %d of %d returns", seq+1, n)
		}
	}
	if a.WasDropped(3, true) || a.WasDropped(n+1, false) {
		t.Error("a reflection with a bullet, or a newer one, is silent")
	}
	full := new(Admission)
	full.drop(&Bullet{LearnedFrom: slices.Repeat([]uint64{4, 90}, maxLearnedFrom/2)})
	if !full.WasDropped(50, false) {
		t.Error("a reflection that a long list has left out returns")
	}
}
