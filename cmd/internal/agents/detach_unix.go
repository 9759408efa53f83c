//go:build unix

package agents

import (
	"os/exec"
	"syscall"
)

// detach puts a process into a new session: signals to the agent do not reach it.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
