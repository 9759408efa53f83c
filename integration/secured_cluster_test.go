package integration

import (
	"errors"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// TestTheClusterOfTheFiles: three servers from the file for them in deploy/nats, over TLS, hold a pipeline. The doctor
// says of every replica where it is, and which server is missing; and what a user may not see, to a user who is not the
// operator.
func TestTheClusterOfTheFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, servers := secureCluster(t, "acme")
	s.debrief("acme", "setup", "--replicas", "3", "--wait", "20s")
	model := startModel(t, 0)
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		startWorker(t, role, role, append(s.flags("acme", role), "--model", "simulated-invoice-desk", "--base-url", model)...)
	}
	s.debrief("acme", "submit", "--wait", "--target", "37.5", "--evaluator", "numeric", "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?")
	said := func(want string, user string) string {
		t.Helper()
		form := regexp.MustCompile(want)
		var out string
		eventually(t, 60*time.Second, want, func() error {
			out = s.doctor("acme", user)
			if !form.MatchString(out) {
				return errors.New(out)
			}
			return nil
		})
		return out
	}
	said(`(?m)^ok +replicas +every stream has its leader`, events.UserOperator)

	servers[1].Shutdown()
	servers[1].WaitForShutdown()
	if out := said(`(?m)^(warn|FAIL) +replicas .*nats-1`, events.UserOperator); !strings.Contains(out, "mend: ") {
		t.Errorf("does not say how to mend it:\n%s", out)
	}
	s.debrief("acme", "submit", "--wait", "--target", "37.5", "--evaluator", "numeric", "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?")

	// Who hears no answer is told why, and nothing is claimed of what could not be looked at.
	for _, user := range []string{events.RoleReflector, events.UserAgent} {
		if out := said(`(?m)^FAIL +rights +the server does not let this user subscribe to "_INBOX_`, user); strings.Contains(out, "replicas") ||
			!strings.Contains(out, "mend: connect as the operator") {
			t.Errorf("%s: got\n%s", user, out)
		}
	}
}

// doctor is what 'debrief doctor' prints to a user, whatever it ends with.
func (s *secured) doctor(tenant, user string) string {
	out, err := exec.Command(program(s.t, "debrief"), append([]string{"doctor"}, s.flags(tenant, user)...)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return string(out)
}
