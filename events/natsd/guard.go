package natsd

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// After a failed write a stream accepts no more messages until the server restarts. The server then sends neither
// replies nor errors to publishers. So the guard prevents a full disk, and restarts the server if a write failed
// anyway:
//
//	free space below the reserve   the store is closed: each publish immediately gets an error from the server
//	a write failed                 the same until there is free space; then the server restarts on the same port
//	free space again               the store is open
//
// Messages are acknowledged only after they are written, so neither case loses a message. Acknowledgements, purges
// and deletions are still possible while the store is closed, because they free space.

const (
	// maxReserve is the free space that is reserved for the server's own files on disks of 512 MiB and more. On
	// smaller disks the reserve is one eighth.
	maxReserve = 64 << 20
	// guardInterval is the interval of the checks. If the reserve fills up in this time, writes fail.
	guardInterval = 100 * time.Millisecond
	// restartInterval is the minimum time between attempts to restart the server.
	restartInterval = time.Second
)

// Reserve returns the free space in bytes below which the store is closed, for a disk of this size.
func Reserve(size uint64) uint64 { return min(maxReserve, size/8) }

// errDisabled means that the server has disabled JetStream, for example because of file permissions.
var errDisabled = errors.New("JetStream is disabled by the server")

// closedError is the reason why the server accepts no new messages.
type closedError struct {
	Dir           string
	Free, Reserve uint64 // bytes
	Err           error  // of the failed write; nil if no write failed
}

func (e *closedError) Error() string {
	text := fmt.Sprintf("the disk of %s has %.1f MiB left, %.1f MiB are reserved: free some space", e.Dir, mib(e.Free), mib(e.Reserve))
	if e.Err != nil {
		text += fmt.Sprintf(" (a write failed: %v)", e.Err)
	}
	return text
}
func (e *closedError) Unwrap() error { return e.Err }

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// guard is the state of the disk guard.
type guard struct {
	mu        sync.Mutex
	closed    *closedError // nil while the store is open
	restarted time.Time    // last attempt to restart the server
	notify    func(error)
}

// Watch calls notify with the reason when the store closes, and with nil when it opens again. The first call
// reports the current state and happens before Watch returns. Later calls come from one goroutine. A second Watch
// replaces the function.
func (s *Server) Watch(notify func(reason error)) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.notify = notify
	notify(s.guard.reason())
}

// runGuard guards the store until the server is closed.
func (s *Server) runGuard() {
	tick := time.NewTicker(guardInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			s.guardStore()
		}
	}
}

// guardStore closes or opens the store, as the free space and the errors of the server require.
func (s *Server) guardStore() {
	g := &s.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	free, size, err := s.disk(s.config.Dir)
	if err != nil {
		free, size = 1<<63, 0 // unknown: failed writes will close the store
	}
	failed := s.log.writeError()
	if failed == nil && !s.srv.Load().JetStreamEnabled() {
		failed = errDisabled
	}
	reason := &closedError{Dir: s.config.Dir, Free: free, Reserve: Reserve(size), Err: failed}
	minFree := reason.Reserve
	if g.closed != nil {
		minFree += minFree / 4 // so that the store does not close again at once
	}
	switch {
	case free < minFree, failed != nil && g.closed == nil:
		s.closeStore(reason)
	case failed != nil: // the store is closed, and there is free space
		s.restart(reason)
	case g.closed != nil:
		s.openStore()
	}
}

// closeStore closes the store, or updates the reason of a closed one.
func (s *Server) closeStore(reason *closedError) {
	g := &s.guard
	if err := s.limit(1); err != nil && s.config.OnError != nil && g.closed == nil {
		s.config.OnError("close the store: " + err.Error())
	}
	g.closed = reason
	g.send()
}

// openStore opens the store.
func (s *Server) openStore() {
	if s.limit(-1) == nil {
		s.guard.closed = nil
		s.guard.send()
	}
}

// reason returns the reason of a closed store, or nil while it is open.
func (g *guard) reason() error {
	if g.closed == nil {
		return nil
	}
	return g.closed
}

func (g *guard) send() {
	if g.notify != nil {
		g.notify(g.reason())
	}
}

// limit sets the maximum size in bytes of the streams. With 1 all new messages are rejected. With -1 only Config.MaxStore applies.
func (s *Server) limit(maxStore int64) error {
	account := s.srv.Load().GlobalAccount()
	if !s.srv.Load().JetStreamEnabled() || !account.JetStreamEnabled() {
		return nil // the server accepts no messages anyway
	}
	return account.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
		MaxMemory: -1, MaxStore: maxStore, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
	}})
}

// restart replaces the server with a new one on the same directory and port, and opens the store. Clients reconnect automatically. After
// a failure the store stays closed, and restart does nothing until restartInterval has passed.
func (s *Server) restart(reason *closedError) {
	if time.Since(s.guard.restarted) < restartInterval {
		return
	}
	s.guard.restarted = time.Now()
	old := s.srv.Load()
	old.Shutdown()
	old.WaitForShutdown()
	s.log.reset()
	if err := s.startNATS(); err != nil {
		reason.Err = err
		s.closeStore(reason)
		return
	}
	s.openStore()
}
