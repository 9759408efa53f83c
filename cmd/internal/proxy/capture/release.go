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
	mu    sync.Mutex
	begun bool      // the beginning is stored
	late  bool      // the client was released before the beginning was stored
	held  time.Time // of the first Hold
}

// setBegun records that the beginning is stored. It returns errLate if the client was released before.
func (r *release) setBegun() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.late {
		return errLate
	}
	r.begun = true
	return nil
}

// state reports whether the beginning is stored, and whether the client was released before.
func (r *release) state() (begun, late bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun, r.late
}

// maxHold is the longest time for which a client waits for a busy server.
const maxHold = 2 * time.Second

// Hold reports whether the client should wait longer for the end of Finish, because the server is busy but stores other calls. If
// Hold returns false, the caller releases the client.
func (o *Open) Hold() bool {
	r := &o.release
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held.IsZero() {
		r.held = time.Now()
	}
	if !r.late && o.store.working() && time.Since(r.held) < maxHold {
		return true
	}
	r.late = !r.begun
	return false
}

// Wait waits until the beginning of the call is stored, or until ctx ends. It returns an error if the call is not captured.
func (o *Open) Wait(ctx context.Context) error {
	if err := o.Failed(); err != nil {
		return err
	}
	select {
	case <-o.done:
		return o.Failed()
	case <-ctx.Done():
		return errLate
	}
}

// Failed returns the known error for which the call is not captured, or nil. It may be called during Finish.
func (o *Open) Failed() error {
	if !o.match.run.open() {
		return errClosed
	}
	switch begun, late := o.release.state(); {
	case late:
		return errLate
	case begun:
		return nil
	}
	select {
	case <-o.done:
		if !errors.Is(o.failed, errClosed) { // a run that was closed meanwhile is no error: Finish returns none for it either
			return o.failed
		}
	default:
	}
	return nil
}

// awaitBegin waits until the beginning is stored. If Start has failed to store it, awaitBegin tries once more.
func (o *Open) awaitBegin(ctx context.Context) error {
	select {
	case <-o.done:
	case <-ctx.Done():
		return errLate
	}
	if o.failed == nil {
		return nil
	}
	if _, late := o.release.state(); late {
		return errLate
	}
	ctx, cancel := context.WithTimeout(ctx, finishTimeout)
	defer cancel()
	return o.begin(ctx)
}
