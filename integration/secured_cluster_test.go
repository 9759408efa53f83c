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

// TestClusterConfiguration runs a pipeline on three servers with TLS and the cluster configuration of deploy/nats. The doctor
// must report the location of each replica and a missing server. To users other than the operator it must report the checks
// that they may not do.
func TestClusterConfiguration(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s, servers := startTLSCluster(t, "acme")
	s.debrief("acme", "setup", "--replicas", "3", "--wait-server", "20s")
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
	said(`(?m)^ok +replicas +every stream has a leader`, events.UserOperator)

	servers[1].Shutdown()
	servers[1].WaitForShutdown()
	if out := said(`(?m)^(warn|FAIL) +replicas .*nats-1`, events.UserOperator); !strings.Contains(out, "fix: ") {
		t.Errorf("fix not found in:\n%s", out)
	}
	s.debrief("acme", "submit", "--wait", "--target", "37.5", "--evaluator", "numeric", "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?")

	// Other users get a reason for missing replies, and no claims about failed checks.
	for user, want := range map[string]string{
		events.RoleReflector: `(?m)^warn +rights +these are the credentials of a role`,
		events.UserAgent:     `(?m)^FAIL +rights +permission denied: subscribe to "_INBOX_`,
	} {
		if out := said(want, user); strings.Contains(out, "replicas") ||
			!strings.Contains(out, "fix: connect as the operator") {
			t.Errorf("%s: got\n%s", user, out)
		}
	}
}

// doctor returns the output of 'debrief doctor' for a user, with any exit code.
func (s *tlsServer) doctor(tenant, user string) string {
	out, err := exec.Command(program(s.t, "debrief"), append([]string{"doctor"}, s.flags(tenant, user)...)...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	return string(out)
}
