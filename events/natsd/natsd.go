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

// Server is a running server.
type Server struct {
	config Config
	lock   *lock
	login  []nats.Option
	url    string
	temp   string // the directory to remove
	log    *logger
	disk   func(dir string) (free, size uint64, err error) // Disk; a test has another

	srv atomic.Pointer[server.Server] // the one that runs now

	keeper *keeper // nil of a directory that is removed

	mu     sync.Mutex
	conns  []*nats.Conn // those that Connect gave out and that may be open
	closed chan struct{}
	close  sync.Once

	guard   guard
	guarded chan struct{} // closed when the guard has ended
}

// guard is the state of the store.
type guard struct {
	mu     sync.Mutex
	closed *ClosedError // nil while the store is open
	tried  time.Time    // when a start was last tried
	told   func(error)
}

// startWait bounds the start. Reading a million messages back takes half a second.
const startWait = time.Minute

// Start locks the directory, reads back what is in it and serves it. The caller closes the server. The error is
// *InUseError when another process has the directory.
func Start(c Config) (*Server, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	c = c.WithDefaults()
	return start(c, Disk)
}

func start(c Config, disk func(dir string) (free, size uint64, err error)) (*Server, error) {
	s := &Server{closed: make(chan struct{}), guarded: make(chan struct{}), log: &logger{onError: c.OnError}, disk: disk}
	close(s.guarded) // until there is one
	if c.Dir == "" {
		dir, err := os.MkdirTemp("", "debrief-")
		if err != nil {
			return nil, err
		}
		c.Dir, s.temp = dir, dir
	}
	s.config = c
	if err := s.start(); err != nil {
		s.Close()
		return nil, err
	}
	s.look()
	s.guarded = make(chan struct{})
	go s.watch()
	return s, nil
}

func (s *Server) start() (err error) {
	if s.lock, err = lockDir(s.config.Dir); err != nil {
		return err
	}
	if err := s.run(); err != nil {
		return err
	}
	s.login = s.config.login()
	s.url = s.config.url(s.srv.Load().Addr())
	if s.temp == "" {
		if s.keeper, err = s.keep(s.config.Dir); err != nil {
			return err
		}
	}
	return s.lock.announce(s.url)
}

// run starts the server itself. One that runs on after another takes the same port.
func (s *Server) run() error {
	o := s.config.options()
	if addr, ok := s.addr(); ok {
		o.Port = addr.Port
	}
	srv, err := server.NewServer(o)
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	s.srv.Store(srv)
	srv.SetLogger(s.log, false, false)
	srv.Start() // returns when it listens, or has told the logger why not
	if err := s.log.fatal(); err != nil {
		return err
	}
	if !srv.ReadyForConnections(startWait) {
		return fmt.Errorf("start server in %s: not ready after %s", s.config.Dir, startWait)
	}
	return nil
}

// addr is the address of the server before a restart.
func (s *Server) addr() (*net.TCPAddr, bool) {
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

// InProcessConn implements nats.InProcessConnProvider: a connection that comes back reaches the server that runs by then.
func (s *Server) InProcessConn() (net.Conn, error) { return s.srv.Load().InProcessConn() }

// options are the server's for this config, which is valid and has its defaults.
func (c Config) options() *server.Options {
	interval, _ := c.syncInterval()
	o := &server.Options{
		ServerName:    "debrief",
		NoSigs:        true, // signals are the program's
		NoLog:         true, // see logger
		DontListen:    c.Listen == "",
		JetStream:     true,
		StoreDir:      filepath.Clean(c.Dir),
		SyncAlways:    interval == 0,
		SyncInterval:  interval,
		Username:      c.User,
		Password:      c.Password,
		Authorization: c.Token,
		// Both are set: left to itself the server takes three quarters of the machine.
		JetStreamMaxMemory: c.MaxMemory,
		JetStreamMaxStore:  c.MaxStore,
		// A client whose connection a network has forgotten is let go within 15 s. Until then it is given its share of
		// what is asked of its queue group; the server's own default is up to 6 minutes.
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

func (c Config) login() []nats.Option {
	switch {
	case c.User != "":
		return []nats.Option{nats.UserInfo(c.User, c.Password)}
	case c.Token != "":
		return []nats.Option{nats.Token(c.Token)}
	}
	return nil
}

// url is how to reach, from this machine, a server that got addr.
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

// URL is where the server listens, without credentials; empty if nowhere.
func (s *Server) URL() string { return s.url }

// Connect is a connection from within the process, logged in. It is open until the caller or Close closes it.
func (s *Server) Connect(opts ...nats.Option) (*nats.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closed:
		return nil, errors.New("connect: the server is closed")
	default:
	}
	all := append([]nats.Option{nats.InProcessServer(s)}, s.login...)
	nc, err := nats.Connect("", append(all, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the server in this process: %w", err)
	}
	s.conns = append(slices.DeleteFunc(s.conns, (*nats.Conn).IsClosed), nc)
	return nc, nil
}

// Close closes the connections that Connect gave out, stops the server, waits until all is on disk, and lets go of the
// directory. It may be called more than once and at the same time; each call returns when it is done. Callers who want
// work in flight to finish drain their connections first.
func (s *Server) Close() {
	s.close.Do(func() {
		s.mu.Lock()
		close(s.closed)
		for _, nc := range s.conns {
			if s.keeper == nil || nc != s.keeper.nc {
				nc.Close()
			}
		}
		s.mu.Unlock()
		<-s.guarded
		if s.keeper != nil {
			s.keeper.close()
		}
		if srv := s.srv.Load(); srv != nil {
			srv.Shutdown()
			srv.WaitForShutdown()
		}
		if s.lock != nil {
			s.lock.release()
		}
		if s.temp != "" {
			_ = os.RemoveAll(s.temp) // it is the system's temporary directory: what stays there is swept
		}
	})
}

// logger is the server's: it keeps the first fatal error, which to the server is the end of the process and to us of
// Start, passes errors on, and drops the rest.
type logger struct {
	onError func(string)

	mu    sync.Mutex
	err   error
	write error // the first of a file operation that failed
}

// failed is the error of the first write that failed, nil while none did.
func (l *logger) failed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.write
}

// reset clears the errors of the previous server.
func (l *logger) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err, l.write = nil, nil
}

func (l *logger) fatal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *logger) Fatalf(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.err = fmt.Errorf("start server: "+format, args...)
	for _, a := range args {
		if err, ok := a.(error); ok { // "listen tcp 127.0.0.1:4222: bind: address already in use" says it all
			l.err = fmt.Errorf("start server: %w", err)
		}
	}
}

func (l *logger) Errorf(format string, args ...any) {
	if err := failure(args); err != nil {
		l.mu.Lock()
		if l.write == nil {
			l.write = err
		}
		l.mu.Unlock()
	}
	if l.onError != nil {
		l.onError(fmt.Sprintf(format, args...))
	}
}

func (l *logger) Noticef(string, ...any) {}
func (l *logger) Warnf(string, ...any)   {}
func (l *logger) Debugf(string, ...any)  {}
func (l *logger) Tracef(string, ...any)  {}
