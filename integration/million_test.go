package integration

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/playbook"
)

// TestAMillionExecutions publishes recorded executions of usual size to real workers; one in ten gives an insight. The
// memory of workers must not grow with the number of executions. The server's index grows; the test prints and limits that
// separately. DEBRIEF_LONG=1 publishes a million, DEBRIEF_TEST_EXECUTIONS another number:
//
//	DEBRIEF_LONG=1 go test ./integration -v -timeout 30m -run AMillion | grep MEMORY
func TestAMillionExecutions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	n := 5_000
	if os.Getenv(longEnv) != "" {
		n = 1_000_000
	}
	if text := os.Getenv("DEBRIEF_TEST_EXECUTIONS"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	executionLoad{executions: n, books: 8, parts: 10}.run(t)
}

// executionLoad is a number of executions in parts. The test measures memory after each part.
type executionLoad struct{ executions, books, parts int }

func (f executionLoad) run(t *testing.T) {
	server, url := startServerIn(t, t.TempDir(), "100ms")
	model := startModel(t, 0)
	procs := []*process{
		server,
		// The generator's memory for recalled executions has a separate limit, which is reached at once here.
		startWorker(t, "generator", events.RoleGenerator, "--nats", url, "--model", "simulated-invoice-desk", "--base-url", model, "--recall", "book", "--recall-memory", "1000000"),
		startWorker(t, "reflector-0", events.RoleReflector, "--nats", url),
		startWorker(t, "reflector-1", events.RoleReflector, "--nats", url),
		startWorker(t, "curator-0", events.RoleCurator, "--nats", url),
		startWorker(t, "curator-1", events.RoleCurator, "--nats", url),
	}
	conn := connect(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()

	names := make([]string, len(procs))
	for i, p := range procs {
		names[i] = p.name
	}
	t.Logf("MEMORY | executions | MB of %s | after | rate |", strings.Join(names, ", "))
	var memory [][]int // after each part, of each process
	began := time.Now()
	for part := range f.parts {
		f.pour(t, ctx, conn, part)
		awaitSettled(t, ctx, conn)
		memory = append(memory, residentMemory(t, procs))
		done := (part + 1) * f.executions / f.parts
		took := time.Since(began)
		all := took * time.Duration(f.parts) / time.Duration(part+1)
		t.Logf("MEMORY | %d | %s | %s of %s | %.0f/s |", done, megabytes(memory[part]), took.Round(time.Second), all.Round(time.Second), float64(done)/took.Seconds())
	}
	f.checkMemory(t, procs, memory)
	f.checkOutcome(t, ctx, conn)
}

// pour stores a part of the executions, and a few tasks, so that the generator opens every book.
func (f executionLoad) pour(t *testing.T, ctx context.Context, conn *bus.Conn, part int) {
	t.Helper()
	if part == 0 {
		f.seed(t, ctx, conn)
	}
	var next atomic.Int64
	next.Store(int64(part * f.executions / f.parts))
	end := int64((part + 1) * f.executions / f.parts)
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < end; i = next.Add(1) - 1 {
				if _, err := conn.Publish(ctx, f.execution(int(i)), bus.PublishOptions{}); err != nil {
					t.Errorf("execution %d: %v", i, err)
					return
				}
			}
		})
	}
	for i := range 2 * f.books {
		task := &events.Task{Book: f.book(i), ID: fmt.Sprintf("ask-%d-%d", part, i), Session: fmt.Sprint("asking", i), Question: "How is an order changed that update_order refuses?"}
		if err := submit(ctx, conn, task); err != nil {
			t.Error(err)
		}
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

func (f executionLoad) book(i int) playbook.Book { return playbook.Book(fmt.Sprint("desk", i%f.books)) }

// seed adds one bullet to each book.
func (f executionLoad) seed(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	for i := range f.books {
		e := &events.Edit{Book: f.book(i), ID: events.NewID(), Author: "operator", Ops: []playbook.Op{{Kind: playbook.Add, Section: "others", Content: seededAdvice}}}
		if _, err := conn.Request(ctx, e, bus.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

const seededAdvice = "Pass the complete address when you change an order."

// teaches reports whether the i-th execution cites the bullet of its book, so that its outcome counts: one in ten does.
func (executionLoad) teaches(i int) bool { return i%10 == 0 }

// execution returns the i-th execution: a run of an outside agent of 1 to 2 KB.
func (f executionLoad) execution(i int) *events.Execution {
	e := &events.Execution{
		Book:  f.book(i),
		RunID: fmt.Sprint("run-", i), Session: fmt.Sprint("session-", i%1000), Question: fmt.Sprintf("Order %d is to have another address.", i),
		Answer: fmt.Sprintf("Order %d has the new address. ", i) + strings.Repeat("It goes out tomorrow. ", 10+i%40), Started: time.Now().UTC(), Duration: time.Second,
	}
	e.ID = events.ExecutionID(e.Book, "", e.RunID, 0)
	look := events.ToolCall{Tool: "get_order", Arguments: fmt.Sprintf(`{"order": %d}`, i), Output: `{"status": "open", "lines": [` + strings.Repeat(`{"article": "A-17", "count": 2}, `, 10) + `]}`}
	e.Steps = []events.Step{{Speaker: "assistant", Text: "I look at the order.", Calls: []events.ToolCall{look}}}
	if !f.teaches(i) {
		return e
	}
	e.Shown, e.Cited = []events.ShownBullet{{ID: "misc-00001", Content: seededAdvice, Experiment: 1}}, []playbook.BulletID{"misc-00001"}
	e.Outcome = events.Outcome{Label: events.Failure, By: "desk"}
	if i%30 != 0 {
		e.Outcome = events.Outcome{Label: events.Success, Score: 1, By: "desk"}
	}
	return e
}

// Limits for the growth of memory after the first fifth. A worker's memory must not grow, apart from garbage. The server's
// memory contains the last written blocks and the message ids of two minutes, which depend on the load. Its index grows with
// each execution and each key of the windows.
const (
	flatFactor, flatSlack = 1.3, 8 << 20
	serverLoad            = 256 << 20
	perExecution          = 100 // bytes
)

func (f executionLoad) checkMemory(t *testing.T, procs []*process, memory [][]int) {
	t.Helper()
	fifth, end := memory[f.parts/5-1], memory[f.parts-1]
	for i, p := range procs {
		grown := end[i] - fifth[i]
		if i == 0 {
			more := f.executions - f.executions/5
			t.Logf("MEMORY | server: grew by %.1f MB for %d executions, %d bytes for each", float64(grown)/1e6, more, grown/more)
			if grown > serverLoad+perExecution*more {
				t.Errorf("server: grew by %d bytes for %d executions, want at most %d and %d for each", grown, more, serverLoad, perExecution)
			}
			continue
		}
		if most := int(flatFactor*float64(fifth[i])) + flatSlack; end[i] > most {
			t.Errorf("%s: %d bytes resident in the end, after the first fifth %d, want at most %d", p.name, end[i], fifth[i], most)
		}
	}
}

// checkOutcome checks that all executions are acknowledged, that each one that cites its bullet has one reflection that is
// covered once, that the bullet counts its outcome once, and that the chains are complete.
func (f executionLoad) checkOutcome(t *testing.T, ctx context.Context, conn *bus.Conn) {
	t.Helper()
	s, err := conn.JetStream().Stream(ctx, events.StreamExecutions)
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.Consumer(ctx, events.RoleReflector)
	if err != nil {
		t.Fatal(err)
	}
	info := c.CachedInfo()
	want := uint64(f.executions + 2*f.books*f.parts)
	if last := s.CachedInfo().State.LastSeq; last != want || info.AckFloor.Stream != last || info.NumPending+uint64(info.NumAckPending) > 0 {
		t.Errorf("%d executions are stored, want %d; acknowledged up to %d, %d wait", last, want, info.AckFloor.Stream, info.NumPending+uint64(info.NumAckPending))
	}
	deltas, reflections := 0, 0
	for i := range f.books {
		book := f.book(i)
		awaitView(t, ctx, conn, book)
		l, err := readOutcome(ctx, conn.JetStream(), book)
		if err != nil {
			t.Fatal(err)
		}
		if l.reflections, err = readAll(ctx, conn.JetStream(), events.StreamReflections, events.KindReflection.Subject(book)); err != nil {
			t.Fatal(err)
		}
		if l.edits, err = readAll(ctx, conn.JetStream(), events.StreamReflections, events.KindEdit.Subject(book)); err != nil {
			t.Fatal(err)
		}
		a := l.check()
		for _, p := range append(a.problems, a.letters...) {
			t.Errorf("%s: %s", book, p)
		}
		if e := a.fold.Bullet("misc-00001").CurrentExperiment(); e.Cited.Count() != len(a.reflected) {
			t.Errorf("%s: the bullet counts %d outcomes of %d reflections", book, e.Cited.Count(), len(a.reflected))
		}
		taught := map[events.ID]bool{}
		for _, r := range a.reflected {
			taught[r.Execution] = true
		}
		for j := i; j < f.executions; j += f.books {
			if id := events.ExecutionID(book, "", fmt.Sprint("run-", j), 0); taught[id] != f.teaches(j) {
				t.Errorf("execution %d: reflected on: %t, want %t", j, taught[id], f.teaches(j))
			}
		}
		deltas, reflections = deltas+len(l.deltas), reflections+len(a.reflected)
	}
	t.Logf("%d executions of %d bytes acknowledged, %d reflections in %d deltas, each covered once", want, s.CachedInfo().State.Bytes/want, reflections, deltas)
}

// residentMemory returns the resident memory of each process in bytes.
func residentMemory(t *testing.T, procs []*process) (all []int) {
	t.Helper()
	for _, p := range procs {
		n, err := residentBytes(p.pid())
		if err != nil {
			t.Skip(err)
		}
		all = append(all, n)
	}
	return all
}

func megabytes(all []int) string {
	text := make([]string, len(all))
	for i, n := range all {
		text[i] = fmt.Sprintf("%.1f", float64(n)/1e6)
	}
	return strings.Join(text, " ")
}
