//go:build !unix

package agents

import "os/exec"

// detach does nothing: the process may end with the console of the agent. The run then waits for the next hook.
func detach(*exec.Cmd) {}
