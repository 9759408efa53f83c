package capture

import (
	"context"
	"errors"
	"sync"
	"time"
)

// A client gets the end of a response after the call is stored. If the server is slow, the client is released before that. A call whose
// beginning is not stored when the client is released is not captured: the next call of the client would find no run, or another one, and
// the work would count twice.

// errLate is returned for a call whose beginning was stored too late.
var errLate = errors.New("its beginning was not stored in time")

// release records whether the client of a call was released before its beginning was stored. It is safe for concurrent use.
type release struct {
	mu        sync.Mutex
	stored    bool      // the beginning is stored
	released  bool      // the client was released before the beginning was stored
	firstHold time.Time // of the first Hold
}

// setBegun records that the beginning is stored. It returns errLate if the client was released before.
func (r *release) setBegun() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.released {
		return errLate
	}
	r.stored = true
	return nil
}

// state returns the fields stored and released.
func (r *release) state() (stored, released bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stored, r.released
}

const maxHold = 2 * time.Second // longest time for which a client waits for a busy server

// Hold reports whether the client should wait longer for the end of Finish, because the server is busy but stores other calls. If
// Hold returns false, the caller releases the client.
func (ac *ActiveCall) Hold() bool {
	r := &ac.release
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.firstHold.IsZero() {
		r.firstHold = time.Now()
	}
	if !r.released && ac.store.working() && time.Since(r.firstHold) < maxHold {
		return true
	}
	r.released = !r.stored // a stored beginning makes the release harmless
	return false
}

// Wait waits until the beginning of the call is stored, or until ctx ends. It returns an error if the call is not captured.
func (ac *ActiveCall) Wait(ctx context.Context) error {
	if err := ac.Failed(); err != nil {
		return err
	}
	select {
	case <-ac.done:
		return ac.Failed()
	case <-ctx.Done():
		return errLate
	}
}

// Failed returns the known error for which the call is not captured, or nil. It may be called during Finish.
func (ac *ActiveCall) Failed() error {
	if !ac.match.run.isOpen() {
		return errClosed
	}
	switch stored, released := ac.release.state(); {
	case released:
		return errLate
	case stored:
		return nil
	}
	select {
	case <-ac.done:
		if !errors.Is(ac.failed, errClosed) { // a run that was closed meanwhile is no error: Finish returns none for it either
			return ac.failed
		}
	default:
	}
	return nil
}

// awaitBegin waits until the beginning is stored. If Start has failed to store it, awaitBegin tries once more.
func (ac *ActiveCall) awaitBegin(ctx context.Context) error {
	select {
	case <-ac.done:
	case <-ctx.Done():
		return errLate
	}
	if ac.failed == nil {
		return nil
	}
	if _, released := ac.release.state(); released {
		return errLate
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return ac.storeBeginning(ctx)
}
