package integration

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
)

// crashPoint is a step of a curator's commit that is recognisable in its messages. The proxy kills the process there. The
// programs contain no code for this.
type crashPoint struct {
	name string
	sent func(*frame) bool
	when moment
}

// moment is the time at which a crash point strikes, relative to the message.
type moment int

const (
	instead  moment = iota // the message is not forwarded
	after                  // after the message was forwarded
	answered               // after the server's reply, which is not forwarded
	frozen                 // before the message is forwarded: the process is stopped and continues later
)

// crashPoints are the crash points of the Curator's commit.
var crashPoints = []crashPoint{
	{"before the delta", isDelta, instead},
	{"after the delta", isDelta, answered},
	midChange,
	{"before the ack", isAck, instead},
	{"after the ack", isAck, after},
	midBatch,
	{"before the view", isHead, instead},
	{"after the view", isHead, answered},
}

// frozenAtDelta freezes a curator before it sends a delta, until other curators have its messages.
var frozenAtDelta = crashPoint{"frozen at the delta", isDelta, frozen}

// midChange is between the deltas of a change that is too large for one.
var midChange = crashPoint{"mid-change", isLastOfSeveral, instead}

// midBatch is between the keys of a change that is too large for the head of the view.
var midBatch = crashPoint{"mid-batch", isMidBatch, instead}

func isDelta(f *frame) bool { return strings.HasPrefix(f.subject, "debrief.delta.") && f.header > 0 }

func isLastOfSeveral(f *frame) bool {
	if !isDelta(f) {
		return false
	}
	d, err := events.DecodeDelta(f.payload())
	return err == nil && d.ChangeID != "" && !d.More
}

func isAck(f *frame) bool {
	return strings.HasPrefix(f.subject, "$JS.ACK.") && strings.Contains(f.subject, ".REFLECTIONS.curator.") &&
		bytes.HasPrefix(f.payload(), []byte("+ACK"))
}

func isMidBatch(f *frame) bool {
	n := f.header > 0 && f.get("Nats-Batch-Sequence") != "" && f.get("Nats-Batch-Sequence") != "1"
	return n && f.get("Nats-Batch-Commit") == ""
}

func isHead(f *frame) bool {
	return strings.HasPrefix(f.subject, "$KV.playbook.") && strings.HasSuffix(f.subject, ".head") && f.header > 0
}

// trap is an armed crash point. It strikes once.
type trap struct {
	crashPoint
	freeze time.Duration
	struck chan struct{}
	// refused reports, for frozen, that the server rejected the delayed message.
	refused bool
}

// crashProxy is a proxy between one worker process and the server.
type crashProxy struct {
	url    string // for the worker
	server string // host and port
	// blind hides the worker's expected sequence from the server, which disables compare-and-swap.
	blind atomic.Bool

	mu     sync.Mutex
	worker *process
	first  *exec.Cmd // the first life, which begins before watch
	armed  *trap
}

