package bus

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"debrief/events"
	"debrief/playbook"
)

const (
	announceEvery = time.Second
	// peerTimeout is the silence after which a process counts as dead.
	peerTimeout = 3 * time.Second
	// leaveWait is how long a process that stops still accepts messages, until the other processes know that it stops.
	leaveWait = 100 * time.Millisecond
)

// peers divides the books among the processes of a batching role, so that each book has one owner. Without this, two processes that change
// a book write twice as many deltas, and half of their commits conflict.
//
// Every process announces its id, and computes the owner of a book from the ids that it has received and from the known books. A message of
// another owner's book is forwarded to the owner without JetStream, and the owner acknowledges it. Correctness does not depend on the owner:
// while two processes disagree about it, both change the book, and the compare-and-swap of the log decides. The server redelivers messages that were
// forwarded to a process that died. If that process has closed its connection, the server reports the first forwarded message as
// undeliverable, and this process forwards no more to it.
type peers struct {
	*runner
	id     string
	handle func(jetstream.Msg) // handles a message that another process forwarded

	mu        sync.Mutex
	heard     map[string]time.Time // the other processes, by id: when they were last heard
	books     []playbook.Book      // the known books, sorted
	owners    map[string]string    // by book; nil after a change of heard or books
	isLeaving bool

	subs []*nats.Subscription
	done chan struct{} // closed by leave
}

// newPeers returns the peers of a worker. handle may be called from several goroutines, until leave returns.
func newPeers(r *runner, handle func(jetstream.Msg)) *peers {
	return &peers{runner: r, id: nuid.Next(), handle: handle, heard: make(map[string]time.Time), done: make(chan struct{})}
}

// join makes this process known and begins to accept messages.
func (p *peers) join() error {
	own, err := p.conn.nc.Subscribe(events.PeerSubject(p.worker.Role, p.id), p.receive)
	if err != nil {
		return err
	}
	all, err := p.conn.nc.Subscribe(events.PeerSubject(p.worker.Role, ""), p.hear)
	if err != nil {
		_ = own.Unsubscribe()
		return err
	}
	p.subs = []*nats.Subscription{all, own}
	p.readBooks()
	p.announce(arrived)
	go func() {
		tick := time.NewTicker(announceEvery)
		defer tick.Stop()
		for {
			select {
			case <-p.done:
				return
			case <-tick.C:
				p.readBooks()
				p.mu.Lock()
				p.announcePresent()
				p.mu.Unlock()
			}
		}
	}()
	return nil
}

// An announcement is one of these bytes and the id of its process.
const (
	arrived = '+' // the other processes announce themselves in return
	present = '='
	left    = '-'
)

func (p *peers) announce(kind byte) {
	err := p.conn.nc.Publish(events.PeerSubject(p.worker.Role, ""), append([]byte{kind}, p.id...))
	if err != nil {
		p.log.Debug().Err(err).Msg("announce this process")
	}
}

// announcePresent announces this process, unless it has announced that it stops. The caller has locked mu.
func (p *peers) announcePresent() {
	if !p.isLeaving {
		p.announce(present)
	}
}

