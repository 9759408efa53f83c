// Package natsdtest makes tests with an embedded server fast.
package natsdtest

import (
	"flag"
	"os"
	"testing"
)

// minFree is the free space in bytes that a file system in memory must have. The servers of the packages that go test
// runs in parallel share it, and a server closes its store before the file system is full.
const minFree = 2 << 30

// UseMemory puts the temporary directories of a test binary on a file system in memory if it runs with -short. A
// server creates hundreds of small files for its streams, and on a disk they take most of the system time of a test.
// Without -short, in benchmarks and on a machine without such a file system, the directories stay on the disk.
//
// Call it in TestMain before m.Run: it parses the flags and sets TMPDIR.
func UseMemory() {
	flag.Parse()
	if dir := memoryDir(); testing.Short() && dir != "" {
		if err := os.Setenv("TMPDIR", dir); err != nil {
			panic(err)
		}
	}
}
