package integration

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"debrief/events/natsd"
)

// serverEnv makes the test binary a NATS server and nothing else: its value is the directory. The programs have no such
// mode, because 'debrief up' always runs roles with the server, and those could not be killed alone.
const serverEnv, listenEnv, syncEnv = "DEBRIEF_TEST_SERVER", "DEBRIEF_TEST_LISTEN", "DEBRIEF_TEST_SYNC"

// binaries is where the programs are built to; made by TestMain, filled when first needed.
var binaries string

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		os.Exit(serve(natsd.Config{Dir: dir, Listen: os.Getenv(listenEnv), Sync: os.Getenv(syncEnv)}))
	}
	if rule := os.Getenv(naiveEnv); rule != "" {
		os.Exit(curateNaively(rule, os.Getenv(natsEnv)))
	}
	dir, err := os.MkdirTemp("", "debrief-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries = dir
	// More tests run at a time than there are cores, where nobody says otherwise: they mostly wait.
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir) // the system's temporary directory is swept
	os.Exit(code)
}

// serve runs a server until standard input ends, which it does when the test dies, however it dies.
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

// readmeBuild is how the README builds the programs: as for a container, and as small as they get.
const readmeBuild = "CGO_ENABLED=0 go build -trimpath -ldflags='-s -w' -o bin/ ./cmd/..."

// build builds the programs as the README says to, once.
var build = sync.OnceValue(func() error {
	cmd := exec.Command("bash", "-c", strings.Replace(readmeBuild, " bin/ ", " "+binaries+"/ ", 1))
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false") // a build machine may have checked out as somebody else
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return nil
})

// program is the path of a built program.
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
