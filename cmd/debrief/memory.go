package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory sets the soft memory limit of the process, in bytes, or three quarters of its control group's limit where that
// is less. Near the limit garbage is collected more often. GOMEMLIMIT wins over both.
func limitMemory(most int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		if allowed := groupMemory(); allowed < math.MaxInt64 {
			most = min(most, allowed/4*3)
		}
		debug.SetMemoryLimit(most)
	}
}

// groupFiles hold the memory limit of the process's control group, in the two versions that Linux has.
var groupFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

// groupMemory returns the memory limit of the control group in bytes, else math.MaxInt64.
func groupMemory() int64 {
	for _, name := range groupFiles {
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
