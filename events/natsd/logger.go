package natsd

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"
)

// logger implements the logger of nats-server. It keeps the first fatal error, which makes Start fail, forwards
// errors, and drops all other messages.
type logger struct {
	onError func(string)

	mu       sync.Mutex
	fatalErr error // the first fatal error
	writeErr error // the first error of a write
}

// writeError returns the error of the first failed write, or nil.
func (l *logger) writeError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.writeErr
}

// reset clears the errors of the previous server.
func (l *logger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fatalErr, l.writeErr = nil, nil
}

func (l *logger) fatalError() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fatalErr
}

func (l *logger) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fatalErr != nil {
		return
	}
	l.fatalErr = fmt.Errorf("start server: "+format, args...)
	for _, a := range args {
		// An error among the arguments says enough without the rest of the line, for example "listen tcp 127.0.0.1:4222: bind:
		// address already in use".
		if err, ok := a.(error); ok {
			l.fatalErr = fmt.Errorf("start server: %w", err)
		}
	}
}

func (l *logger) Errorf(format string, args ...any) {
	if err := writeFailure(args); err != nil {
		l.mu.Lock()
		if l.writeErr == nil {
			l.writeErr = err
		}
		l.mu.Unlock()
	}
	if l.onError != nil {
		l.onError(fmt.Sprintf(format, args...))
	}
}

// writeFailure returns the error of a failed write from the arguments of a log line, or nil.
func writeFailure(args []any) error {
	for _, a := range args {
		err, ok := a.(error)
		var file *fs.PathError
		if !ok || !errors.As(err, &file) {
			continue
		}
		if file.Op != "read" && !errors.Is(err, fs.ErrNotExist) { // only a failed write stops a stream
			return err
		}
	}
	return nil
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Warnf(string, ...any)   {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}
