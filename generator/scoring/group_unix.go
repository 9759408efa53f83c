//go:build unix

package scoring

import (
	"os/exec"
	"syscall"
)

// alone gives a command a process group of its own, which ends as a whole.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

// endGroup ends the children that a command has left. While one of them runs the group keeps its number; when none does
// there is no such group, which is fine.
func endGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
