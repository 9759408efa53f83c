// Package natsd runs an embedded NATS server, so that one program can contain the complete pipeline. The server
// locks its data directory and syncs each message to disk before it acknowledges it. It listens on no port by
// default. It stops accepting messages before the disk is full, and continues when there is free space again, see
// Watch. Streams are created by package bus, as on any other server.
//
// A program with the complete pipeline connects the roles to it:
//
//	server, err := natsd.Start(natsd.Config{Dir: "data"})
//	nc, err := server.Connect()
//	conn, err := bus.Open(ctx, nc, bus.Options{})
//	g, err := generator.New(model, nil, generator.Config{})
//	go g.Run(ctx, conn) // the Reflector and the Curator in the same way
//	answer, err := bus.Request[events.Execution](ctx, conn, &events.Task{Book: "sums", ID: "t1", Question: "…"}, bus.PublishOptions{})
//
// To stop, it ends ctx, waits for the roles, and closes nc and the server.
package natsd

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is an embedded NATS server.
type Server struct {
	config Config
	lock   *lock
	login  []nats.Option
	url    string
	temp   string // temporary directory that Close removes
	log    *logger
	disk   func(dir string) (free, size uint64, err error) // Disk, except in tests

	srv atomic.Pointer[server.Server] // the current server; a restart replaces it

	inspector *inspector // finds damage of the store; nil for a temporary directory, which has none from an earlier run

	mu        sync.Mutex
	conns     []*nats.Conn // from Connect; may be closed
	closed    chan struct{}
	closeOnce sync.Once

	guard     guard
	guardDone sync.WaitGroup // the goroutine of runGuard
}

// maxMemory limits the size of streams in memory, in bytes. Debrief has none.
const maxMemory = 256 << 20

// startTimeout limits the start. Recovery of a million messages takes half a second.
const startTimeout = time.Minute

// Start locks the directory, recovers its streams and starts the server. The caller must call Close. The error is
// *InUseError if another process has locked the directory.
func Start(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	return startWith(c, Disk)
}

// startWith starts a server that gets the free disk space from a function.
func startWith(c Config, disk func(dir string) (free, size uint64, err error)) (*Server, error) {
	s := &Server{closed: make(chan struct{}), log: &logger{onError: c.OnError}, disk: disk}
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "debrief-")
		if err != nil {
			return nil, err
		}
		c.Dir = dir
		s.temp = dir
	}
	s.config = c
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	s.guardStore()
	s.guardDone.Go(s.runGuard)
	return s, nil
}

// open locks the directory, starts the server, and examines its streams.
func (s *Server) open() (err error) {
	if s.lock, err = lockDir(s.config.Dir); err != nil {
		return err
	}
	if err := finishCreations(s.config.Dir); err != nil {
		return err
	}
	if err := s.startNATS(); err != nil {
		return err
	}
	s.login = s.config.login()
	s.url = s.config.url(s.srv.Load().Addr())
	if s.temp == "" {
		if s.inspector, err = s.inspectStore(s.config.Dir); err != nil {
			return err
		}
	}
	return s.lock.announce(s.url)
}

// startNATS starts a nats-server. A restarted one uses the port of the one before.
func (s *Server) startNATS() error {
	o := s.config.options()
	if addr, ok := s.lastAddr(); ok {
		o.Port = addr.Port
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.srv.Store(srv)
	srv.SetLogger(s.log, false, false)
	srv.Start() // returns when it listens, or after a fatal error in the log
	if err := s.log.fatalError(); err != nil {
		return err
	}
	if !srv.ReadyForConnections(startTimeout) {
		return fmt.Errorf("start server in %s: not ready after %s", s.config.Dir, startTimeout)
	}
	return nil
}

// lastAddr returns the address of the server before a restart. It returns false at the first start and if the server does not
// listen.
func (s *Server) lastAddr() (*net.TCPAddr, bool) {
	if s.url == "" {
		return nil, false
	}
	u, err := url.Parse(s.url)
	if err != nil {
		return nil, false
	}
	addr, err := net.ResolveTCPAddr("tcp", u.Host)
	return addr, err == nil
}

// InProcessConn implements nats.InProcessConnProvider. A client that reconnects gets the current server.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.Load().InProcessConn() }

// options returns the options of nats-server. The config must be valid and have its defaults.
func (c Config) options() *server.Options {
	interval, _ := c.syncInterval()
	o := &server.Options{
		ServerName:    "debrief",
		NoSigs:        true, // the program handles signals
		NoLog:         true, // see logger
		DontListen:    c.Listen == "",
		JetStream:     true,
		StoreDir:      filepath.Clean(c.Dir),
		SyncAlways:    interval == 0,
		SyncInterval:  interval,
		Username:      c.User,
		Password:      c.Password,
		Authorization: c.Token,
		// Set both, because the default of the server is three quarters of the machine.
		JetStreamMaxMemory: maxMemory,
		JetStreamMaxStore:  c.MaxStore,
		// Disconnect a client without a network connection within 15 s. Until then it receives its share of the
		// requests of its queue group. The server's default is up to 6 minutes.
		PingInterval: 5 * time.Second,
		MaxPingsOut:  2,
	}
	if c.Listen != "" {
		o.Host, o.Port, _ = c.address()
		if o.Port == 0 {
			o.Port = server.RANDOM_PORT
		}
	}
	return o
}

// login returns the options by which a client of this process authenticates.
func (c Config) login() []nats.Option {
	switch {
	case c.User != "":
		return []nats.Option{nats.UserInfo(c.User, c.Password)}
	case c.Token != "":
		return []nats.Option{nats.Token(c.Token)}
	}
	return nil
}

// url returns the URL for connections from this machine to a server with this listen address.
func (c Config) url(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if c.Listen == "" || !ok {
		return ""
	}
	host, _, _ := c.address()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// URL returns the listen address without credentials. It is empty if the server does not listen.
func (s *Server) URL() string { return s.url }

// connectTimeout is longer than the two seconds of the client, which pass on a busy machine although the server is in this process.
const connectTimeout = 10 * time.Second

// Connect returns an authenticated connection within the process. The caller or Close closes it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, errors.New("connect: server is closed")
	default:
	}
	all := append([]nats.Option{nats.InProcessServer(s), nats.Timeout(connectTimeout)}, s.login...)
	nc, err := nats.Connect("", append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	s.conns = append(slices.DeleteFunc(s.conns, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

// Close closes the connections from Connect, stops the server, waits until all data is on disk, and unlocks the
// directory. It may be called repeatedly and concurrently. Each call returns when the server is closed. To finish
// work in flight, drain the connections first.
func (s *Server) Close() {
	s.closeOnce.Do(func() {
		s.mu.Lock()
		close(s.closed)
		for _, nc := range s.conns {
			isInspector := s.inspector != nil && nc == s.inspector.nc // writes the last checkpoint after the others are closed
			if !isInspector {
				nc.Close()
			}
		}
		s.mu.Unlock()
		s.guardDone.Wait()
		if s.inspector != nil {
			s.inspector.close()
		}
		if srv := s.srv.Load(); srv != nil {
			srv.Shutdown()
			srv.WaitForShutdown()
		}
		if s.lock != nil {
			s.lock.release()
		}
		if s.temp != "" {
			_ = os.RemoveAll(s.temp) // the operating system cleans its temporary directory
		}
	})
}
