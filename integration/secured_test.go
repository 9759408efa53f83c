package integration

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/bus"
)

// tlsServer is a server with the configuration of deploy/nats, with TLS and the users of some tenants.
type tlsServer struct {
	t    testing.TB
	dir  string // directory of the configuration
	conf string // configuration file in dir; on a cluster, of one server
	url  string
	said *refusalLog
}

// refusalLog collects the server's log lines about denials.
type refusalLog struct {
	mu    sync.Mutex
	lines []string
}

func (c *refusalLog) Errorf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "Violation") {
		c.mu.Lock()
		c.lines = append(c.lines, line)
		c.mu.Unlock()
	}
}

func (c *refusalLog) Noticef(string, ...any)       {}
func (c *refusalLog) Warnf(string, ...any)         {}
func (c *refusalLog) Fatalf(f string, args ...any) { c.Errorf("Violation: "+f, args...) }
func (c *refusalLog) Debugf(string, ...any)        {}
func (c *refusalLog) Tracef(string, ...any)        {}

func (c *refusalLog) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// startTLSServer starts a server with the files of deploy/nats, with other addresses and paths, and with credentials of
// 'debrief credentials'.
func startTLSServer(t *testing.T, tenants ...string) *tlsServer {
	t.Helper()
	return startTLSServerWithout(t, "", tenants...)
}

// startTLSServerWithout starts a TLS server without one line of accounts.conf.
func startTLSServerWithout(t *testing.T, line string, tenants ...string) *tlsServer {
	t.Helper()
	s := newTLSServer(t, tenants)
	s.file("limits.conf", "limits.conf")
	s.edit("secrets/accounts.conf", line, "")
	s.serve()
	return s
}

// serve starts a single server from server.conf.
func (s *tlsServer) serve(moved ...string) {
	s.t.Helper()
	listen := freeAddress(s.t)
	s.url, s.conf = "tls://"+listen, "server.conf"
	s.file("server.conf", s.conf, append(moved, "/etc/nats", s.dir, `"/data"`, strconv.Quote(filepath.Join(s.dir, "data")),
		"0.0.0.0:4222", listen, "0.0.0.0:8222", freeAddress(s.t))...)
	s.ready(s.start(s.conf))
}

// startTLSCluster starts three TLS servers from cluster.conf.
func startTLSCluster(t *testing.T, tenants ...string) (*tlsServer, []*natsserver.Server) {
	t.Helper()
	s := newTLSServer(t, tenants)
	s.file("limits.conf", "limits.conf")
	return s, s.serveCluster()
}

// serveCluster starts three servers from cluster.conf.
func (s *tlsServer) serveCluster(moved ...string) []*natsserver.Server {
	s.t.Helper()
	moved = append(moved, "/etc/nats", s.dir)
	routes := make([]string, 3)
	for i := range routes {
		routes[i] = freeAddress(s.t)
		moved = append(moved, fmt.Sprintf("nats-%d:6222", i), routes[i])
	}
	servers := make([]*natsserver.Server, len(routes))
	for i := range servers {
		listen, name := freeAddress(s.t), fmt.Sprintf("nats-%d", i)
		s.conf = name + ".conf"
		s.file("cluster.conf", s.conf, append(moved, "$SERVER_NAME", name, "0.0.0.0:6222", routes[i], "0.0.0.0:4222", listen,
			"0.0.0.0:8222", freeAddress(s.t), `"/data"`, strconv.Quote(filepath.Join(s.dir, name)))...)
		servers[i] = s.start(s.conf)
		s.url += ",tls://" + listen
	}
	s.url = s.url[1:]
	for _, srv := range servers {
		s.ready(srv)
	}
	return servers
}

// newTLSServer creates credentials with 'debrief credentials'.
func newTLSServer(t testing.TB, tenants []string) *tlsServer {
	t.Helper()
	s := &tlsServer{t: t, dir: t.TempDir(), said: new(refusalLog)}
	args := []string{"credentials", filepath.Join(s.dir, "secrets")}
	for _, tenant := range tenants {
		args = append(args, "--tenant", tenant)
	}
	run(t, program(t, "debrief"), args...)
	return s
}

// file copies a file of deploy/nats and replaces pairs of strings in it. Each old string must occur.
func (s *tlsServer) file(from, to string, moved ...string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../deploy/nats", from))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(moved); i += 2 {
		if !bytes.Contains(text, []byte(moved[i])) {
			s.t.Fatalf("%s: %s not found", from, moved[i])
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, to), []byte(strings.NewReplacer(moved...).Replace(string(text))), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// edit replaces a text in a file of the server. The text must occur.
func (s *tlsServer) edit(name, from, to string) {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	text, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		s.t.Fatalf("%s: %s not found", name, from)
	}
	if err := os.WriteFile(name, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start starts a server from a file.
func (s *tlsServer) start(conf string) *natsserver.Server {
	s.t.Helper()
	o, err := natsserver.ProcessConfigFile(filepath.Join(s.dir, conf))
	if err != nil {
		s.t.Fatal(err)
	}
	o.NoSigs = true
	srv, err := natsserver.NewServer(o)
	if err != nil {
		s.t.Fatal(err)
	}
	srv.SetLogger(s.said, false, false)
	srv.Start()
	s.t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	return srv
}

func (s *tlsServer) ready(srv *natsserver.Server) {
	s.t.Helper()
	if !srv.ReadyForConnections(20 * time.Second) {
		s.t.Fatalf("the server is not ready: %q", s.said.all())
	}
}

// flags returns the flags of a program that connects as a user.
func (s *tlsServer) flags(tenant, user string) []string {
	return []string{
		"--nats", s.url, "--ca", filepath.Join(s.dir, "secrets", "ca.pem"),
		"--nkey", filepath.Join(s.dir, "secrets", tenant, user+".nk"),
	}
}

// connect connects the test as a user.
func (s *tlsServer) connect(tenant, user string) *nats.Conn {
	s.t.Helper()
	key, err := nats.NkeyOptionFromSeed(filepath.Join(s.dir, "secrets", tenant, user+".nk"))
	if err != nil {
		s.t.Fatal(err)
	}
	nc, err := nats.Connect(s.url, key, nats.RootCAs(filepath.Join(s.dir, "secrets", "ca.pem")),
		nats.CustomInboxPrefix(events.InboxPrefix(user)), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	return nc
}

// setUp creates the streams and durables of a tenant, as its operator.
func (s *tlsServer) setUp(tenant string) *bus.Conn {
	s.t.Helper()
	c, err := bus.Open(s.t.Context(), s.connect(tenant, events.UserOperator), bus.Options{})
	if err == nil {
		err = c.Consumers.Create(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// debrief runs a command of debrief as the operator of a tenant, and returns its output.
func (s *tlsServer) debrief(tenant string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program(s.t, "debrief"), append(args, s.flags(tenant, events.UserOperator)...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("debrief %s: %v\n%s", strings.Join(args, " "), err, tail(string(out), 10))
	}
	return string(out)
}
