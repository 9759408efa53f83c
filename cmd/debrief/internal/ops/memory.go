package ops

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the soft memory limit of the process, in bytes: most, or three quarters of the cgroup limit if that is
// less. Near the limit the garbage collector runs more often. GOMEMLIMIT overrides both.
func limitMemory(most int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		if allowed := cgroupMemory(); allowed < math.MaxInt64 {
			most = min(most, allowed/4*3)
		}
		debug.SetMemoryLimit(most)
	}
}

// cgroupFiles lists the files with the memory limit of the process's cgroup: version 2, then version 1.
var cgroupFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// cgroupMemory returns the memory limit of the cgroup in bytes, or math.MaxInt64 without a limit.
func cgroupMemory() int64 {
	for _, name := range cgroupFiles {
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