// hear handles an announcement, also one of this process itself.
func (p *peers) hear(m *nats.Msg) {
	if len(m.Data) < 2 || string(m.Data[1:]) == p.id {
		return
	}
	kind, id := m.Data[0], string(m.Data[1:])
	if kind == left {
		p.forget(id)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.heard[id].IsZero() {
		p.owners = nil
	}
	p.heard[id] = time.Now()
	if kind == arrived {
		p.announcePresent()
	}
}

// readBooks reads the list of the known books.
func (p *peers) readBooks() {
	if p.worker.Books == nil {
		return
	}
	books := p.worker.Books()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Equal(books, p.books) {
		p.books, p.owners = books, nil
	}
}

// owner returns the id of the process that owns a book. If a process or a book comes or goes, few other books change their owner.
func (p *peers) owner(book string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	now, known := time.Now(), len(p.heard)
	maps.DeleteFunc(p.heard, func(_ string, at time.Time) bool { return now.Sub(at) > peerTimeout })
	ids := append(slices.Collect(maps.Keys(p.heard)), p.id)
	if p.owners == nil || len(p.heard) != known {
		p.owners = divide(p.books, ids)
	}
	if p.owners[book] == "" { // a new book
		p.owners[book] = highest(ids, book)
	}
	return p.owners[book]
}

// divide returns the owner of each book: the process that ranks highest for it, of those that own fewer books than their part. The part is
// rounded up.
func divide(books []playbook.Book, ids []string) map[string]string {
	part := (len(books) + len(ids) - 1) / len(ids)
	ids = slices.Clone(ids)
	owners, owned := make(map[string]string, len(books)), make(map[string]int)
	for _, book := range books {
		id := highest(ids, string(book))
		owners[string(book)] = id
		if owned[id]++; owned[id] == part {
			ids = slices.DeleteFunc(ids, func(other string) bool { return other == id })
		}
	}
	return owners
}

// highest returns the process that ranks highest for a book. The ranks are hashes, so they spread the books over the processes.
func highest(ids []string, book string) string {
	return slices.MaxFunc(ids, func(a, b string) int { return bytes.Compare(rank(a, book), rank(b, book)) })
}

// rank returns the rank of a process for a book.
func rank(id, book string) []byte {
	sum := sha256.Sum256([]byte(id + book))
	return sum[:]
}

// otherOwner returns the process to which a message must be forwarded. It returns "" if this process handles the message: it owns the
// book, or the message is too large for maxForward, or its subject names no book.
func (p *peers) otherOwner(m jetstream.Msg) string {
	_, book, err := events.ParseSubject(m.Subject())
	if err != nil || len(m.Data()) > p.maxForward() {
		return ""
	}
	if owner := p.owner(string(book)); owner != p.id {
		return owner
	}
	return ""
}

// maxForward is the limit of the payloads in one forwarded list, in bytes. It leaves room for the headers and subjects.
func (p *peers) maxForward() int { return int(p.conn.nc.MaxPayload() / 2) }

// wireMessage is a forwarded message as processes send it to each other. Ack is the subject of its acknowledgement.
type wireMessage struct {
	Subject string              `msgpack:"s"`
	Ack     string              `msgpack:"a"`
	Header  map[string][]string `msgpack:"h"`
	Data    []byte              `msgpack:"d"`
}

// forward sends messages to their owner, in order and in lists of at most maxForward bytes. It returns those that could not be sent.
func (p *peers) forward(owner string, all []jetstream.Msg) (failed []jetstream.Msg) {
	for len(all) > 0 {
		var list []wireMessage
		size := 0
		for _, m := range all {
			size += len(m.Data())
			if size > p.maxForward() && len(list) > 0 {
				break
			}
			list = append(list, wireMessage{Subject: m.Subject(), Ack: m.Reply(), Header: m.Headers(), Data: m.Data()})
		}
		data, err := events.Marshal(list)
		if err == nil {
			err = p.conn.nc.PublishRequest(events.PeerSubject(p.worker.Role, owner), events.PeerSubject(p.worker.Role, p.id), data)
		}
		if err != nil {
			p.log.Debug().Err(err).Msg("forward messages")
			failed = append(failed, all[:len(list)]...)
		}
		all = all[len(list):]
	}
	return failed
}

// receive handles messages that another process forwarded. If no process receives a forwarded message, the server answers it with
// status 503, and receive removes its owner from the known processes.
func (p *peers) receive(m *nats.Msg) {
	if m.Header.Get("Status") == "503" {
		subject := m.Header.Get("Nats-Subject") // of the forwarded message: it ends with the id of its owner
		p.forget(subject[strings.LastIndexByte(subject, '.')+1:])
		return
	}
	var list []wireMessage
	if err := events.Unmarshal(m.Data, &list); err != nil {
		p.log.Warn().Err(err).Msg("decode messages of another process")
		return
	}
	for _, f := range list {
		p.handle(forwardedMsg{&nats.Msg{Subject: f.Subject, Reply: f.Ack, Header: f.Header, Data: f.Data, Sub: m.Sub}})
	}
}

// forget removes another process.
func (p *peers) forget(id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.heard, id)
	p.owners = nil
}

// leave announces that this process stops, and waits until it has received all messages that the others had forwarded.
func (p *peers) leave() {
	close(p.done)
	if !p.conn.nc.IsConnected() { // nothing can arrive
		for _, s := range p.subs {
			_ = s.Unsubscribe()
		}
		return
	}
	p.mu.Lock()
	p.isLeaving = true
	p.announce(left)
	isAlone := len(p.heard) == 0
	p.mu.Unlock()
	if !isAlone {
		time.Sleep(leaveWait)
	}
	for _, s := range p.subs {
		ended := make(chan struct{})
		s.SetClosedHandler(func(string) { close(ended) })
		if s.Drain() != nil {
			continue // the connection is closed
		}
		select {
		case <-ended:
		case <-time.After(drainTimeout):
		}
	}
}

// forwardedMsg is a message that another process pulled.
type forwardedMsg struct{ m *nats.Msg }

func (f forwardedMsg) Metadata() (*jetstream.MsgMetadata, error) {
	md, err := f.m.Metadata()
	if err != nil {
		return nil, err
	}
	return &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: md.Sequence.Consumer, Stream: md.Sequence.Stream},
		NumDelivered: md.NumDelivered, NumPending: md.NumPending, Timestamp: md.Timestamp,
		Stream: md.Stream, Consumer: md.Consumer, Domain: md.Domain,
	}, nil
}

func (f forwardedMsg) Data() []byte         { return f.m.Data }
func (f forwardedMsg) Headers() nats.Header { return f.m.Header }
func (f forwardedMsg) Subject() string      { return f.m.Subject }
func (f forwardedMsg) Reply() string        { return f.m.Reply }

func (f forwardedMsg) Ack() error                          { return f.m.Ack() }
func (f forwardedMsg) DoubleAck(ctx context.Context) error { return f.m.AckSync(nats.Context(ctx)) }
func (f forwardedMsg) Nak() error                          { return f.m.Nak() }
func (f forwardedMsg) NakWithDelay(d time.Duration) error  { return f.m.NakWithDelay(d) }
func (f forwardedMsg) InProgress() error                   { return f.m.InProgress() }
func (f forwardedMsg) Term() error                         { return f.m.Term() }
func (f forwardedMsg) TermWithReason(string) error         { return f.m.Term() }
