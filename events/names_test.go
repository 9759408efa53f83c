package events

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestNames: a name has one rule in every event and request, and each refusal names its field.
func TestNames(t *testing.T) {
	t.Parallel()
	task, execution := samples()[KindTask].(*Task), samples()[KindExecution].(*Execution)
	request := &ContextRequest{Book: "b", Query: "why?"}
	for _, field := range []struct {
		name, field string
		set         func(string)
		validate    func() error
	}{
		{"the session of a task", "session: ", func(s string) { task.Session = s }, task.Validate},
		{"the user of a task", "user: ", func(s string) { task.User = s }, task.Validate},
		{"the label of a task", "task: ", func(s string) { task.Origin.Task = s }, task.Validate},
		{"the run of a task", "run_id: ", func(s string) { task.ID = s }, task.Validate},
		{"the session of an execution", "session: ", func(s string) { execution.Session = s }, execution.Validate},
		{"the user of an execution", "user: ", func(s string) { execution.User = s }, execution.Validate},
		{"the label of an execution", "task: ", func(s string) { execution.Origin.Task = s }, execution.Validate},
		{"the run of an execution", "run_id: ", func(s string) { execution.RunID = s }, execution.Validate},
		{"the session of a context", "session: ", func(s string) { request.Session = s }, request.Validate},
		{"the user of a context", "user: ", func(s string) { request.User = s }, request.Validate},
		{"the run of a context", "run_id: ", func(s string) { request.RunID = s }, request.Validate},
	} {
		t.Run(field.name, func(t *testing.T) {
			for _, name := range []string{strings.Repeat("x", MaxName+1), "a\nb", "a\x00b", "a\u2028b", "a\u0085b", "bad \xff"} {
				field.set(name)
				if err := field.validate(); err == nil || !strings.Contains(err.Error(), field.field) {
					t.Errorf("%.20q: got %v, want an error of %s", name, err, field.field)
				}
			}
			for _, name := range []string{"a", "日本語 ~ a/b.*>", strings.Repeat("x", maxRunID)} {
				field.set(name)
				if err := field.validate(); err != nil {
					t.Errorf("%.20q: got %v", name, err)
				}
			}
		})
	}
}

// FuzzFitName: every text becomes a valid name, a valid one stays, and two different names stay different.
func FuzzFitName(f *testing.F) {
	for _, name := range []string{"", "s-1", "a\x00b", "bad \xff", strings.Repeat("日", 400), strings.Repeat("x", MaxName+1), "AKIAIOSFODNN7EXAMPLE" + strings.Repeat("x", 2000)} {
		f.Add(name, name+"\n")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, name := range []string{a, b} {
			fit := FitName(name)
			if err := (names{session: fit}).validate(); err != nil || FitName(fit) != fit {
				t.Errorf("%q: got %q, %v", name, fit, err)
			}
			if (names{session: name}).validate() == nil && fit != name {
				t.Errorf("the valid %q became %q", name, fit)
			}
			if run := FitRunID(name); len(run) > maxRunID || !utf8.ValidString(run) {
				t.Errorf("%q: got the run id %q", name, run)
			}
		}
		if a != b && FitName(a) == FitName(b) {
			t.Errorf("%q and %q both became %q", a, b, FitName(a))
		}
	})
}

// TestFitNameKeepsNoSecret: the cut of a long name must not hide a secret from the redaction.
func TestFitNameKeepsNoSecret(t *testing.T) {
	t.Parallel()
	const secret = "AKIAIOSFODNN7EXAMPLE"
	for n := MaxName - 60; n < MaxName; n++ {
		if fit := FitName(strings.Repeat(" ", n) + secret + strings.Repeat(" ", 100)); strings.Contains(fit, secret[:8]) {
			t.Fatalf("a secret at %d: got %q", n, fit)
		}
	}
}
