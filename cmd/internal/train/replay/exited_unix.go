//go:build unix

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"syscall"
)

// hasExited reports whether a process of this machine has ended. A killed process stays a zombie if its parent does not
// reap it, as in containers whose first process reaps none.
func hasExited(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // "pid (name) state …"; the name may contain a bracket
	end := bytes.LastIndex(stat, []byte(") "))
	return err == nil && end >= 0 && bytes.HasPrefix(stat[end+2:], []byte("Z"))
}
