package train

import (
	"context"
	"errors"
	"maps"
	"net"
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

// TestBadFilesCostOnlyThemselves reads a directory with everything that a directory can contain, and files that nothing can read, before
// and after a file that can be read.
func TestBadFilesCostOnlyThemselves(t *testing.T) {
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
	in, res := runStates{}, &learnResult{Omitted: source.Omissions{}}
	l, r := &Learn{JSON: true}, &traces.Reader{Book: "b"}
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
		report, err := traces.Read(t.Context(), "b", path, interruptible(t.Context(), f), func(*events.Execution) error {
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
