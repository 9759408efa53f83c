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

// trouble is what a bad wire does to the bytes that it carries, for as long as it lasts.
type trouble int

const (
	calm      trouble = iota
	delayed           // both ways, each piece by a time of its own
	dripping          // a few bytes at a time
	swallowed         // connections are accepted and stay, and nothing gets through
)

const (
	leastDelay, mostDelay = 50 * time.Millisecond, 200 * time.Millisecond
	drop, dropEvery       = 64, 4 * time.Millisecond // 16 KB a second
)

// badWire stands between one worker and the server, knows nothing of what they say, and can be bad in every way in which
// networks are.
type badWire struct {
	url    string // for the worker
	server string // host and port

	mu    sync.Mutex
	now   trouble
	turn  chan struct{} // closed when the trouble changes
	links map[*link]bool
	dials int // connections of the worker, ever
	shut  bool
}

// link is one connection of the worker.
type link struct {
	client, server *net.TCPConn
	gone           chan struct{} // closed when it is over
	once           sync.Once
	dead           bool // under the wire's lock: nothing gets through any more, and nobody is told
}

func (l *link) end() {
	l.once.Do(func() {
		close(l.gone)
		l.client.Close()
		l.server.Close()
	})
}

// stretch lays a wire to a server.
func stretch(t testing.TB, serverURL string) *badWire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &badWire{
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

func (w *badWire) carry(client *net.TCPConn) {
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

// pump carries one direction until its end. A side that only says no more leaves the other direction open.
func (w *badWire) pump(l *link, to, from *net.TCPConn) {
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

// through returns when something can get through, false when nothing ever will.
func (w *badWire) through(l *link) bool {
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
		case <-turn: // it heals: what was on its way arrives after all, as with TCP
		case <-l.gone:
			return false
		}
	}
}

// deliver writes a piece as the trouble of the moment has it, and reports whether it could.
func (w *badWire) deliver(l *link, to *net.TCPConn, piece []byte) bool {
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

// wait is the time that the trouble costs.
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

// turnTo begins another trouble, or ends it with calm.
func (w *badWire) turnTo(now trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = now
	close(w.turn)
	w.turn = make(chan struct{})
}

// each does something to every connection that there is.
func (w *badWire) each(f func(*link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for l := range w.links {
		f(l)
	}
}

// cut resets all connections, in the middle of whatever they carry.
func (w *badWire) cut() {
	w.each(func(l *link) {
		_ = l.client.SetLinger(0) // else it ends in good order
		_ = l.server.SetLinger(0)
		l.end()
	})
}

// halfClose ends one direction of all connections.
func (w *badWire) halfClose(fromServer bool) {
	w.each(func(l *link) {
		if fromServer {
			_ = l.client.CloseWrite() // one that is over is as good
		} else {
			_ = l.server.CloseWrite()
		}
	})
}

// kill makes all connections that there are silent for good, as a middlebox does that has forgotten them. New ones work.
func (w *badWire) kill() { w.each(func(l *link) { l.dead = true }) }

// connected is how often the worker has connected.
func (w *badWire) connected() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}
