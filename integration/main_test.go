package integration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"debrief/events/bus/bustest"
	"debrief/events/natsd"
	"debrief/integration/programs"
)

// serverEnv makes the test binary a NATS server; its value is the directory. 'debrief up' always runs roles too, so a test
// could not kill its server alone.
const serverEnv, listenEnv, syncEnv = "DEBRIEF_TEST_SERVER", "DEBRIEF_TEST_LISTEN", "DEBRIEF_TEST_SYNC"

// binaries is the directory for the built programs, and checkouts that of the copies of the repository, on the same file
// system. TestMain creates them; build fills the first.
var binaries, checkouts string

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		os.Exit(serve(natsd.Config{Dir: dir, Listen: os.Getenv(listenEnv), Sync: os.Getenv(syncEnv)}))
	}
	if rule := os.Getenv(wrongCuratorEnv); rule != "" {
		os.Exit(runWrongCurator(rule, os.Getenv(natsEnv)))
	}
	dir, err := os.MkdirTemp("", "debrief-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries, checkouts = filepath.Join(dir, "bin"), filepath.Join(dir, "checkouts")
	if err := errors.Join(os.Mkdir(binaries, 0o700), os.Mkdir(checkouts, 0o700)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	bustest.Prepare()
	code := m.Run()
	_ = os.RemoveAll(dir) // best effort: it is in the temporary directory
	os.Exit(code)
}

// serve runs a server until standard input ends, which happens when the test process ends for any reason.
func serve(c natsd.Config) int {
	s, err := natsd.Start(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println(s.URL())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

// build builds the programs once.
var build = sync.OnceValue(func() error { return programs.Build("..", binaries) })

// program returns the path of a built program.
func program(t testing.TB, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and starts the programs: run without -short")
	}
	if err := build(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(binaries, name)
}
