package bustest

import (
	"flag"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
)

// minFree is the free space in bytes that a file system in memory must have. The servers of the packages that go test
// runs in parallel share it, and a server closes its store before the file system is full.
const minFree = 2 << 30

// parallelPerCore is the number of parallel tests per core. They mostly wait for a server.
const parallelPerCore = 3

// gcPercent is the growth of the heap before a garbage collection. Tests with embedded servers have small heaps, which the
// default collects so often that it takes a tenth of the CPU time.
const gcPercent = 400

// Prepare makes the tests of a binary faster. Call it in TestMain before m.Run: it parses the flags. Benchmarks and the long
// forms of tests, with DEBRIEF_LONG=1, keep the disk and the number of parallel tests, because they measure.
func Prepare() {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() != "" || os.Getenv("DEBRIEF_LONG") != "" {
		return
	}
	useMemory()
	runMoreInParallel()
	debug.SetGCPercent(gcPercent)
}

// useMemory puts temporary directories on a file system in memory if the machine has one. A server creates hundreds of
// small files for its streams, and on a disk they take most of the system time of a test.
func useMemory() {
	if dir := memoryDir(); dir != "" {
		if err := os.Setenv("TMPDIR", dir); err != nil {
			panic(err)
		}
	}
}

// runMoreInParallel sets -parallel, unless the command line does.
func runMoreInParallel() {
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(parallelPerCore*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}
