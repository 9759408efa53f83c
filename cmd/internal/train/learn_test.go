package train

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/runs"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"

	book "debrief/playbook"
)

// TestCountResultsFindsDeadLetters checks that dead letters are matched by the id of the run. The payload may be stored
// outside the letter, an earlier command may have submitted the run, and the letter may be of a copy that was requeued.
func TestCountResultsFindsDeadLetters(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	in := runStates{}
	for _, run := range []struct {
		task, answer string
		book         string
		state        runState
		copy         int
	}{
		{"large", strings.Repeat("x", bus.MaxInline+1), "b", runInFiles, 0},
		{"before", "a", "b", runInFiles | runStored, 0},
		{"requeued", "a", "b", runInFiles, 1},
		{"not in the files", "a", "b", runStored, 0},
		{"elsewhere", "a", "other", runInFiles, 0},
	} {
		e := &events.Execution{Book: book.Book(run.book), RunID: run.task, Answer: run.answer}
		e.ID = events.ExecutionID(e.Book, "", e.RunID, 0)
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{Copy: run.copy}); err != nil {
			t.Fatal(err)
		}
		in[runIDOf(e.ID)] = run.state
	}
	work, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	left := 5
	go func() {
		worked <- conn.Run(work, bus.Worker{Role: events.RoleReflector, Slots: 1, Handle: func(context.Context, []*bus.Delivery) []bus.Result {
			return []bus.Result{{Err: bus.Discard(errors.New("no use"))}}
		}})
	}()
	err := conn.Events.Poll(t.Context(), events.StreamDead, events.DeadSubject("", ""), 0, time.Millisecond, func(bus.Stored) error {
		if left--; left == 0 {
			return bus.ErrStop
		}
		return nil
	})
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		t.Fatal(err)
	}
	res := &learnResult{Executions: 3, DeadReasons: map[string]int{}}
	if err := new(Learn).countResults(t.Context(), &cli.Session{Conn: conn}, "b", in, res); err != nil {
		t.Fatal(err)
	}
	if res.Dead != 3 || res.Reflected != 0 || res.Nothing != 0 || res.DeadReasons["no use"] != 3 {
		t.Errorf("got %+v, want three dead letters", res)
	}
}

// TestBadFilesCostOnlyThemselves reads a directory with everything that a directory can contain, and files that nothing can read, before
// and after a file that can be read.
func TestBadFilesCostOnlyThemselves(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path(name)
	}
	if err := os.Mkdir(path("in"), 0o700); err != nil {
		t.Fatal(err)
	}
	steps := strings.Repeat(`{"tool_calls":[{"tool":"a","arguments":"{}","output":"x"}]},`, 60_000)
	large := write("large.jsonl", `{"question":"long","steps":[`+strings.TrimSuffix(steps, ",")+`]}`+"\n"+`{"question":"q1","answer":"a"}`)
	good := write("in/good.jsonl", `{"question":"q2","answer":"a"}`)
	gone := write("in/gone.jsonl", `{"question":"q3","answer":"a"}`)
	pipe, loop := path("pipe"), path("in/loop")
	socket, err := net.Listen("unix", path("in/socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(path("in"), path("in/circle")), os.Symlink(loop, loop),
		os.Symlink(pipe, path("in/link")), os.Symlink(good, path("in/zagain")), os.Symlink(path("nowhere"), path("in/dangling"))); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		path("in/circle"): "not read: a link to a directory", path("in/link"): "not read: a named pipe", path("in/socket"): "not read: a socket",
		loop: "stat: too many levels of symbolic links", path("in/dangling"): "stat: no such file or directory",
	}
	if os.Geteuid() != 0 {
		closed := write("in/closed.jsonl", `{}`)
		if err := errors.Join(os.Chmod(closed, 0), os.Mkdir(path("in/closed"), 0)); err != nil {
			t.Fatal(err)
		}
		want[path("in/closed")] = "open: permission denied"
	}
	files, skipped, err := expandFiles([]string{large, pipe, loop, path("in"), good})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, u := range skipped {
		got[u.File] = u.Problem
	}
	if !maps.Equal(got, want) || len(skipped) != len(want)+1 { // the loop is an argument, too
		t.Errorf("skipped %v\nwant %v", got, want)
	}
	if err := os.Remove(gone); err != nil { // after the directory was read
		t.Fatal(err)
	}
	s := newLearning(t)
	in, res := runStates{}, &learnResult{}
	l, r := &Learn{JSON: true}, &runs.Reader{Book: "b"}
	for _, name := range files {
		err := l.readFile(t.Context(), s, r, name, in, res)
		if bad := name == pipe || name == gone || strings.Contains(name, "closed"); (err != nil) != bad || errors.As(err, new(*stopError)) {
			t.Errorf("file %s: got error %v", name, err)
		}
	}
	if n := in.count(runInFiles); n != 2 || res.Unread != 1 || len(res.Problems) != 1 || res.Problems[0].File != large {
		t.Errorf("got %d runs, %d unread: %+v", n, res.Unread, res.Problems)
	}
}

