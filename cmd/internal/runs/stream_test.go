package runs_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// The longer form: DEBRIEF_LONG=1 go test ./cmd/internal/runs -run TestLargeFilesUseLittleMemory -v -timeout 20m
const longEnv = "DEBRIEF_LONG"

// recorder generates a recording while it is read: interleaved sessions of Claude Code, one of which is too large.
type recorder struct {
	left   int64 // bytes to write
	text   strings.Builder
	rest   string
	turns  int
	closed int // sessions that have a result
	huge   int // bytes that the session that is too large still has to write
}

const together = 8 // sessions that take turns

func (r *recorder) Read(p []byte) (int, error) {
	if r.rest == "" {
		if r.left <= 0 {
			return 0, io.EOF
		}
		r.text.Reset()
		r.next()
		r.rest = r.text.String()
		r.left -= int64(len(r.rest))
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

var filler = strings.Repeat("what a tool printed, and goes on to print, ", 60)

// next generates a round of one session: a call with its result and, every fifth time, the end of the session.
func (r *recorder) next() {
	session, round := r.turns%together, r.turns/together
	r.turns++
	id := fmt.Sprintf("%d-%d", session, round/5)
	fmt.Fprintf(&r.text, `{"type":"assistant","session_id":"%s","message":{"id":"m%d","content":[{"type":"text","text":"round %d"},{"type":"tool_use","id":"t%d","name":"Bash","input":{"command":"make %d"}}]}}`+"\n", id, r.turns, round, r.turns, r.turns)
	fmt.Fprintf(&r.text, `{"type":"user","session_id":"%s","message":{"content":[{"type":"tool_result","tool_use_id":"t%d","content":"%s","is_error":%v}]}}`+"\n", id, r.turns, filler, round%2 == 0)
	if round%5 == 4 {
		fmt.Fprintf(&r.text, `{"type":"result","subtype":"success","session_id":"%s"}`+"\n", id)
		r.closed++
	}
	if r.huge > 0 {
		line := fmt.Sprintf(`{"type":"assistant","session_id":"huge","message":{"id":"h%d","content":"%s"}}`+"\n", r.turns, strings.Repeat(filler, 4))
		r.text.WriteString(line)
		r.huge -= len(line)
	}
}

func TestLargeFilesUseLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	size := int64(96 << 20)
	if os.Getenv(longEnv) != "" {
		size = 2 << 30
	}
	// The peak of the heap, garbage included, and of the live heap at each collection.
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	var peak atomic.Uint64
	done := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			peak.Store(max(peak.Load(), m.HeapAlloc))
			select {
			case <-done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	r := &recorder{left: size, huge: (16 << 20) + 8<<20}
	steps, began := 0, time.Now()
	report, err := runs.Read(t.Context(), "book", "large.jsonl", r, func(e *events.Execution) error {
		steps += len(e.Steps)
		return nil
	})
	close(done)
	<-watched
	if err != nil {
		t.Fatal(err)
	}
	// Every ended session is complete, and so are the sessions that are open at the end of the file.
	if report.Runs < r.closed || report.Runs > r.closed+together || steps != r.turns {
		t.Errorf("got %d runs with %d steps, want %d to %d with %d", report.Runs, steps, r.closed, r.closed+together, r.turns)
	}
	if report.Skipped != 1 || !strings.Contains(report.Problems[0].Reason, "too large") {
		t.Errorf("got %+v, want the one that is too large", report.Problems)
	}
	seconds := time.Since(began).Seconds()
	t.Logf("%d MB in %.1f s, %.0f MB/s, %d runs; heap at most %d MB", size>>20, seconds, float64(size>>20)/seconds, report.Runs, peak.Load()>>20)
	if most := before.HeapAlloc + 80<<20; peak.Load() > most {
		t.Errorf("the heap had %d MB, want at most %d", peak.Load()>>20, most>>20)
	}
}
