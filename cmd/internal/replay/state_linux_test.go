package replay

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestAZombieIsGone: who was killed and waited for by nobody holds no run.
func TestAZombieIsGone(t *testing.T) {
	t.Parallel()
	if gone(os.Getpid()) {
		t.Error("this process is at work")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if gone(cmd.Process.Pid) {
		t.Error("it sleeps, and is no zombie")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); !gone(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it was killed, and is thought to be at work")
		}
	}
	_ = cmd.Wait()
	if !gone(cmd.Process.Pid) {
		t.Error("it has ended")
	}
}
