package replay

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestZombieProcessCountsAsExited: a killed process that its parent does not reap holds no run.
func TestZombieProcessCountsAsExited(t *testing.T) {
	t.Parallel()
	if hasExited(os.Getpid()) {
		t.Error("this process is at work")
	}
	cmd := exec.CommandContext(t.Context(), "sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if hasExited(cmd.Process.Pid) {
		t.Error("it sleeps, and is no zombie")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(10 * time.Second); !hasExited(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("it was killed, and is thought to be at work")
		}
	}
	_ = cmd.Wait()
	if !hasExited(cmd.Process.Pid) {
		t.Error("process has not exited")
	}
}
