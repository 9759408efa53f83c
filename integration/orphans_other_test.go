//go:build !linux

package integration

import "os/exec"

// killWithParent does nothing on this system: processes of a killed test continue to run.
func killWithParent(*exec.Cmd) {}