// TestChangingFiles reads files that grow, shrink and are replaced while they are read. A file that grows for ever, such as the output of
// the command itself, must end.
func TestChangingFiles(t *testing.T) {
	t.Parallel()
	line := `{"question":"q","answer":"` + strings.Repeat("a", 1000) + `"}` + "\n"
	lines := strings.Repeat(line, 1000)
	for name, change := range map[string]func(path string) error{
		"grows":    func(path string) error { return appendTo(path, lines) },
		"shrinks":  func(path string) error { return os.Truncate(path, int64(len(line)*500+100)) },
		"vanishes": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".new", []byte("{}"), 0o600), os.Rename(path+".new", path))
		},
	} {
		path := filepath.Join(t.TempDir(), "runs.jsonl")
		if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := openFile(path)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		report, err := runs.Read(t.Context(), "b", path, interruptible(t.Context(), f), func(*events.Execution) error {
			if n++; n > 5000 {
				return errors.New("the reading does not end")
			}
			if name == "grows" || n == 1 {
				return change(path)
			}
			return nil
		})
		f.Close()
		runs, skipped := 1000, 0
		if name == "shrinks" {
			runs, skipped = 500, 1
		}
		if err != nil || report.Runs != runs || report.Skipped != skipped {
			t.Errorf("%s: got %d runs, %d skipped, error %v; want %d, %d", name, report.Runs, report.Skipped, err, runs, skipped)
		}
	}
}

// TestConversationsOfEvents reads conversations of the OpenHands SDK: each is one run, whatever names the files, and a damaged event costs
// only itself.
func TestConversationsOfEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var single []string
	for _, c := range []string{"c1", "c2"} {
		write(c+"/base_state.json", `{"id":"`+c+`","agent":{}}`)
		for i, event := range []string{
			`{"id":"e0","timestamp":"2031-05-17T10:00:00.1","source":"user","llm_message":{"role":"user","content":[{"cache_prompt":false,"type":"text","text":"Where am I?"}],"thinking_blocks":[]},"kind":"MessageEvent"}`,
			`{"id":"e1","timestamp":"2031-05-17T10:00:01.1","sou`,
			"{\n" + `"id":"e2","timestamp":"2031-05-17T10:00:02.1","source":"agent","thought":[],"action":{"command":"pwd","kind":"TerminalAction"},"tool_name":"terminal","tool_call_id":"k","tool_call":{"id":"k","name":"terminal","arguments":"{\"command\":\"pwd\",\"summary\":\"Look\"}"},"summary":"Look","kind":"ActionEvent"}`,
			`{"id":"e3","timestamp":"2031-05-17T10:00:03.1","source":"environment","tool_name":"terminal","tool_call_id":"k","observation":{"content":[{"type":"text","text":"/` + c + `"}],"is_error":false,"exit_code":0,"timeout":false,"kind":"TerminalObservation"},"action_id":"e2","kind":"ObservationEvent"}`,
			`{"id":"e4","timestamp":"2031-05-17T10:00:04.1","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"In /` + c + `."}]},"kind":"MessageEvent"}`,
		} {
			name := write(fmt.Sprintf("%s/events/event-%05d-e%d.json", c, i, i), event)
			if c == "c1" {
				single = append(single, name)
			}
		}
	}
	files, skipped, err := expandFiles(append([]string{dir}, single...)) // the names of the first one again
	if want := []string{filepath.Join(dir, "c1/events"), filepath.Join(dir, "c2/events")}; err != nil || len(skipped) != 0 || !slices.Equal(files, want) {
		t.Fatalf("got files %q, error %v, want %q", files, err, want)
	}
	s, res := newLearning(t), &learnResult{}
	in := runStates{}
	for _, name := range files {
		if err := new(Learn).readFile(t.Context(), s, &runs.Reader{Book: "b"}, name, in, res); err != nil {
			t.Fatal(err)
		}
	}
	if n := in.count(runInFiles); n != 2 || res.calls != 2 || res.Unread != 2 || *res.Problems[0].Line != 2 {
		t.Errorf("got %d runs, %d calls, %+v", n, res.calls, res.Problems)
	}
	var tasks []string
	err = s.Events.Scan(t.Context(), events.StreamExecutions, events.KindExecution.Subject("b"), 1, func(st bus.Stored) error {
		e := st.Event.(*events.Execution)
		tasks = append(tasks, e.RunID[:strings.LastIndexByte(e.RunID, '/')])
		if c := e.Steps[0].Calls[0]; e.Question != "Where am I?" || c.Arguments != `{"command":"pwd"}` || c.Outcome != events.Success {
			t.Errorf("got %+v", e)
		}
		return nil
	})
	if slices.Sort(tasks); err != nil || !slices.Equal(tasks, []string{"openhands", "openhands"}) {
		t.Errorf("got tasks %q, error %v", tasks, err)
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text[:min(len(text), 4000)])
	return errors.Join(err, f.Close())
}

// TestReadingOfAPipeEndsWithTheContext checks that a pipe whose writer is silent does not keep the command.
func TestReadingOfAPipeEndsWithTheContext(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	in := interruptible(ctx, r)
	if _, err := w.WriteString("abc"); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 8)
	if n, err := in.Read(buf); n != 3 || err != nil {
		t.Fatalf("got %d bytes, error %v", n, err)
	}
	cancel()
	if _, err := in.Read(buf); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestRunIDOfOtherIDs checks that an id that is not of an execution, such as one that another client wrote, is the id of no run.
func TestRunIDOfOtherIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []events.ID{"", "17", "ab", "0b5a7c52-9d0e-4f6c-8a55-1f0f6a6a3c11", events.Hash("a") + "AAAA"} {
		if got := runIDOf(id); got != (runID{}) {
			t.Errorf("%q: got %x, want zeros", id, got)
		}
	}
	if got := runIDOf(events.Hash("a")); got == (runID{}) {
		t.Error("got the id of no run for an execution")
	}
}
