//go:build unix

package scoring

import (
	"os/exec"
	"syscall"
)

// startProcessGroup starts cmd in a new process group. Cancellation kills the whole group.
func startProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killProcessGroup kills the remaining children of cmd. The group id is valid while a child runs; otherwise kill
// fails, which is harmless.
func killProcessGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
