// Package denied turns what a server refuses for want of rights into errors of whoever asked. A server that refuses a
// message says so on the connection, by subject, and to the call that waits for an answer it says nothing: without more
// it would look like a server that is away. A Watch ends the calls that a refusal is about, with an Error that names the
// subject. It decides nothing, and it hears of nothing but its own connection.
package denied

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"
)

// Error says that the server does not let this user publish to a subject, or listen to it.
type Error struct {
	Subject string
	Listen  bool
}

func (e *Error) Error() string {
	if e.Listen {
		return fmt.Sprintf("the server does not let this user subscribe to %q", e.Subject)
	}
	return fmt.Sprintf("the server does not let this user publish to %q", e.Subject)
}

// Watch knows the calls of a connection that are under way. The nil Watch watches nothing.
type Watch struct {
	inbox string // what the connection's inboxes begin with

	mu    sync.Mutex
	calls map[*call]struct{}
}

// call is what wants to hear of refusals that are about it.
type call struct {
	about  []string
	denied func(*Error)
}

// New watches a connection. The handler of errors that it has goes on to hear of everything but the refusals that a call
// returns.
func New(nc *nats.Conn) *Watch {
	w := &Watch{inbox: strings.TrimSuffix(nc.Opts.InboxPrefix, "."), calls: make(map[*call]struct{})}
	if w.inbox == "" {
		w.inbox = strings.TrimSuffix(nats.InboxPrefix, ".")
	}
	before := nc.ErrorHandler()
	nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
		if e := parse(err); e != nil && w.refused(e) {
			return
		}
		if before != nil {
			before(nc, sub, err)
		}
	})
	return w
}

// refusal is the server's text; it gives nothing else.
var refusal = regexp.MustCompile(`(Publish|Subscription) to "([^"]*)"`)

// parse is the refusal that an error of a connection is, nil of others.
func parse(err error) *Error {
	if !errors.Is(err, nats.ErrPermissionViolation) {
		return nil
	}
	m := refusal.FindStringSubmatch(err.Error())
	if m == nil {
		return nil
	}
	return &Error{Subject: m[2], Listen: m[1] == "Subscription"}
}

// refused tells the calls that a refusal is about, and reports whether there are any. Without its inbox no call ever hears
// an answer.
func (w *Watch) refused(e *Error) (told bool) {
	deaf := e.Listen && strings.HasPrefix(e.Subject, w.inbox)
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.calls {
		for _, about := range c.about {
			if deaf || within(about, e.Subject) {
				c.denied(e)
				told = true
				break
			}
		}
	}
	return told
}

// within reports whether the tokens of part stand in a subject, one after the other.
func within(part, subject string) bool {
	return strings.Contains("."+subject+".", "."+part+".")
}

// Notify calls fn for every refusal that is about one of some subjects, until stop is called. A subject may be part of one:
// a stream's name stands for all that is asked about the stream. Fn must not block.
func (w *Watch) Notify(about []string, fn func(*Error)) (stop func()) {
	if w == nil {
		return func() {}
	}
	c := &call{about, fn}
	w.mu.Lock()
	w.calls[c] = struct{}{}
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.calls, c)
		w.mu.Unlock()
	}
}

// Call makes a call about a subject, or part of one as Notify takes it. A refusal ends its context, and Call returns the
// *Error in the place of what the end came to.
func Call[T any](ctx context.Context, w *Watch, about string, fn func(context.Context) (T, error)) (T, error) {
	if w == nil {
		return fn(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.Notify([]string{about}, func(e *Error) { cancel(e) })()
	v, err := fn(ctx)
	var refused *Error
	if err != nil && errors.As(context.Cause(ctx), &refused) {
		err = refused
	}
	return v, err
}

// Do is Call of what returns nothing but an error.
func Do(ctx context.Context, w *Watch, about string, fn func(context.Context) error) error {
	_, err := Call(ctx, w, about, func(ctx context.Context) (struct{}, error) { return struct{}{}, fn(ctx) })
	return err
}
