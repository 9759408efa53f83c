package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// limitMemory has the process collect garbage more often when it comes near so many bytes, or near three quarters of what
// its control group allows. GOMEMLIMIT wins over both.
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

// groupMemory returns the memory that the control group allows, in bytes: the largest number where there is no limit.
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
