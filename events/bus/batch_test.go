package bus

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/playbook"
)

func answers(b []*Delivery) (out []Result) {
	for _, d := range b {
		out = append(out, answer(d))
	}
	return out
}

func TestWaitingMessagesOfABookAreOneBatch(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	p := fastPolicy
	p.Linger = time.Second // messages may still be in transit when the first batch ends
	c := connectNew(t, p)
	sizes, release := make(chan int, 99), make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Batch: 8, Handle: func(_ context.Context, b []*Delivery) []Result {
		sizes <- len(b)
		for i := 1; i < len(b); i++ {
			if b[i].Seq <= b[i-1].Seq {
				t.Errorf("sequence %d comes after %d", b[i].Seq, b[i-1].Seq)
			}
		}
		<-release
		return answers(b)
	}})
	publish(t, c, task("main", 1))
	if n := within(t, sizes, "no first batch"); n != 1 {
		t.Errorf("first batch: got %d, want 1", n)
	}
	for i := range 12 {
		publish(t, c, task("main", i+2))
	}
	eventually(t, "all are held", func() bool { return lag(t, c, events.RoleGenerator).InFlight == 13 })
	close(release)
	if a, b := within(t, sizes, "no second batch"), within(t, sizes, "no third batch"); a != 8 || b != 4 {
		t.Errorf("got batches of %d and %d, want the most, 8, and the other 4", a, b)
	}
	await(t, c, events.StreamExecutions, 13)
	awaitIdle(t, c, events.RoleGenerator)
}

func TestSlowBookDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	begun, release := make(chan struct{}), make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Slots: 2, Batch: 4, Handle: func(_ context.Context, b []*Delivery) []Result {
		if b[0].Event.InBook() == "slow" {
			close(begun)
			<-release
		}
		return answers(b)
	}})
	publish(t, c, task("slow", 1))
	within(t, begun, "not begun")
	for i := range 20 {
		publish(t, c, task(playbook.Book(fmt.Sprint("book", i%4)), i))
	}
	await(t, c, events.StreamExecutions, 20)
	eventually(t, "only the slow one is left", func() bool { return lag(t, c, events.RoleGenerator).InFlight == 1 })
	close(release)
	await(t, c, events.StreamExecutions, 21)
}

func TestBookHasOneBatchAtATime(t *testing.T) {
	t.Parallel()
	p := fastPolicy
	p.Linger = 1 // queues end as often as possible while messages arrive
	c := connectNew(t, p)
	const books, each = 5, 120
	var busy [books]atomic.Int32
	var mu sync.Mutex
	last := map[playbook.Book]uint64{}
	var seen deliveryCounter
	start(t, c, Worker{Role: events.RoleGenerator, Slots: books, Batch: 6, Handle: func(_ context.Context, b []*Delivery) []Result {
		book := b[0].Event.InBook()
		n := int(book[0] - 'a')
		if busy[n].Add(1) != 1 {
			t.Errorf("book %s has two batches at once", book)
		}
		defer busy[n].Add(-1)
		mu.Lock()
		defer mu.Unlock()
		for _, d := range b {
			if d.Event.InBook() != book {
				t.Errorf("a batch of %s holds an event of %s", book, d.Event.InBook())
			}
			if d.Seq <= last[book] {
				t.Errorf("book %s: %d after %d", book, d.Seq, last[book])
			}
			last[book] = d.Seq
			seen.add(d.Seq)
		}
		return answers(b)
	}})
	for i := range books * each {
		publish(t, c, task(playbook.Book(rune('a'+i%books)), i))
	}
	await(t, c, events.StreamExecutions, books*each)
	awaitIdle(t, c, events.RoleGenerator)
	if got := seen.repeated(); len(got) > 0 {
		t.Errorf("handled again: %v", got)
	}
}

func TestBatchItemsHaveTheirOwnDisposition(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	publishTasks(t, c, "main", 5)
	var mu sync.Mutex
	attempts := map[string]int{}
	start(t, c, Worker{Role: events.RoleGenerator, Batch: 8, Handle: func(_ context.Context, b []*Delivery) (out []Result) {
		mu.Lock()
		defer mu.Unlock()
		for _, d := range b {
			id := d.Event.(*events.Task).ID
			attempts[id]++
			switch {
			case id == "task-0":
				out = append(out, Result{Err: Discard(errHandler)})
			case id == "task-1" && attempts[id] == 1:
				out = append(out, Result{Err: errHandler})
			case id == "task-2" && attempts[id] == 1:
				out = append(out, Result{Err: unavailableError{}})
			default:
				out = append(out, answer(d))
			}
		}
		return out
	}})
	await(t, c, events.StreamExecutions, 4)
	awaitIdle(t, c, events.RoleGenerator)
	if l := letters(t, c, 1)[0]; l.Seq != 1 || count(t, c, events.StreamDead) != 1 {
		t.Errorf("got %+v", l)
	}
	if got, want := fmt.Sprint(attempts), "map[task-0:1 task-1:2 task-2:2 task-3:1 task-4:1]"; got != want {
		t.Errorf("got attempts %s, want %s", got, want)
	}
}

func TestBatchingWorkerLimitsHeldMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	p := fastPolicy
	p.MaxAckPending = 2 * maxInProgress
	c := connectNew(t, p)
	const n = maxInProgress + 300
	release := make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Batch: 256, Handle: func(_ context.Context, b []*Delivery) []Result {
		<-release
		return make([]Result, len(b))
	}})
	for i := range n {
		subject, header, data, err := events.Encode(task("main", i))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.js.PublishMsgAsync(&nats.Msg{Subject: subject, Header: header, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	within(t, c.js.PublishAsyncComplete(), "not published")
	eventually(t, "it is full", func() bool {
		i := info(t, c, events.RoleGenerator)
		return i.NumWaiting == 0 && i.NumAckPending > maxInProgress-2*256
	})
	if l := lag(t, c, events.RoleGenerator); l.InFlight > maxInProgress || l.InFlight+int(l.Pending) != n {
		t.Errorf("got %+v, want at most %d in flight", l, maxInProgress)
	}
	close(release)
	awaitIdle(t, c, events.RoleGenerator)
	if i := info(t, c, events.RoleGenerator); i.Delivered.Consumer != n {
		t.Errorf("got %d deliveries of %d", i.Delivered.Consumer, n)
	}
}

func TestBatchingWorkerLimitsHeldBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	c := connectNew(t, fastPolicy)
	const size, batch = 400 << 10, 16
	const n = 2 * maxBytesInProgress / size
	release := make(chan struct{})
	start(t, c, Worker{Role: events.RoleGenerator, Batch: batch, Handle: func(_ context.Context, b []*Delivery) []Result {
		<-release
		return make([]Result, len(b))
	}})
	for i := range n {
		e := task("main", i)
		e.Question = strings.Repeat("x", size)
		publish(t, c, e)
	}
	eventually(t, "it is full", func() bool {
		i := info(t, c, events.RoleGenerator)
		return i.NumWaiting == 0 && i.NumAckPending > maxBytesInProgress/size
	})
	if l := lag(t, c, events.RoleGenerator); l.InFlight > maxBytesInProgress/size+batch || l.InFlight+int(l.Pending) != n {
		t.Errorf("got %+v, want at most %d of %d in flight", l, maxBytesInProgress/size+batch, n)
	}
	close(release)
	awaitIdle(t, c, events.RoleGenerator)
	if i := info(t, c, events.RoleGenerator); i.Delivered.Consumer != n {
		t.Errorf("got %d deliveries of %d", i.Delivered.Consumer, n)
	}
}