// newCrashProxy listens for a worker. Call watch after the worker is created.
func newCrashProxy(t testing.TB, serverURL string) *crashProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &crashProxy{url: "nats://" + l.Addr().String(), server: strings.TrimPrefix(serverURL, "nats://")}
	var all sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			all.Go(func() { w.carry(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	return w
}

// watch sets the worker of the proxy.
func (w *crashProxy) watch(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.worker, w.first = p, p.current()
}

// arm sets a trap and replaces one that has not struck.
func (w *crashProxy) arm(p crashPoint, freeze time.Duration) *trap {
	t := &trap{crashPoint: p, freeze: freeze, struck: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = t
	return t
}

// disarm removes a trap and reports whether it had not struck.
func (w *crashProxy) disarm(t *trap) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed != t {
		return false
	}
	w.armed = nil
	return true
}

// take returns the armed trap if the frame matches. The trap is disarmed until it strikes or is rearmed.
func (w *crashProxy) take(f *frame) *trap {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.armed
	if t == nil || f.body == nil || !t.sent(f) {
		return nil
	}
	w.armed = nil
	return t
}

func (w *crashProxy) rearm(t *trap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.armed == nil {
		w.armed = t
	}
}

// line is one connection of one life of the worker.
type line struct {
	*crashProxy
	life           *exec.Cmd
	client, server net.Conn

	mu      sync.Mutex
	waiting map[string]*trap // by reply subject
}

// carry forwards both directions of a connection until one side closes.
func (w *crashProxy) carry(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", w.server)
	if err != nil {
		return // the server is down: closing the connection shows that to the worker
	}
	defer server.Close()
	w.mu.Lock()
	p := w.worker
	w.mu.Unlock()
	l := &line{crashProxy: w, client: client, server: server, waiting: map[string]*trap{}}
	if p != nil {
		l.life = p.current()
	}
	var both sync.WaitGroup
	for _, way := range []func() error{l.up, l.down} {
		both.Go(func() {
			_ = way() // closes the other side's connection after any error
			client.Close()
			server.Close()
		})
	}
	both.Wait()
	for _, t := range l.waiting {
		w.rearm(t)
	}
}

var errStruck = errors.New("the worker was killed")

// up forwards the worker's messages.
func (l *line) up() error {
	in, out := bufio.NewReaderSize(l.client, 64<<10), bufio.NewWriterSize(l.server, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if strings.HasPrefix(f.subject, events.PeerSubject(events.RoleCurator, "")) {
			continue // the curators do not hear each other, so that they race for the same playbook
		}
		if l.blind.Load() && f.body != nil && isDelta(f) {
			f.hide(jetstream.ExpectedLastSubjSeqHeader)
		}
		t := l.take(f)
		if t != nil && (t.when == instead || t.when == frozen) {
			if err := out.Flush(); err != nil { // forward earlier messages first
				l.rearm(t)
				return err
			}
			if t.when == instead && l.strike(t) {
				return errStruck
			}
		}
		if t != nil && t.when == frozen && !l.sleep(t) {
			t = nil
		}
		if t != nil && (t.when == answered || t.when == frozen) {
			l.mu.Lock()
			l.waiting[f.reply] = t
			l.mu.Unlock()
		}
		if err := f.writeTo(out); err != nil {
			return err
		}
		if in.Buffered() == 0 || t != nil {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		if t != nil && t.when == after && l.strike(t) {
			return errStruck
		}
	}
}

// down forwards the server's messages.
func (l *line) down() error {
	in, out := bufio.NewReaderSize(l.server, 64<<10), bufio.NewWriterSize(l.client, 64<<10)
	for {
		f, err := readFrame(in)
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		l.mu.Lock()
		t := l.waiting[f.subject]
		delete(l.waiting, f.subject)
		l.mu.Unlock()
		if t != nil {
			refused := bytes.Contains(f.payload(), []byte(`"error"`)) // the commit lost the race and was not stored
			switch {
			case t.when == frozen:
				t.refused = refused
				close(t.struck)
			case refused:
				l.rearm(t)
			case l.strike(t):
				return errStruck
			}
		}
		if err := f.writeTo(out); err != nil {
			return err
		}
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// strike kills the worker if the line belongs to its current life. Messages of an earlier life are only forwarded, and the
// trap stays armed.
func (l *line) strike(t *trap) bool {
	if worker, life := l.owner(); !worker.killLife(life) {
		l.rearm(t)
		return false
	}
	close(t.struck)
	return true
}

// owner returns the worker, and the life of the line.
func (l *line) owner() (*process, *exec.Cmd) {
	l.crashProxy.mu.Lock()
	defer l.crashProxy.mu.Unlock()
	if l.life == nil {
		return l.worker, l.first
	}
	return l.worker, l.life
}

// sleep stops the worker for the time of the trap and continues it.
func (l *line) sleep(t *trap) bool {
	_, life := l.owner()
	if life.Process.Signal(syscall.SIGSTOP) != nil {
		l.rearm(t)
		return false
	}
	time.Sleep(t.freeze) // the duration of the freeze
	if life.Process.Signal(syscall.SIGCONT) != nil {
		l.rearm(t)
		return false
	}
	return true
}
