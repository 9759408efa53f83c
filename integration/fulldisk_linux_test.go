package integration

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
)

// recovery is the maximum time until the server accepts events again after space is freed.
const recovery = 5 * time.Second

// mountSmallDisk mounts a disk of 16 MiB until the test ends.
func mountSmallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("cannot mount a disk: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fillDisk fills a disk except for some bytes, in one step.
func fillDisk(t *testing.T, disk string, leave int64) (remove func()) {
	t.Helper()
	name := filepath.Join(disk, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for {
		var s syscall.Statfs_t
		if err := syscall.Statfs(disk, &s); err != nil {
			t.Fatal(err)
		}
		size := int64(s.Bavail)*s.Bsize - leave
		if size <= 0 {
			break
		}
		at, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			t.Fatal(err)
		}
		// The server writes at the same time, so there can be less space than the disk said.
		if err := syscall.Fallocate(int(f.Fd()), 0, at, size); err != nil && !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
}

// reporter is an agent that reports executions over HTTP.
type reporter struct {
	t   *testing.T
	url string

	mu      sync.Mutex
	stored  []events.Handle // acknowledged
	reports int
}

// report sends one execution. It returns the status code, the Retry-After header and the body.
func (r *reporter) report() (code int, after, text string) {
	r.t.Helper()
	r.mu.Lock()
	r.reports++
	task := fmt.Sprint("task ", r.reports)
	r.mu.Unlock()
	body, err := json.Marshal(events.Report{
		Book: "b", RunID: task, Question: "What is it?", Answer: strings.Repeat("x", 20_000), Outcome: events.Outcome{Label: events.Success, Score: 1},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	reply, err := http.Post(r.url+"/api/v1/executions", "application/json", bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(reply.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if reply.StatusCode == http.StatusCreated {
		var s events.StoredReply
		if err := json.Unmarshal(data, &s); err != nil {
			r.t.Fatal(err)
		}
		r.mu.Lock()
		r.stored = append(r.stored, s.Handle)
		r.mu.Unlock()
	}
	return reply.StatusCode, reply.Header.Get("Retry-After"), string(data)
}

// refused sends a report and expects an error with Retry-After.
func (r *reporter) refused() {
	r.t.Helper()
	if code, after, text := r.report(); code != http.StatusServiceUnavailable || after == "" {
		r.t.Errorf("on a full disk: got %d, Retry-After %q: %s; want 503 and a time", code, after, text)
	}
}

// expectRecovery checks that reports are accepted within the recovery time.
func (r *reporter) expectRecovery(since time.Time) {
	r.t.Helper()
	eventually(r.t, time.Minute, "a report to be taken again", func() error {
		if code, _, text := r.report(); code != http.StatusCreated {
			return fmt.Errorf("%d %s", code, text)
		}
		return nil
	})
	if took := time.Since(since); took > recovery {
		r.t.Errorf("accepted reports %s after space was freed, want at most %s", took, recovery)
	}
}

// kept checks that all acknowledged reports are stored.
func (r *reporter) kept(nc *nats.Conn) {
	r.t.Helper()
	conn, err := bus.Attach(nc, bus.Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	lost := 0
	for _, h := range r.stored {
		seq, is, err := h.Parse()
		if err != nil {
			r.t.Fatal(err)
		}
		if _, err := conn.Events.Find(r.t.Context(), events.StreamExecutions, seq, is); err != nil {
			lost++
			r.t.Logf("%s: %v", h, err)
		}
	}
	if lost > 0 || len(r.stored) == 0 {
		r.t.Errorf("lost %d of %d acknowledged reports", lost, len(r.stored))
	}
}

func read(t *testing.T, url string) (int, string) {
	t.Helper()
	status, body, err := get(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return status, body
}

// command runs debrief and returns its exit code and output.
func command(t *testing.T, args ...string) (int, string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program(t, "debrief"), args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// expectRed checks that all health checks and commands name the full disk.
func expectRed(t *testing.T, health, server, dir string) {
	t.Helper()
	if code, text := read(t, "http://"+health+"/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(text, `"store":"the server accepts no new messages: the disk of `+dir) {
		t.Errorf("healthz: got %d %s, want 503 and the disk", code, text)
	}
	if code, _ := read(t, "http://"+health+"/readyz"); code != http.StatusServiceUnavailable {
		t.Errorf("readyz: got %d, want 503", code)
	}
	if _, text := read(t, "http://"+health+"/metrics"); !strings.Contains(text, "debrief_store_closed 1") {
		t.Error("metrics: debrief_store_closed is not 1")
	}
	for _, name := range []string{"status", "doctor"} {
		if code, text := command(t, name, "--nats", server); code == 0 || !strings.Contains(text, "the disk of "+dir) || !strings.Contains(text, "free some space") {
			t.Errorf("%s: exit %d and\n%s\nwant an error that names the disk and the fix", name, code, text)
		}
	}
}

// TestFullDiskRecovery fills the disk. Reports must fail at once while all health endpoints are red, and be accepted soon
// after space is freed. No acknowledged report may be lost.
func TestFullDiskRecovery(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills two disks three times")
	}
	for name, leave := range map[string]int64{
		"down to the reserve": 1 << 20,
		"to the last byte":    0, // writes fail before the server detects the shortage
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := program(t, "debrief")
			disk := mountSmallDisk(t)
			dir, listen, health, agents := filepath.Join(disk, "data"), freeAddress(t), freeAddress(t), freeAddress(t)
			up := start(t, "up", func() *exec.Cmd {
				return exec.Command(bin, "up", "--data", dir, "--listen", listen, "--http", agents, "--health", health)
			})
			if line := up.line(); !strings.HasPrefix(line, "debrief is up") {
				t.Fatalf("up printed %q", line)
			}
			r := &reporter{t: t, url: "http://" + agents}
			for range 50 {
				if code, _, text := r.report(); code != http.StatusCreated {
					t.Fatalf("before: got %d %s", code, text)
				}
			}
			failed := func() bool {
				text, _ := os.ReadFile(up.log)
				return bytes.Contains(text, []byte("no space left on device"))
			}
			// The server may detect the shortage before a write fails: then the last byte takes more rounds.
			for round := 0; round < 3 || leave == 0 && !failed() && round < 20; round++ {
				stop, stopped := make(chan struct{}), make(chan struct{})
				go func() { // so that writes are in flight when the disk becomes full
					defer close(stopped)
					for {
						select {
						case <-stop:
							return
						default:
							r.report()
						}
					}
				}()
				remove := fillDisk(t, disk, leave)
				eventually(t, time.Minute, "health to be red", func() error {
					if code, text := read(t, "http://"+health+"/healthz"); code == http.StatusOK {
						return errors.New(text)
					}
					return nil
				})
				close(stop)
				<-stopped
				r.refused()
				if round == 0 {
					expectRed(t, health, "nats://"+listen, dir)
				}
				remove()
				r.expectRecovery(time.Now())
			}
			eventually(t, time.Minute, "health to be green again", func() error {
				if code, text := read(t, "http://"+health+"/readyz"); code != http.StatusOK {
					return errors.New(text)
				}
				return nil
			})
			nc, err := nats.Connect("nats://" + listen)
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			r.kept(nc)
			if leave == 0 && !failed() {
				t.Error("no write of the server failed, so the test is not meaningful")
			}
		})
	}
}
