//go:build !unix

package scoring

import "os/exec"

// startProcessGroup does nothing, because this system has no process groups. A program that is killed leaves its children running.
func startProcessGroup(*exec.Cmd) {}

// killProcessGroup does nothing, see startProcessGroup.
func killProcessGroup(*exec.Cmd) {}
