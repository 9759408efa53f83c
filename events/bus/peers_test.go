package bus

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natsd"
	"debrief/playbook"
)

// bookLog records which worker handled each book, and how often each message was handled.
type bookLog struct {
	mu      sync.Mutex
	workers map[playbook.Book]map[int]int // messages by worker
	handled map[uint64]int                // by sequence
}

func (l *bookLog) worker(n int) Worker {
	return Worker{Role: events.RoleGenerator, Slots: 8, Batch: 8, Handle: func(_ context.Context, b []*Delivery) []Result {
		l.mu.Lock()
		defer l.mu.Unlock()
		book := b[0].Event.InBook()
		if l.workers[book] == nil {
			l.workers[book] = make(map[int]int)
		}
		l.workers[book][n] += len(b)
		for _, d := range b {
			l.handled[d.Seq]++
		}
		return answers(b)
	}}
}

func (l *bookLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.workers = make(map[playbook.Book]map[int]int)
}

// owners returns the worker of each book. It fails the test if a book has several.
func (l *bookLog) owners(t *testing.T) map[playbook.Book]int {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	owners := make(map[playbook.Book]int)
	for book, workers := range l.workers {
		if len(workers) != 1 {
			t.Errorf("book %s: messages by worker %v, want one worker", book, workers)
		}
		for n := range workers {
			owners[book] = n
		}
	}
	return owners
}

const peerBooks = 40

// publishToAll publishes messages to each book and waits until all are handled.
func publishToAll(t *testing.T, c *Conn, round, each int) {
	t.Helper()
	for i := range peerBooks * each {
		publish(t, c, task(playbook.Book(fmt.Sprint("book-", i%peerBooks)), round*10_000+i))
	}
	awaitIdle(t, c, events.RoleGenerator)
}

func TestProcessesDivideTheBooks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	policy := fastPolicy
	policy.AckWait = 2 * time.Second
	s := serve(t, natsd.Config{})
	log := &bookLog{handled: make(map[uint64]int)}
	log.reset()
	var running []*runningWorker
	conns := make([]*Conn, 3)
	for n := range conns {
		conns[n] = open(t, s, policy)
		running = append(running, start(t, conns[n], log.worker(n)))
	}
	c := open(t, s, policy)
	time.Sleep(500 * time.Millisecond) // they hear each other at once; before, a book can have two workers
	publishToAll(t, c, 1, 5)
	three := log.owners(t)
	if got := slices.Sorted(maps.Values(three)); len(slices.Compact(got)) != 3 || len(three) != peerBooks {
		t.Errorf("%d of %d books, workers %v: want books for each of three", len(three), peerBooks, got)
	}

	running[2].stop()
	running[2].wait()
	log.reset()
	publishToAll(t, c, 2, 5)
	two := log.owners(t)
	for book, n := range two {
		if n == 2 || three[book] != 2 && three[book] != n {
			t.Errorf("book %s: worker %d after %d, want no change but for the books of the stopped one", book, n, three[book])
		}
	}

	conns[1].NATS().Close() // dies without a word
	log.reset()
	publishToAll(t, c, 3, 5)
	time.Sleep(peerTimeout + 100*time.Millisecond)
	log.reset()
	publishToAll(t, c, 4, 1)
	for book, n := range log.owners(t) {
		if n != 0 {
			t.Errorf("book %s: worker %d, want the only one left", book, n)
		}
	}
	if want := peerBooks * (5 + 5 + 5 + 1); len(log.handled) != want {
		t.Errorf("%d messages were handled, want %d", len(log.handled), want)
	}
}

