package agents

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const ticks = 10 * time.Millisecond // unit of times in /proc, on all platforms of Linux that Go supports

// age returns how long this process has existed: on a busy machine a large program may need longer to start than to work.
func age() time.Duration {
	const startTime = 19 // field after the name of the program, which ends with a parenthesis; see proc_pid_stat(5)
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return usualStart
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	var now unix.Timespec
	if len(fields) <= startTime || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return usualStart
	}
	started, err := strconv.ParseInt(string(fields[startTime]), 10, 64)
	if err != nil {
		return usualStart
	}
	return max(0, time.Duration(now.Nano())-time.Duration(started)*ticks)
}
