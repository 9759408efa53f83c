package integration

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// networkFault is a fault that a faultyProxy injects.
type networkFault int

const (
	calm      networkFault = iota
	delayed                // in both directions, with a random delay for each chunk
	dripping               // a few bytes at a time
	swallowed              // connections are accepted, but forward no data
)

const (
	leastDelay, mostDelay = 50 * time.Millisecond, 200 * time.Millisecond
	drop, dropEvery       = 64, 4 * time.Millisecond // 16 KB a second
)

// faultyProxy is a TCP proxy between one worker and the server. It injects network faults and does not parse the protocol.
type faultyProxy struct {
	url    string // for the worker
	server string // host and port

	mu    sync.Mutex
	now   networkFault
	turn  chan struct{} // closed when the fault changes
	links map[*link]bool
	dials int // all connections of the worker
	shut  bool
}

// link is one connection of the worker.
type link struct {
	client, server *net.TCPConn
	gone           chan struct{} // closed when the connection ends
	once           sync.Once
	dead           bool // guarded by the proxy's lock: forwards no data, without closing
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.gone)
		l.client.Close()
		l.server.Close()
	})
}

// newFaultyProxy starts a proxy to a server.
func newFaultyProxy(t testing.TB, serverURL string) *faultyProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &faultyProxy{
		url: "nats://" + l.Addr().String(), server: strings.TrimPrefix(serverURL, "nats://"),
		turn: make(chan struct{}), links: map[*link]bool{},
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { w.carry(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.mu.Lock()
		w.shut = true
		for k := range w.links {
			k.end()
		}
		w.mu.Unlock()
		all.Wait()
	})
	return w
}

func (w *faultyProxy) carry(client *net.TCPConn) {
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		client.Close()
		return
	}
	l := &link{client: client, server: server.(*net.TCPConn), gone: make(chan struct{})}
	w.mu.Lock()
	if w.shut {
		l.end()
	}
	w.links[l] = true
	w.dials++
	w.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { w.pump(l, l.server, l.client) })
	both.Go(func() { w.pump(l, l.client, l.server) })
	both.Wait()
	l.end()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

// pump forwards one direction until its end. A half-close leaves the other direction open.
func (w *faultyProxy) pump(l *link, to, from *net.TCPConn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 && !w.deliver(l, to, buf[:n]) {
			l.end()
			return
		}
		if errors.Is(err, io.EOF) && w.through(l) && to.CloseWrite() == nil {
			return
		}
		if err != nil {
			l.end()
			return
		}
	}
}

// through waits until data can be forwarded. It returns false if the connection is dead or closed.
func (w *faultyProxy) through(l *link) bool {
	for {
		w.mu.Lock()
		blocked, turn := w.now == swallowed || l.dead, w.turn
		if l.dead {
			turn = nil
		}
		w.mu.Unlock()
		if !blocked {
			return true
		}
		select {
		case <-turn: // the fault ended: delayed data arrives, as with TCP
		case <-l.gone:
			return false
		}
	}
}

// deliver writes a chunk with the current fault, and reports success.
func (w *faultyProxy) deliver(l *link, to *net.TCPConn, piece []byte) bool {
	for len(piece) > 0 {
		if !w.through(l) {
			return false
		}
		w.mu.Lock()
		now := w.now
		w.mu.Unlock()
		n := len(piece)
		switch now {
		case delayed:
			if !l.wait(leastDelay + rand.N(mostDelay-leastDelay)) {
				return false
			}
		case dripping:
			n = min(n, drop)
			if !l.wait(dropEvery) {
				return false
			}
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return false
		}
		piece = piece[n:]
	}
	return true
}

// wait blocks for a time, and returns false if the connection ends before that.
func (l *link) wait(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-l.gone:
		return false
	case <-t.C:
		return true
	}
}

// setFault sets the fault; calm ends it.
func (w *faultyProxy) setFault(now networkFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
	close(w.turn)
	w.turn = make(chan struct{})
}

// each calls f for every open connection.
func (w *faultyProxy) each(f func(*link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		f(l)
	}
}

// cut resets all connections.
func (w *faultyProxy) cut() {
	w.each(func(l *link) {
		_ = l.client.SetLinger(0) // RST instead of FIN
		_ = l.server.SetLinger(0)
		l.end()
	})
}

// halfClose ends one direction of all connections.
func (w *faultyProxy) halfClose(fromServer bool) {
	w.each(func(l *link) {
		if fromServer {
			_ = l.client.CloseWrite() // may be closed already
		} else {
			_ = l.server.CloseWrite()
		}
	})
}

// kill makes all open connections silent, as a middlebox does that forgets them. New connections work.
func (w *faultyProxy) kill() { w.each(func(l *link) { l.dead = true }) }

// connected returns the number of connections so far.
func (w *faultyProxy) connected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}
