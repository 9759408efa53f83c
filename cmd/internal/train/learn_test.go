package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/traces"
	"debrief/cmd/internal/traces/source"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"

	book "debrief/playbook"
)

// TestCountResultsFindsDeadLetters checks that dead letters are matched by the id of the run. The payload may be stored
// outside the letter, and an earlier command may have submitted the run.
func TestCountResultsFindsDeadLetters(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	in := runStates{}
	for _, run := range []struct {
		task, answer string
		book         string
		state        runState
	}{
		{"large", strings.Repeat("x", bus.MaxInline+1), "b", runInFiles},
		{"before", "a", "b", runInFiles | runStored},
		{"not in the files", "a", "b", runStored},
		{"elsewhere", "a", "other", runInFiles},
	} {
		e := &events.Execution{TaskID: run.task, Answer: run.answer}
		e.Book = book.Book(run.book)
		e.ID = events.ExecutionID(e.Book, e.TaskID, 0)
		if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		in[runIDOf(e.ID)] = run.state
	}
	work, stop := context.WithCancel(t.Context())
	worked := make(chan error, 1)
	left := 4
	go func() {
		worked <- conn.Run(work, bus.Worker{Role: events.RoleReflector, Slots: 1, Handle: func(context.Context, []*bus.Delivery) []bus.Result {
			return []bus.Result{{Err: bus.Discard(errors.New("no use"))}}
		}})
	}()
	err := conn.Read(t.Context(), events.StreamDead, events.DeadSubject("", ""), func(bus.Stored) error {
		if left--; left == 0 {
			return bus.ErrStop
		}
		return nil
	})
	stop()
	if err := errors.Join(err, <-worked); err != nil {
		t.Fatal(err)
	}
	res := &learnResult{Executions: 2, DeadReasons: map[string]int{}}
	if err := new(Learn).countResults(t.Context(), &cli.Session{Conn: conn}, "b", in, res); err != nil {
		t.Fatal(err)
	}
	if res.Dead != 2 || res.Reflected != 0 || res.Nothing != 0 || res.DeadReasons["no use"] != 2 {
		t.Errorf("got %+v, want two dead letters", res)
	}
}

// TestBadFilesCostOnlyThemselves reads a run that no execution can hold, a named pipe without a writer, and a directory with links
// in a circle, before and after a file that can be read.
func TestBadFilesCostOnlyThemselves(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	steps := strings.Repeat(`{"tool_calls":[{"tool":"a","arguments":"{}","output":"x"}]},`, 60_000)
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(dir, name)
	}
	large := write("large.jsonl", `{"question":"long","steps":[`+strings.TrimSuffix(steps, ",")+`]}`+"\n"+`{"question":"q1","answer":"a"}`)
	good := write("good.jsonl", `{"question":"q2","answer":"a"}`)
	pipe, links := filepath.Join(dir, "pipe"), filepath.Join(dir, "links")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Mkdir(links, 0o700), os.Symlink(links, filepath.Join(links, "circle")),
		os.Symlink(pipe, filepath.Join(links, "pipe")), os.Symlink(good, filepath.Join(links, "again"))); err != nil {
		t.Fatal(err)
	}
	files, others, err := expandFiles([]string{large, pipe, links, good})
	if err != nil || others != 2 || len(files) != 4 || files[2] != filepath.Join(links, "again") {
		t.Fatalf("got files %q, error %v", files, err)
	}
	s := newLearning(t)
	in, res := runStates{}, &learnResult{Omitted: source.Omissions{}}
	l, r := &Learn{JSON: true}, &traces.Reader{Book: "b"}
	for i, name := range files {
		err := l.readFile(t.Context(), s, r, name, in, res)
		if (err != nil) != (name == pipe) || errors.As(err, new(*stopError)) {
			t.Errorf("file %d: got error %v", i, err)
		}
	}
	if n := in.count(runInFiles); n != 2 || res.Unread != 1 || len(res.Problems) != 1 || res.Problems[0].File != large {
		t.Errorf("got %d runs, %d unread: %+v", n, res.Unread, res.Problems)
	}
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
