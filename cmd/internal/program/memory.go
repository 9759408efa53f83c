package program

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// LimitMemory sets the soft memory limit of the process, in bytes. The limit is most, or three quarters of the cgroup limit if
// those are less. Near the limit the garbage collector runs more often. GOMEMLIMIT overrides both.
func LimitMemory(most int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit(most, cgroupMemory(cgroupFiles)))
	}
}

// softLimit returns the memory limit for a process whose cgroup allows this many bytes, math.MaxInt64 for any number.
func softLimit(most, allowed int64) int64 {
	if allowed == math.MaxInt64 {
		return most
	}
	return min(most, allowed/4*3)
}

// cgroupFiles lists the files with the memory limit of the process's cgroup: version 2, then version 1.
var cgroupFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// cgroupMemory returns the memory limit of the cgroup in bytes, or math.MaxInt64 without a limit. It uses the first file that
// has a limit.
func cgroupMemory(files []string) int64 {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && n > 0 {
			return n
		}
	}
	return math.MaxInt64
}
