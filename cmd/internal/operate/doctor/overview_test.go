package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/events/streams"
	"debrief/playbook"
)

func summary(level liveness.Level, workers int, backlog bus.Backlog) liveness.RoleSummary {
	return liveness.RoleSummary{Backlog: backlog, Verdict: liveness.Verdict{Level: level}, Workers: workers}
}

func TestOverview(t *testing.T) {
	t.Parallel()
	healthy := func() map[string]liveness.RoleSummary {
		all := map[string]liveness.RoleSummary{}
		for _, role := range streams.Roles {
			all[role] = summary(liveness.Green, 1, bus.Backlog{MaxBytes: 100, Bytes: 80})
		}
		return all
	}
	with := func(role string, s liveness.RoleSummary) map[string]liveness.RoleSummary {
		all := healthy()
		all[role] = s
		return all
	}
	unmodelled := summary(liveness.Yellow, 1, bus.Backlog{})
	unmodelled.States = map[string]int{string(bus.Serving): 1}
	for name, test := range map[string]struct {
		in     Overview
		level  liveness.Level
		red    []string
		advice []string // a word of each line: the command or the role
	}{
		"all work":        {Overview{Roles: healthy()}, liveness.Green, nil, nil},
		"no store":        {Overview{Roles: healthy(), Store: []string{"disk full"}}, liveness.Red, []string{"the store"}, nil},
		"no worker":       {Overview{Roles: with(events.RoleCurator, summary(liveness.Yellow, 0, bus.Backlog{}))}, liveness.Yellow, nil, []string{"start a curator"}},
		"a red role":      {Overview{Roles: with(events.RoleReflector, summary(liveness.Red, 2, bus.Backlog{}))}, liveness.Red, []string{"reflector"}, []string{"check the reflector"}},
		"no model":        {Overview{Roles: with(events.RoleGenerator, unmodelled)}, liveness.Yellow, nil, []string{"--model NAME and without --serve-only"}},
		"a full stream":   {Overview{Roles: with(events.RoleGenerator, summary(liveness.Green, 1, bus.Backlog{MaxBytes: 100, Bytes: 81}))}, liveness.Green, nil, []string{"generator is 81 %"}},
		"a dead letter":   {Overview{Roles: with(events.RoleGenerator, summary(liveness.Green, 1, bus.Backlog{Dead: 1}))}, liveness.Green, nil, []string{"1 dead letter:"}},
		"repaired damage": {Overview{Roles: healthy(), Damage: []Damage{{Stream: "TASKS"}}}, liveness.Yellow, nil, []string{"debrief doctor"}},
		"lost messages": {
			Overview{Roles: healthy(), Damage: []Damage{{Stream: "TASKS", Lost: true}, {Stream: "TASKS", Lost: true}}},
			liveness.Red,
			[]string{"stream TASKS"},
			[]string{"--accept-damage"},
		},
		"a broken log": {
			Overview{Roles: healthy(), Books: []BookState{{Book: "a"}, {Book: "b", Error: "gap"}}},
			liveness.Red,
			[]string{"playbook b"},
			[]string{"verify --book b"},
		},
	} {
		o := test.in
		o.Rate()
		advice := o.Advice()
		if o.Level != test.level || !slices.Equal(o.Red(), test.red) || len(advice) != len(test.advice) {
			t.Errorf("%s: got %s, red %q, advice %q; want %s, red %q, advice with %q", name, o.Level, o.Red(), advice, test.level, test.red, test.advice)
			continue
		}
		for i, word := range test.advice {
			if !strings.Contains(advice[i], word) {
				t.Errorf("%s: got advice %q, want it to name %q", name, advice[i], word)
			}
		}
	}
}

// results returns the names and results of all checks.
func results(x *Report) (all []string) {
	for _, c := range x.Checks {
		all = append(all, c.Name+" "+string(c.Result))
	}
	return all
}

func TestDisk(t *testing.T) {
	t.Parallel()
	const reserve = 100 << 20
	for free, want := range map[uint64]Result{reserve - 1: Fail, reserve: Fail, 2*reserve - 1: Fail, 2 * reserve: Warn, 8*reserve - 1: Warn, 8 * reserve: OK} {
		x := new(Report)
		if x.Disk("d", free, reserve, nil); x.Checks[0].Result != want {
			t.Errorf("%d MiB of %d: got %s, want %s", free>>20, reserve>>20, x.Checks[0].Result, want)
		}
	}
	x := new(Report)
	if x.Disk("d", 0, reserve, errors.New("no such directory")); x.Checks[0].Result != Warn {
		t.Errorf("an unreadable disk: got %s, want a warning", x.Checks[0].Result)
	}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	x := new(Report)
	x.Damage(nil, 1<<30)
	all := []Damage{{Stream: events.StreamTasks, Lost: true}, {Stream: events.StreamDeltas, Repaired: true}, {Stream: events.StreamDeltas}, {Stream: events.StreamDeltas, Lost: true}}
	x.Damage(all, 1<<30)
	if got, want := results(x), []string{"damage ok", "damage FAIL", "damage warn", "damage warn", "damage FAIL"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	var severities []deltalog.Severity
	for _, f := range DamageFindings(all) {
		severities = append(severities, f.Severity)
	}
	if want := []deltalog.Severity{deltalog.Missing, deltalog.Broken}; !slices.Equal(severities, want) {
		t.Errorf("got findings %q, want %q: tasks and repaired damage do not concern a playbook", severities, want)
	}
}

func TestPlaybookFindings(t *testing.T) {
	t.Parallel()
	verification := func(all ...deltalog.Severity) *deltalog.Verification {
		v := &deltalog.Verification{Book: playbook.Book("b")}
		for _, s := range all {
			v.Findings = append(v.Findings, deltalog.Finding{Severity: s})
		}
		return v
	}
	x := new(Report)
	if !x.addFindings(verification(deltalog.Note)) || len(x.Checks) != 0 {
		t.Errorf("a note: got %q, want a sound playbook", results(x))
	}
	if x.addFindings(verification(deltalog.Broken, deltalog.Behind, deltalog.Skipped, deltalog.Missing)) {
		t.Error("a broken playbook is sound")
	}
	if got, want := results(x), []string{"playbook b FAIL", "playbook b warn", "playbook b warn", "playbook b warn"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	x = new(Report)
	x.addFindings(verification(slices.Repeat([]deltalog.Severity{deltalog.Broken}, maxFindings+1)...))
	if len(x.Checks) != maxFindings {
		t.Errorf("got %d checks, want at most %d", len(x.Checks), maxFindings)
	}
}

type embedder struct{ err error }

func (embedder) Model() string { return "e" }
func (e embedder) Embed(context.Context, []string) ([][]float32, error) {
	return [][]float32{{1, 2}}, e.err
}

func TestModels(t *testing.T) {
	t.Parallel()
	down := errors.New("connection refused")
	x := new(Report)
	for _, err := range []error{nil, down} {
		x.Model(t.Context(), "curator", "m", chat.ModelFunc(func(_ context.Context, p chat.Prompt) (chat.Reply, error) {
			if p.MaxTokens != 1 {
				t.Errorf("got a request for %d tokens, want 1", p.MaxTokens)
			}
			return chat.Reply{Text: "ok"}, err
		}))
		x.Embedder(t.Context(), "e", embedder{err}, nil)
	}
	x.Embedder(t.Context(), "e", nil, down)
	if got, want := results(x), []string{"model ok", "embedder ok", "model FAIL", "embedder FAIL", "embedder FAIL"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
