package natserr

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// DeniedError is returned when the server denies this user a publish, or a subscription if Subscribe is set.
type DeniedError struct {
	Subject   string
	Subscribe bool
}

func (e *DeniedError) Error() string {
	if e.Subscribe {
		return fmt.Sprintf("permission denied: subscribe to %q", e.Subject)
	}
	return fmt.Sprintf("permission denied: publish to %q", e.Subject)
}

// IsDenied reports whether err is, or wraps, a *DeniedError.
func IsDenied(err error) bool {
	_, ok := errors.AsType[*DeniedError](err)
	return ok
}

// Watch gives permission errors of a connection to the calls in progress that caused them. With a nil Watch, Call and Do work, but
// get no permission errors.
type Watch struct {
	inbox string // prefix of the connection's inboxes

	mu        sync.Mutex
	listeners map[*listener]struct{}
	// deniedInbox is the id of the client whose inbox the server denied. A listener got that error, so later ones of this client are dropped.
	deniedInbox uint64
}

// listener is a call of Notify. denied is called for every permission error with one of the subjects.
type listener struct {
	subjects []string
	denied   func(*DeniedError)
}

// NewWatch returns a Watch of a connection. The connection's error handler still gets all errors, except those that a listener gets
// and those that follow a denied inbox.
func NewWatch(nc *nats.Conn) *Watch {
	w := &Watch{inbox: strings.TrimSuffix(nc.Opts.InboxPrefix, "."), listeners: make(map[*listener]struct{})}
	if w.inbox == "" {
		w.inbox = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if e := parseError(err); e != nil {
			id, _ := nc.GetClientID() // 0 if the server does not tell
			if w.notify(e, id) {
				return
			}
		}
		if before != nil {
			before(nc, sub, err)
		}
	})
	return w
}

// deniedPattern matches the server's text, because the client has no other source for the subject.
var deniedPattern = regexp.MustCompile(`(Publish|Subscription) to "([^"]*)"`)

// parseError returns the permission error in an error of a connection, or nil.
func parseError(err error) *DeniedError {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := deniedPattern.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &DeniedError{Subject: m[2], Subscribe: m[1] == "Subscription"}
}

// notify passes an error of a client to the listeners that it affects, and reports whether there are any. A denied
// subscription to the inbox affects all listeners, because no call can get an answer. The server then often denies the
// request of the same call too, when its listener is gone: notify reports true for such errors, so that a call logs nothing
// beside its error.
func (w *Watch) notify(e *DeniedError, client uint64) (notified bool) {
	affectsAll := e.Subscribe && strings.HasPrefix(e.Subject, w.inbox)
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.listeners {
		if affectsAll || slices.ContainsFunc(l.subjects, func(part string) bool { return hasTokens(part, e.Subject) }) {
			l.denied(e)
			notified = true
		}
	}
	if affectsAll && notified {
		w.deniedInbox = client
	}
	return notified || client != 0 && client == w.deniedInbox
}

// hasTokens reports whether the tokens of part are consecutive tokens of subject.
func hasTokens(part, subject string) bool {
	return strings.Contains("."+subject+".", "."+part+".")
}

// Notify calls fn for every permission error with one of the subjects, until stop is called. A subject may be a part of
// the denied one: the name of a stream matches all requests about that stream. Fn must not block.
func (w *Watch) Notify(subjects []string, fn func(*DeniedError)) (stop func()) {
	if w == nil {
		return func() {}
	}
	l := &listener{subjects, fn}
	w.mu.Lock()
	w.listeners[l] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.listeners, l)
		w.mu.Unlock()
	}
}

// Call calls fn. A permission error with the subject, or a part of one as in Notify, cancels the context of fn. Then
// Call returns the *DeniedError instead of the error of fn.
func Call[T any](ctx context.Context, w *Watch, subject string, fn func(context.Context) (T, error)) (T, error) {
	if w == nil {
		return fn(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.Notify([]string{subject}, func(e *DeniedError) { cancel(e) })()
	v, err := fn(ctx)
	if refused, ok := errors.AsType[*DeniedError](context.Cause(ctx)); ok && err != nil {
		err = refused
	}
	return v, err
}

// Do is Call for a function that returns only an error.
func Do(ctx context.Context, w *Watch, subject string, fn func(context.Context) error) error {
	_, err := Call(ctx, w, subject, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}