// TestProcessWithoutAConnectionIsForgotten: the server answers a forwarded message that no process receives. Without that answer
// this process would forward messages until peerTimeout.
func TestProcessWithoutAConnectionIsForgotten(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	p := newPeers(&runner{conn: c, worker: Worker{Role: events.RoleCurator}, log: c.log}, func(jetstream.Msg) {})
	if err := p.join(); err != nil {
		t.Fatal(err)
	}
	defer p.leave()
	isHeard := func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.heard) > 0
	}
	p.mu.Lock()
	p.heard["dead"] = time.Now().Add(time.Hour)
	p.mu.Unlock()
	p.forward("dead", []jetstream.Msg{forwardedMsg{&nats.Msg{Subject: events.KindReflection.Subject("b"), Data: []byte("x")}}})
	for began := time.Now(); isHeard(); time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("the process without a connection still owns books")
		}
	}
}

// TestStoppingProcessIsNotPresent: a process that starts asks all others to announce themselves. One that stops must not do so, or the new
// process would forward messages to it.
func TestStoppingProcessIsNotPresent(t *testing.T) {
	t.Parallel()
	c := connectNew(t, fastPolicy)
	p := newPeers(&runner{conn: c, worker: Worker{Role: events.RoleCurator}, log: c.log}, func(jetstream.Msg) {})
	if err := p.join(); err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	p.heard["other"] = time.Now() // else leave does not wait
	p.mu.Unlock()
	subject := events.PeerSubject(events.RoleCurator, "")
	sub, err := c.nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		p.leave()
		close(ended)
	}()
	hasLeft := false
	for {
		m, err := sub.NextMsg(2 * leaveWait)
		if err != nil {
			break // no other announcement
		}
		switch {
		case string(m.Data[1:]) != p.id:
		case m.Data[0] == left:
			hasLeft = true
			if err := c.nc.Publish(subject, []byte{arrived, 'n', 'e', 'w'}); err != nil {
				t.Fatal(err)
			}
		case hasLeft:
			t.Errorf("got the announcement %q after the process has left", m.Data)
		}
	}
	if !hasLeft {
		t.Error("the process has not announced that it leaves")
	}
	<-ended
}

// TestOwnersOfBooksAreEven: new books have owners by their hash alone, and known books have them in equal parts.
func TestOwnersOfBooksAreEven(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		known       int // of 4000 books
		least, most int // books of a process
	}{
		{name: "new books", known: 0, least: 850, most: 1150}, // five standard deviations of a binomial distribution
		{name: "known books", known: 4000, least: 1000, most: 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := peersOf(4, c.known)
			books := make(map[string]int)
			for _, book := range bookNames(4000) {
				books[p.owner(string(book))]++
			}
			for id, n := range books {
				if n < c.least || n > c.most {
					t.Errorf("process %s owns %d of 4000 books, want %d to %d", id, n, c.least, c.most)
				}
			}
		})
	}
}

// TestFewBooksChangeTheirOwner: with 100 known books, a new book and a new process leave most books where they were.
func TestFewBooksChangeTheirOwner(t *testing.T) {
	t.Parallel()
	before := peersOf(4, 100)
	for _, c := range []struct {
		name             string
		processes, books int
		most             int // moved of 100
	}{
		{name: "new book", processes: 4, books: 101, most: 8},
		{name: "new process", processes: 5, books: 100, most: 35}, // it gets 20 itself
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			after, moved := peersOf(c.processes, c.books), 0
			for _, book := range bookNames(100) {
				if before.owner(string(book)) != after.owner(string(book)) {
					moved++
				}
			}
			if moved > c.most {
				t.Errorf("%d of 100 books changed their owner, want at most %d", moved, c.most)
			}
		})
	}
}

// peersOf returns a process that hears others, so that there are n, and that knows books.
func peersOf(n, known int) *peers {
	books := bookNames(known)
	slices.Sort(books)
	p := newPeers(&runner{worker: Worker{Books: func() []playbook.Book { return books }}}, nil)
	p.id = "this process"
	for i := range n - 1 {
		p.heard[fmt.Sprint("process-", i)] = time.Now().Add(time.Hour) // stays
	}
	p.readBooks()
	return p
}

func bookNames(n int) (names []playbook.Book) {
	for i := range n {
		names = append(names, playbook.Book(fmt.Sprint("book-", i)))
	}
	return names
}
