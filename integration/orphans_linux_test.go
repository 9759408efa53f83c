package integration

import (
	"os/exec"
	"syscall"
)

// leash makes a process die with the test, also when that is killed or runs out of time.
func leash(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
