package integration

import (
	"os/exec"
	"syscall"
)

// killWithParent makes the kernel kill a process when the test process ends for any reason.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
