package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/train/report"
	"debrief/curator"
	"debrief/events"
	"debrief/events/blob"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/generator"
	"debrief/reflector"
)

// TestDeadLetteredCopyEndsSample: an execution is dead-lettered after crashes, and its second copy with a reason.
func TestDeadLetteredCopyEndsSample(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	e := &events.Execution{
		Book: "r",
		ID:   events.ExecutionID("r", "", "e001/a", 0), RunID: "e001/a", Question: "?", Answer: "!", Model: "m", Purpose: events.Learn,
		Origin: events.Origin{Run: "r", Held: true},
	}
	if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := openSubmitter(t.Context(), conn, "r", Options{Name: "r"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.tracker.close()
	deadLetter := func(seq uint64, code events.DeadCode) {
		subject, header, data, err := events.Encode(e)
		if err != nil {
			t.Fatal(err)
		}
		header[nats.MsgIdHdr] = []string{string(e.ID) + "~7"}
		letter := &events.DeadLetter{
			Role: events.RoleReflector, Reason: "it is bad", Stream: events.StreamExecutions, Seq: seq, Subject: subject, Header: header, Data: data,
			Time: time.Now(), Code: code,
		}
		if err := conn.DeadLetters.Store(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
	deadLetter(1, events.DeadAttempts)
	deadLetter(2, events.DeadError)
	task := events.Task{Book: "r", ID: "e001/a", Question: "?", Origin: events.Origin{Run: "r", Held: true}}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	results, err := s.run(ctx, []events.Task{task}, func(int) {})
	if err != nil || !strings.Contains(results[0].lostReason, "it is bad") {
		t.Errorf("got %+v, %v", results, err)
	}
}

// TestUnreachableStoredAnswer: the payload of a stored answer cannot be read for a time. A tracker that left it out would wait for it for ever.
func TestUnreachableStoredAnswer(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	e := &events.Execution{
		Book: "r",
		ID:   events.ExecutionID("r", "", "e001/a", 0), RunID: "e001/a", Question: "?", Answer: strings.Repeat("a", bus.MaxInline+1), Purpose: events.Learn,
		Origin: events.Origin{Run: "r"},
	}
	if _, err := conn.Publish(t.Context(), e, bus.PublishOptions{}); err != nil {
		t.Fatal(err)
	}
	blobs, err := conn.JetStream().Stream(t.Context(), blob.Stream)
	if err != nil {
		t.Fatal(err)
	}
	cfg := blobs.CachedInfo().Config
	cfg.AllowDirect = false
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	tr, err := openTracker(t.Context(), conn, "r", 0, Options{Name: "r"})
	if err == nil {
		tr.close()
	}
	if !bus.Unreachable(err) {
		t.Errorf("got %v", err)
	}
}

// TestLargeTaskIsLost has a task whose payload is not in the dead letter.
func TestLargeTaskIsLost(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	s.Train.Tasks = append([]events.Task(nil), s.Train.Tasks...)
	s.Train.Tasks[3].Context = strings.Repeat("a long story. ", bus.MaxInline/10)
	h := open(t, 8, func(p chat.Prompt) error {
		for _, m := range p.Messages {
			if p.Name == events.RoleGenerator && strings.Contains(m.Text, "a long story") {
				return errors.New("no")
			}
		}
		return nil
	})
	rep := h.run(Config{Batch: 16}, s, Options{Name: "r"}).Report
	if len(rep.Losses) != 1 || rep.Losses[0].Sample != s.Train.Tasks[3].ID || rep.Epochs[0].Train.N != 15 {
		t.Errorf("losses %+v, training %+v", rep.Losses, rep.Epochs[0].Train)
	}
}

// TestDeadLetteredGatheringIsRequestedOnResume dead-letters a gathering edit and runs the same command again.
func TestDeadLetteredGatheringIsRequestedOnResume(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	h := open(t, 8, nil)
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	deadLetterEdit(t, h.conn, &events.Edit{ID: events.Hash("gather", "r", "1", "0"), Author: author, Rebuild: true, Created: time.Now()}, 1, events.DeadError)
	if rep := h.run(Config{Batch: 16}, s, Options{Name: "r"}).Report; rep.Final.Version == 0 {
		t.Errorf("nothing was learned: %+v", rep.Final)
	}
}

func deadLetterEdit(t *testing.T, conn *bus.Conn, e *events.Edit, seq uint64, code events.DeadCode) {
	t.Helper()
	e.Book = "r"
	subject, header, data, err := events.Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	header[nats.MsgIdHdr] = []string{string(e.ID)}
	letter := &events.DeadLetter{
		Role: events.RoleCurator, Reason: "no worker finished it", Stream: events.StreamReflections, Seq: seq, Subject: subject, Header: header, Data: data,
		Time: time.Now(), Code: code,
	}
	if err := conn.DeadLetters.Store(t.Context(), letter); err != nil {
		t.Fatal(err)
	}
}

// replyTo returns the reply subject of a stored edit.
func replyTo(ctx context.Context, conn *bus.Conn, seq uint64) (string, error) {
	s, err := conn.JetStream().Stream(ctx, events.StreamReflections)
	if err != nil {
		return "", err
	}
	m, err := s.GetMsg(ctx, seq)
	if err != nil {
		return "", err
	}
	return m.Header.Get(events.HeaderReply), nil
}

// TestRunSurvivesCuratorCrashes: the reply says that no curator finished the edit, and the run submits it again.
func TestRunSurvivesCuratorCrashes(t *testing.T) {
	t.Parallel()
	h := open(t, 8, nil)
	h.stop()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() {
		done <- program.Run(ctx, h.conn, bustest.Must(generator.New(h.asked, nil, generator.Config{})), bustest.Must(reflector.New(h.asked, reflector.Config{})))
	}()
	go func() { // in place of five curators
		err := h.conn.Events.Poll(ctx, events.StreamReflections, events.KindEdit.Subject("r"), 0, time.Millisecond, func(st bus.Stored) error {
			e := st.Event.(*events.Edit)
			to, err := replyTo(ctx, h.conn, st.Seq)
			if err != nil {
				return err
			}
			deadLetterEdit(t, h.conn, e, st.Seq, events.DeadAttempts)
			if err := h.conn.NATS().PublishMsg(&nats.Msg{Subject: to, Header: nats.Header{events.HeaderError: {"no worker finished it"}}}); err != nil {
				return err
			}
			return bus.ErrStop
		})
		if err == nil {
			err = program.Run(ctx, h.conn, bustest.Must(curator.New(h.asked, curator.Config{})))
		}
		done <- err
	}()
	s := sets(16, 4)
	s.Validation, s.Test = nil, nil
	if rep := h.run(Config{Batch: 16}, s, Options{Name: "r"}).Report; rep.Final.Version == 0 {
		t.Errorf("nothing was learned: %+v", rep.Final)
	}
	stop()
	for range 2 {
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
}

// TestUsageOfCopies checks that the usage of an execution and of a reflection counts for each stored copy: each copy needed calls of the model.
func TestUsageOfCopies(t *testing.T) {
	t.Parallel()
	tr := &tracker{changed: make(chan struct{}), answers: map[events.ID]*answer{}, reflected: map[events.ID]events.Handle{}}
	used := chat.Usage{Calls: 1, InputTokens: 100, OutputTokens: 10}
	for seq := range uint64(2) {
		tr.addExecution(bus.Stored{Seq: seq + 1, Event: &events.Execution{ID: "e", Usage: used}})
		tr.addReflection(bus.Stored{Seq: seq + 1, Event: &events.Reflection{ID: "r", Execution: "e", Usage: used}})
	}
	got := tr.usage()
	if want := (report.Usage{Calls: 2, InputTokens: 200, OutputTokens: 20}); got.generator != want || got.reflector != want {
		t.Errorf("got %+v of the generator and %+v of the reflector, want %+v of each", got.generator, got.reflector, want)
	}
	if len(tr.answers) != 1 || tr.reflectionOn("e") != events.NewHandle(1, "r") {
		t.Errorf("got %d answers and the reflection %s, want the first copies", len(tr.answers), tr.reflectionOn("e"))
	}
}
