package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/chat"
)

// hookLimit is the longest time of a hook, with the start of the process.
const hookLimit = 300 * time.Millisecond

// TestHookEndsInTime starts real hooks, 8 at a time, against servers that work, are dead, are slow, or are full: each ends with the exit
// code 0, and prints one whole object or nothing. With DEBRIEF_LONG=1 it also requires that 99 % end within 300 ms; the short form
// allows for the other tests on the machine, which take most of its time.
func TestHookEndsInTime(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	isLong := os.Getenv("DEBRIEF_LONG") != ""
	count, limit := 40, 10*time.Second
	if isLong {
		count, limit = 400, hookLimit
	} else {
		t.Parallel()
	}
	works := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(events.ContextReply{
			ID: "c", Messages: []chat.Message{{Speaker: chat.User, Text: "<playbook>\n- [a-1] Prices are in cents.\n</playbook>"}},
			Lines: []events.AdviceLine{{Start: 11, End: 40, Bullet: "a-1"}},
		})
	}))
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	full := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	dead := httptest.NewServer(nil)
	dead.Close()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts no connection
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { works.Close(); slow.Close(); full.Close(); _ = silent.Close() })
	for _, server := range []struct {
		name, address string
		advises       bool
	}{
		{"works", works.URL, true}, {"dead", dead.URL, false}, {"slow", slow.URL, false}, {"full", full.URL, false}, {"silent", "http://" + silent.Addr().String(), false},
	} {
		t.Run(server.name, func(t *testing.T) {
			n := &newcomer{t: t, dir: t.TempDir()}
			for _, dir := range []string{"home", "repo/.git"} {
				if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			n.must("debrief", "connect", "claude-code", "--book", "b", "--url", server.address)
			var took []time.Duration
			var advised int
			var mu sync.Mutex
			var all sync.WaitGroup
			next := make(chan int)
			for range 8 {
				all.Go(func() {
					for i := range next {
						event := fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","session_id":"s-%d","prompt":"Fix it","cwd":%q}`, i, filepath.Join(n.dir, "repo"))
						started := time.Now()
						out, err := n.run(event, "debrief", "hook", "claude-code")
						ended := time.Since(started)
						mu.Lock()
						took = append(took, ended)
						if out != "" {
							advised++
						}
						mu.Unlock()
						if err != nil || out != "" && !json.Valid([]byte(out)) {
							t.Errorf("got %q, %v", out, err)
						}
					}
				})
			}
			for i := range count {
				next <- i
			}
			close(next)
			all.Wait()
			slices.Sort(took)
			p99 := took[len(took)*99/100]
			t.Logf("%d hooks, 8 at a time: p50 %s, p99 %s, longest %s; %d with advice", count, took[len(took)/2], p99, took[len(took)-1], advised)
			if p99 > limit {
				t.Errorf("p99: got %s, want at most %s", p99, limit)
			}
			if advised > 0 && !server.advises || isLong && server.advises && advised < count*95/100 {
				t.Errorf("got advice %d of %d times, want it: %t", advised, count, server.advises)
			}
		})
	}
}

// TestHookNeverFails: input that is invalid, missing or endless, a closed output and a directory without a repository.
func TestHookNeverFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n := &newcomer{t: t, dir: t.TempDir()}
	if err := os.MkdirAll(filepath.Join(n.dir, "repo"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"claude-code"}, {"unknown"}, {""}, {"hand-over"}} {
		for _, in := range []string{"", "{", `{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"x","cwd":"/"}`} {
			if out, err := n.run(in, "debrief", append([]string{"hook"}, args...)...); err != nil || out != "" {
				t.Errorf("%q with %q: got %q, %v", args, in, out, err)
			}
		}
	}
	cmd := exec.Command("debrief", "hook", "claude-code")
	cmd.Env = []string{"HOME=" + n.dir, "PATH=" + os.Getenv("PATH")}
	stdin, err := cmd.StdinPipe() // stays open
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.Len() > 0 {
		t.Errorf("input without an end: got %q, %v", out.String(), err)
	}
	_ = stdin.Close()
}

// TestHookEndsIfItsOutputIsNotRead starts a hook with a full pipe as its standard output, which nothing reads.
func TestHookEndsIfItsOutputIsNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n := &newcomer{t: t, dir: t.TempDir()}
	for _, dir := range []string{"home", "repo/.git"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	n.must("debrief", "connect", "claude-code", "--book", "b")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if err := w.SetWriteDeadline(time.Now().Add(100 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 1<<20)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("fill the pipe: got error %v, want a full pipe", err)
	}
	event := fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","session_id":"s","prompt":"/debrief good","cwd":%q}`, filepath.Join(n.dir, "repo"))
	cmd := n.command(event, "debrief", "hook", "claude-code")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() }).Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want an end with the exit code 0", err)
	}
}
