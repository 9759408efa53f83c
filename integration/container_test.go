package integration

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"debrief/events"
	"debrief/events/bus"
)

// dockerfile needs no registry: the image contains the static binary and a directory that its user may write. A scratch
// image has no shell and no user names, so the directory is copied and its owner is a number.
const dockerfile = `FROM scratch
COPY --chown=65532:65532 root/ /
USER 65532:65532
ENV DEBRIEF_DATA_DIR=/data
ENTRYPOINT ["/debrief"]
`

const imageToken = "s3cr3t"

// TestImageAnswersAndStops builds an image of debrief and checks that it runs as an unprivileged user, reports readiness,
// rejects clients without the token, answers a task, and stops on SIGTERM.
func TestImageAnswersAndStops(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program and an image: run without -short")
	}
	t.Parallel()
	requireEngine(t)
	dir := buildContext(t, dockerfile, "./cmd/debrief")
	if err := os.Mkdir(filepath.Join(dir, "root", "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctr, err := testcontainers.Run(t.Context(), "",
		testcontainers.WithDockerfile(testcontainers.FromDockerfile{Context: dir, Repo: "debrief-test"}),
		testcontainers.WithCmd("up", "--simulated", "--listen", "0.0.0.0:4222", "--token", imageToken, "--health", "0.0.0.0:8080"),
		testcontainers.WithExposedPorts("4222/tcp", "8080/tcp"),
		testcontainers.WithWaitStrategyAndDeadline(30*time.Second,
			wait.ForLog("debrief is up"), wait.ForHTTP("/readyz").WithPort("8080/tcp")),
	)
	testcontainers.CleanupContainer(t, ctr) // also removes the image
	if err != nil {
		t.Fatal(err)
	}
	url, err := ctr.PortEndpoint(t.Context(), "4222/tcp", "nats")
	if err != nil {
		t.Fatal(err)
	}

	if nc, err := nats.Connect(url); !errors.Is(err, nats.ErrAuthorization) {
		nc.Close()
		t.Errorf("connect without the token: got %v, want %v", err, nats.ErrAuthorization)
	}
	expectAnswer(t, url)
	expectCleanStop(t, ctr)
}

// requireEngine skips the test without a container engine, and configures testcontainers.
func requireEngine(t *testing.T) {
	t.Helper()
	if err := setUpEngine(); err != nil {
		t.Fatal(err)
	}
	testcontainers.SkipIfProviderIsNotHealthy(t)
}

// setUpEngine runs once for all tests, because the library reads its settings from the environment.
var setUpEngine = sync.OnceValue(func() error {
	settings := map[string]string{"TESTCONTAINERS_RYUK_DISABLED": "true"} // its image would have to be pulled
	if _, err := net.InterfaceByName("docker0"); err == nil && strings.HasPrefix(cmp.Or(os.Getenv("DOCKER_HOST"), "unix:"), "unix:") {
		// The engine shares our network. With a /.dockerenv, testcontainers would use another host.
		settings["TESTCONTAINERS_HOST_OVERRIDE"] = cmp.Or(os.Getenv("TESTCONTAINERS_HOST_OVERRIDE"), "localhost")
	}
	for key, value := range settings {
		if err := os.Setenv(key, value); err != nil {
			return err
		}
	}
	return nil
})

// buildContext returns a directory for an image build, with a Dockerfile and, under root, static binaries of the packages.
func buildContext(t *testing.T, dockerfile string, packages ...string) string {
	t.Helper()
	watch(t)
	dir := t.TempDir()
	root := filepath.Join(dir, "root") + string(filepath.Separator)
	if err := os.Mkdir(root, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(dockerfile), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", append([]string{"build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", root}, packages...)...)
	build.Dir, build.Env = "..", append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", build, err, out)
	}
	return dir
}

// expectAnswer submits an invoice without house rules, which the simulated model can add up, and checks the execution.
func expectAnswer(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	nc, err := nats.Connect(url, nats.Token(imageToken))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := bus.Open(ctx, nc, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	task := &events.Task{
		Book: "default",
		ID:   string(events.NewID()), Question: "Invoice 20417, to be paid in EUR:\n3 x lamp at 12.50\nWhat is the total?",
		Target: "37.5", Evaluator: "numeric", Created: time.Now().UTC(),
	}
	reply, err := conn.Request(ctx, task, bus.PublishOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if reply.Error != "" || reply.Handle == "" {
		t.Fatalf("got handle %q and error %q, want a stored execution", reply.Handle, reply.Error)
	}
	e := new(events.Execution)
	if err := events.Unmarshal(reply.Data, e); err != nil {
		t.Fatal(err)
	}
	if e.RunID != task.ID || e.Answer != "37.50" || e.Outcome.Label != events.Success {
		t.Errorf("task %s: got answer %q to task %s, outcome %+v, want 37.50, a success", task.ID, e.Answer, e.RunID, e.Outcome)
	}
}

// expectCleanStop sends SIGTERM and checks the exit code. The engine kills the container after the grace period.
func expectCleanStop(t *testing.T, ctr testcontainers.Container) {
	t.Helper()
	grace := 10 * time.Second // Docker's default
	began := time.Now()
	if err := ctr.Stop(t.Context(), &grace); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	state, err := ctr.State(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if state.Running || state.ExitCode != 0 {
		t.Errorf("%s after SIGTERM it is %s with exit code %d, want it to have ended with 0", took, state.Status, state.ExitCode)
	}
	t.Logf("stopped within %s", took.Round(time.Millisecond))
}
