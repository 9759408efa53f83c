package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"debrief/events"
)

// TestMissingFollowRightIsReported removes a generator's right to read the view, so that its playbook stays at one version.
// Its health endpoint and 'debrief status' must report that and name the right, also for a generator that only serves.
func TestMissingFollowRightIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	const right = "$JS.API.DIRECT.GET.KV_playbook"
	s := startTLSServerWithout(t, `"`+right+`" # the playbook: heads and bullets`, "acme")
	s.debrief("acme", "setup", "--wait-server", "10s")
	flags := append(s.flags("acme", events.RoleGenerator), "--model", "simulated-invoice-desk", "--base-url", startModel(t, 0))
	says := func(health string) error {
		status, body, err := get(t.Context(), "http://"+health+"/readyz")
		if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, "unavailable") || !strings.Contains(body, right) {
			return fmt.Errorf("got %d %s, %v", status, body, err)
		}
		return nil
	}

	serves := freeAddress(t)
	generator := program(t, events.RoleGenerator)
	only := start(t, "serves", func() *exec.Cmd {
		return exec.Command(generator, append([]string{"--health", serves, "--serve-only"}, flags...)...)
	})
	ask, err := json.Marshal(&events.ContextRequest{Session: "s", Query: "what is the total"})
	if err != nil {
		t.Fatal(err)
	}
	agent := s.connect("acme", events.UserAgent)
	eventually(t, 30*time.Second, "one that serves answers", func() error {
		_, err := agent.Request(events.ServiceSubject(events.VerbContext, "default", ""), ask, 20*time.Second)
		return err
	})
	eventually(t, 20*time.Second, "one that serves names the right", func() error { return says(serves) })
	only.kill()

	answers := freeAddress(t)
	startWorkerAt(t, answers, "answers", events.RoleGenerator, flags...)
	s.debrief("acme", "submit", "--wait", "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?")
	eventually(t, 20*time.Second, "one that answers names the right", func() error { return says(answers) })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, program(t, "debrief"), append([]string{"status"}, s.flags("acme", events.UserOperator)...)...).CombinedOutput()
	if text := string(out); !strings.Contains(text, "unavailable") || !strings.Contains(text, right) {
		t.Errorf("debrief status does not report it:\n%s", text)
	}
}
