package integration

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/deltalog"
	"debrief/playbook"
)

// TestEditWaitsForCurator submits an edit without a curator. The command must report that after 5 s in one line, and a
// curator that starts later must apply the edit.
func TestEditWaitsForCurator(t *testing.T) {
	t.Parallel()
	_, url := startServer(t)
	add := func(text string) (code int, said string) {
		cmd := exec.Command(program(t, "debrief"), "playbook", "add", "--nats", url, "--book", string(desk), text)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		err := cmd.Run()
		if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
			return failed.ExitCode(), stderr.String()
		} else if err != nil {
			t.Fatal(err)
		}
		return 0, stderr.String()
	}
	began := time.Now()
	code, said := add("The desk opens at nine.")
	if code != 4 || !strings.Contains(said, "curator") || strings.Count(said, "\n") != 1 {
		t.Errorf("got exit code %d and %q, want 4 and a line that names the missing curator", code, said)
	}
	if waited := time.Since(began); waited < 5*time.Second {
		t.Errorf("gave up after %s", waited)
	}
	startWorker(t, "curator", events.RoleCurator, "--nats", url)
	store := deltalog.New(connect(t, url).JetStream())
	eventually(t, 30*time.Second, "the edit that waited", func() error {
		w, err := store.Writer(t.Context(), desk)
		if err != nil {
			return err
		}
		if b := w.State().Playbook().Bullet("misc-00001"); b == nil || b.Content != "The desk opens at nine." {
			return fmt.Errorf("bullet: %v", b)
		}
		return nil
	})
	if code, said := add("The desk closes at five."); code != 0 {
		t.Errorf("with a curator: exit code %d, %s", code, said)
	}
	if p, err := store.PlaybookAt(t.Context(), desk, 2); err != nil || p.Len() != 2 || p.Bullet(playbook.MintID("others", 2)) == nil {
		t.Errorf("got %v, %v, want both bullets", p, err)
	}
}
