package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// A stream whose write failed takes nothing any more, for as long as the server runs: the server answers no publisher, and
// reports no error to a client. So the guard keeps the disk from filling up, and restarts the server if it did:
//
//	free space under the reserve   the store is closed: every publish gets an error of the server's at once
//	a write failed                 the same, until there is room; then the server restarts on the same port
//	room again                     the store is open
//
// Messages are acknowledged only after their write, so neither loses one. Acknowledgements, purges and deletions go on while
// the store is closed: they are how room is made.

const (
	// maxReserve is the free space that is kept for the server's own files, on disks of 512 MiB and more. On smaller ones it
	// is an eighth.
	maxReserve = 64 << 20
	// guardEvery is how often the guard looks. A disk that fills faster than the reserve in that time makes writes fail.
	guardEvery = 100 * time.Millisecond
	// restartEvery is how often the start of a server is tried again that failed.
	restartEvery = time.Second
)

// Reserve is the free space under which the store is closed on a disk of this size, in bytes.
func Reserve(size uint64) uint64 { return min(maxReserve, size/8) }

// errDisabled is the failure of a server that has given up its streams, such as over rights to its files.
var errDisabled = errors.New("the server has disabled JetStream")

// ClosedError says why the server takes nothing new.
type ClosedError struct {
	Dir           string
	Free, Reserve uint64 // bytes
	Err           error  // of the write that failed; nil when none did
}

func (e *ClosedError) Error() string {
	text := fmt.Sprintf("the disk of %s has %.1f MiB left, and %.1f MiB are reserved: free some space", e.Dir, mib(e.Free), mib(e.Reserve))
	if e.Err != nil {
		text += fmt.Sprintf(" (a write failed: %v)", e.Err)
	}
	return text
}
func (e *ClosedError) Unwrap() error { return e.Err }

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// Watch calls told with the reason when the store closes, and with nil when it opens again. The first call, before Watch
// returns, has the present state; the others come from one goroutine. A second Watch replaces the function.
func (s *Server) Watch(told func(why error)) {
	s.guard.mu.Lock()
	defer s.guard.mu.Unlock()
	s.guard.told = told
	told(s.guard.reason())
}

// watch guards the store until the server is closed.
func (s *Server) watch() {
	defer close(s.guarded)
	tick := time.NewTicker(guardEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.closed:
			return
		case <-tick.C:
			s.look()
		}
	}
}

// look closes the store or opens it again.
func (s *Server) look() {
	g := &s.guard
	g.mu.Lock()
	defer g.mu.Unlock()
	free, size, err := s.disk(s.config.Dir)
	if err != nil {
		free, size = 1<<63, 0 // unknown: writes that fail tell
	}
	keep := Reserve(size)
	if g.closed != nil {
		keep += keep / 4 // so that it does not close again at once
	}
	failed := s.log.failed()
	if failed == nil && !s.srv.Load().JetStreamEnabled() {
		failed = errDisabled
	}
	switch low := free < keep; {
	case low || failed != nil && g.closed == nil:
		s.shut(&ClosedError{s.config.Dir, free, Reserve(size), failed})
	case failed != nil:
		if time.Since(g.tried) < restartEvery {
			return
		}
		g.tried = time.Now()
		if err := s.restart(); err != nil {
			s.shut(&ClosedError{s.config.Dir, free, Reserve(size), err})
			return
		}
		s.open()
	case g.closed != nil:
		s.open()
	}
}

// shut closes the store, or updates the reason of a closed one.
func (s *Server) shut(why *ClosedError) {
	g := &s.guard
	if err := s.limit(1); err != nil && s.config.OnError != nil && g.closed == nil {
		s.config.OnError("close the store: " + err.Error())
	}
	g.closed = why
	g.tell()
}

// open opens the store.
func (s *Server) open() {
	if s.limit(-1) == nil {
		s.guard.closed = nil
		s.guard.tell()
	}
}

// reason is why the store is closed, nil while it is open.
func (g *guard) reason() error {
	if g.closed == nil {
		return nil
	}
	return g.closed
}

func (g *guard) tell() {
	if g.told != nil {
		g.told(g.reason())
	}
}

// limit sets how many bytes the streams of every account may take: 1 refuses all that is new, -1 is the server's own limit.
func (s *Server) limit(store int64) error {
	srv := s.srv.Load()
	if !srv.JetStreamEnabled() {
		return nil // it failed as a whole, and takes nothing
	}
	accounts := s.config.options().Accounts
	if len(accounts) == 0 {
		accounts = []*server.Account{srv.GlobalAccount()}
	}
	var errs []error
	for _, a := range accounts {
		if a, err := srv.LookupAccount(a.Name); err == nil && a.JetStreamEnabled() {
			errs = append(errs, a.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {
				MaxMemory: -1, MaxStore: store, MaxStreams: -1, MaxConsumers: -1, MaxAckPending: -1, MemoryMaxStreamBytes: -1, StoreMaxStreamBytes: -1,
			}}))
		}
	}
	return errors.Join(errs...)
}

// restart replaces the server by a new one on the same directory and port. Connections reconnect by themselves.
func (s *Server) restart() error {
	old := s.srv.Load()
	old.Shutdown()
	old.WaitForShutdown()
	s.log.reset()
	return s.run()
}

// failure returns the error of a failed file operation among the arguments of a log line, else nil.
func failure(args []any) error {
	for _, a := range args {
		var file *fs.PathError
		if err, ok := a.(error); ok && errors.As(err, &file) && file.Op != "read" && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
