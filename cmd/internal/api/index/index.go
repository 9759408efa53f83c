// Package index keeps views of the streams of a server in memory, so that lists and live pages do not read the streams:
//
//   - Executions has the executions that lists find, their results per version and day, and the comparison of the sessions with and
//     without each playbook.
//   - Logs has the logs of the playbooks. Pages about a bullet or an execution read only the deltas that they show.
//   - Books has the playbooks that were read last.
//   - Activity has the newest changes, the health of the roles and the number of dead letters.
//
// One Index follows each stream once and hands each event to its views. Executions can be behind the stream: its method Range and the
// field behind of its results tell how far it is. Logs and Books are never behind, and also work without Run: each request first reads the
// new deltas.
package index

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/cmd/internal/operate/metrics"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/deltalog"
)

// Intervals of following a server.
const (
	readInterval  = 50 * time.Millisecond  // shortest interval of reads while events arrive
	deltaInterval = 250 * time.Millisecond // between reads of deltas
	pollInterval  = time.Second            // between reads of the number of dead letters
	retryDelay    = 2 * time.Second        // after a failed read
)

// Index follows a server. It is safe for concurrent use.
type Index struct {
	Executions *Executions
	Logs       *Logs
	Books      *Books
	Activity   *Activity

	conn *bus.Conn

	// Run sets started, and the other two when it has read the stored executions and playbooks for the first time.
	started, hasExecutions, hasBooks atomic.Bool

	// Only followExecutions uses these.
	readState  jetstream.StreamState // state of the stream of executions, before all of them were read
	nextReread time.Time             // expired messages do not matter before this time

	lastDelta uint64 // last sequence of the stream of deltas that readDeltas has read
}

// New returns an empty index. The table has the prices of models; it may be nil.
func New(conn *bus.Conn, table *metrics.PriceTable) *Index {
	activity := newActivity(conn)
	logs := newLogs(conn, activity)
	return &Index{
		Executions: newExecutions(conn, table), Logs: logs, Books: newBooks(deltalog.New(conn.JetStream()), logs), Activity: activity, conn: conn,
	}
}

// Reading reports whether Run still reads for the first time what is stored, so that requests can take long.
func (x *Index) Reading() bool {
	return x.started.Load() && !(x.hasExecutions.Load() && x.hasBooks.Load())
}

// Run reads what is stored, and then what is new, until the context ends. It continues after failed reads. It must be called once.
func (x *Index) Run(ctx context.Context) {
	defer close(x.Activity.closed)
	x.started.Store(true)
	var group sync.WaitGroup
	for source, follow := range map[string]func(context.Context) error{
		"executions":   x.followExecutions,
		"deltas":       func(ctx context.Context) error { return repeat(ctx, x.readDeltas) },
		"dead letters": func(ctx context.Context) error { return repeat(ctx, x.Activity.countDead) },
		"roles":        func(ctx context.Context) error { return repeat(ctx, x.Activity.sample) },
	} {
		group.Go(func() { x.follow(ctx, source, follow) })
	}
	group.Wait()
}

// follow calls fn until the context ends. After an error it calls fn again, with a delay.
func (x *Index) follow(ctx context.Context, source string, fn func(context.Context) error) {
	for {
		err := fn(ctx)
		if ctx.Err() != nil {
			return
		}
		x.conn.Log().Warn().Err(err).Str("source", source).Msg("follow the server; lists and live pages are behind")
		if events.Sleep(ctx, retryDelay) != nil {
			return
		}
	}
}

// repeat calls fn after each pause that it returns, until it fails or the context ends.
func repeat(ctx context.Context, fn func(context.Context) (time.Duration, error)) error {
	for {
		pause, err := fn(ctx)
		if err != nil {
			return err
		}
		if err := events.Sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// followExecutions reads the stored executions and feedback, and then the new ones. After messages were erased, have expired, or were lost in a
// crash of the server, it reads all again, so that the numbers are those of the stored ones. A call after an error continues, and notices messages that were erased meanwhile.
func (x *Index) followExecutions(ctx context.Context) error {
	if !x.hasExecutions.Load() {
		if err := x.readExecutions(ctx); err != nil {
			return err
		}
	}
	for {
		_, newest := x.Executions.Range()
		err := x.conn.Events.Follow(ctx, events.StreamExecutions, ">", newest+1, readInterval, x.checkExecutions, func(s bus.Stored) error {
			return x.Executions.add(ctx, s)
		})
		if errors.Is(err, errReread) {
			err = x.readExecutions(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// readExecutions reads all stored executions and feedback, for the first time or again.
func (x *Index) readExecutions(ctx context.Context) error {
	began := time.Now()
	state, err := streamState(ctx, x.conn, events.StreamExecutions)
	if err != nil {
		return err
	}
	if x.hasExecutions.Load() {
		err = x.Executions.reread(ctx, state.LastSeq)
	} else {
		err = x.Executions.Read(ctx)
	}
	if err != nil {
		return err
	}
	x.readState = state
	x.nextReread = time.Now().Add(rereadFactor * time.Since(began))
	x.hasExecutions.Store(true)
	return nil
}

// rereadFactor is the shortest time until expired messages make followExecutions read all again, as a multiple of the time that the last
// reading took. Messages may expire all the time, and the factor bounds the load.
const rereadFactor = 100

var errReread = errors.New("executions were erased, lost, or have expired")

// checkExecutions returns errReread if all executions must be read again: messages were erased, the stream has lost its end, or messages have
// expired and it is after nextReread.
func (x *Index) checkExecutions(now bus.Extent) error {
	isErased := now.Deleted > x.readState.NumDeleted
	_, newest := x.Executions.Range()
	isLost := now.Last < max(newest, x.readState.LastSeq) // new messages get the sequences of lost ones
	isExpired := now.First > x.readState.FirstSeq && time.Now().After(x.nextReread)
	if isErased || isLost || isExpired {
		return errReread
	}
	x.readState.LastSeq = now.Last
	x.readState.NumDeleted = now.Deleted // erased messages count until the messages before them have expired
	return nil
}

// readDeltas reads the new deltas of all playbooks. It returns the pause before the next read.
func (x *Index) readDeltas(ctx context.Context) (pause time.Duration, err error) {
	last, err := x.Logs.followAll(ctx, x.lastDelta)
	if err != nil {
		return 0, err
	}
	x.lastDelta = last
	if !x.hasBooks.Load() {
		x.Books.readAll(ctx)
		x.hasBooks.Store(true)
	}
	return deltaInterval, nil
}
