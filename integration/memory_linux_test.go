package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
)

// memoryBound limits the memory of a long run of 'debrief up', in bytes: the default of --memory, and the memory that only
// the operating system counts.
const memoryBound = 1100 << 20

const (
	burstRequests = 128_000
	burstSessions = 10_000
	steadyEnv     = "DEBRIEF_TEST_STEADY" // duration of the steady load after the burst; default 30m
	steadyPause   = 50 * time.Millisecond
)

// resident returns the resident memory of a process in bytes.
func resident(t *testing.T, pid int) int64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// sessionClient requests contexts and reports executions, in many sessions.
type sessionClient struct {
	t      *testing.T
	url    string
	client *http.Client
	next   atomic.Int64
	done   atomic.Int64
	failed atomic.Int64
}

func (v *sessionClient) post(path string, body, into any) {
	data, err := json.Marshal(body)
	if err != nil {
		v.t.Error(err)
		return
	}
	v.done.Add(1)
	reply, err := v.client.Post(v.url+path, "application/json", bytes.NewReader(data))
	if err != nil {
		v.failed.Add(1)
		return
	}
	defer reply.Body.Close()
	if data, err = io.ReadAll(reply.Body); err != nil || reply.StatusCode/100 != 2 || json.Unmarshal(data, into) != nil {
		v.failed.Add(1)
	}
}

// runTurn runs one turn of a session, which has two requests.
func (v *sessionClient) runTurn() {
	n := v.next.Add(1)
	book, session := "default", fmt.Sprint("session ", n*7919%burstSessions)
	var given events.ContextReply
	v.post("/api/v1/contexts", map[string]any{
		"book": book, "session": session, "query": fmt.Sprintf("What is the discount on %d units for customer %d of region %d?", n, n%977, n%13),
	}, &given)
	v.post("/api/v1/executions", map[string]any{
		"book": book, "context_id": given.ID, "answer": fmt.Sprintf("%d percent", n%40),
		"steps": []any{map[string]any{"text": "look it up", "tool_calls": []any{map[string]any{
			"tool": "lookup", "arguments": fmt.Sprintf(`{"customer":%d}`, n%977), "output": strings.Repeat("a row of the table ", 20),
		}}}},
		"outcome": map[string]any{"score": n % 2, "label": []string{"failure", "success"}[n%2]},
	}, new(events.StoredReply))
}

// TestMemoryStaysBounded prints the memory of 'debrief up' during 128,000 requests in 10,000 sessions and a steady load
// after that: DEBRIEF_LONG=1 go test ./integration -run TestMemoryStaysBounded -v -timeout 90m.
func TestMemoryStaysBounded(t *testing.T) {
	if os.Getenv(longEnv) == "" {
		t.Skip("takes more than half an hour: set " + longEnv + "=1")
	}
	steady := 30 * time.Minute
	if text := os.Getenv(steadyEnv); text != "" {
		var err error
		if steady, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	bin, agents := program(t, "debrief"), freeAddress(t)
	up := start(t, "up", func() *exec.Cmd {
		return exec.Command(bin, "up", "--data", t.TempDir(), "--listen", "none", "--http", agents, "--sync", "100ms")
	})
	if line := up.line(); !strings.HasPrefix(line, "debrief is up") {
		t.Fatalf("up printed %q", line)
	}
	transport := &http.Transport{MaxIdleConnsPerHost: 32}
	defer transport.CloseIdleConnections()
	v := &sessionClient{t: t, url: "http://" + agents, client: &http.Client{Transport: transport, Timeout: time.Minute}}
	began, most := time.Now(), int64(0)
	look := func(phase string) {
		is := resident(t, up.pid())
		most = max(most, is)
		fmt.Printf("%-7s %5.0f s %8d requests %6d failed %6.0f MB resident\n", phase, time.Since(began).Seconds(), v.done.Load(), v.failed.Load(), float64(is)/1e6)
	}
	look("start")
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()

	var visitors sync.WaitGroup
	for range 32 {
		visitors.Go(func() {
			for v.done.Load() < burstRequests {
				v.runTurn()
			}
		})
	}
	over := make(chan struct{})
	go func() { visitors.Wait(); close(over) }()
	for bursting := true; bursting; {
		select {
		case <-over:
			bursting = false
		case <-tick.C:
		}
		look("burst")
	}
	tick.Reset(time.Minute)
	pause := time.NewTicker(steadyPause)
	defer pause.Stop()
	for end := time.After(steady); end != nil; {
		select {
		case <-end:
			end = nil
		case <-tick.C:
			look("steady")
		case <-pause.C:
			v.runTurn()
		}
	}
	look("end")
	if most > memoryBound {
		t.Errorf("peak memory: got %d MB, want at most %d", most/1e6, memoryBound/1_000_000)
	}
	if failed, all := v.failed.Load(), v.done.Load(); failed*100 > all {
		t.Errorf("%d of %d requests failed", failed, all)
	}
}
