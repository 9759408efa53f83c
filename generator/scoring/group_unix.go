//go:build unix

package scoring

import (
	"os/exec"
	"syscall"
)

// startProcessGroup configures cmd, before its start, to run in a new process group. If its context is cancelled, the whole group is killed.
func startProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// killProcessGroup kills the children of cmd that still run. If none runs, there is no group, and kill returns an error that is ignored.
func killProcessGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
