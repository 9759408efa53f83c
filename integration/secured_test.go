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

// secured is a server as deploy/nats configures it, with TLS and the users of some tenants.
type secured struct {
	t    testing.TB
	dir  string // of the configuration
	conf string // the server's file in it, one of them on a cluster
	url  string
	said *complaints
}

// complaints keeps what a server says of refusals.
type complaints struct {
	mu    sync.Mutex
	lines []string
}

func (c *complaints) Errorf(format string, args ...any) {
	if line := fmt.Sprintf(format, args...); strings.Contains(line, "Violation") {
		c.mu.Lock()
		c.lines = append(c.lines, line)
		c.mu.Unlock()
	}
}

func (c *complaints) Noticef(string, ...any)       {}
func (c *complaints) Warnf(string, ...any)         {}
func (c *complaints) Fatalf(f string, args ...any) { c.Errorf("Violation: "+f, args...) }
func (c *complaints) Debugf(string, ...any)        {}
func (c *complaints) Tracef(string, ...any)        {}

func (c *complaints) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// secure starts a server from the files of deploy/nats, but for where it listens and where things are, with credentials
// made by 'debrief credentials'.
func secure(t *testing.T, tenants ...string) *secured {
	t.Helper()
	return secureBut(t, "", tenants...)
}

// secureBut is secure without a line of accounts.conf.
func secureBut(t *testing.T, line string, tenants ...string) *secured {
	t.Helper()
	s := newSecured(t, tenants)
	s.file("limits.conf", "limits.conf")
	s.edit("secrets/accounts.conf", line, "")
	s.serve()
	return s
}

// serve starts a server from the file for one.
func (s *secured) serve(moved ...string) {
	s.t.Helper()
	listen := freeAddress(s.t)
	s.url, s.conf = "tls://"+listen, "server.conf"
	s.file("server.conf", s.conf, append(moved, "/etc/nats", s.dir, `"/data"`, strconv.Quote(filepath.Join(s.dir, "data")),
		"0.0.0.0:4222", listen, "0.0.0.0:8222", freeAddress(s.t))...)
	s.ready(s.start(s.conf))
}

// secureCluster is secure with three servers from the file for them.
func secureCluster(t *testing.T, tenants ...string) (*secured, []*natsserver.Server) {
	t.Helper()
	s := newSecured(t, tenants)
	s.file("limits.conf", "limits.conf")
	return s, s.serveCluster()
}

// serveCluster starts three servers from the file for them.
func (s *secured) serveCluster(moved ...string) []*natsserver.Server {
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

// newSecured makes credentials with 'debrief credentials'.
func newSecured(t testing.TB, tenants []string) *secured {
	t.Helper()
	s := &secured{t: t, dir: t.TempDir(), said: new(complaints)}
	args := []string{"credentials", filepath.Join(s.dir, "secrets")}
	for _, tenant := range tenants {
		args = append(args, "--tenant", tenant)
	}
	run(t, program(t, "debrief"), args...)
	return s
}

// file copies a file of deploy/nats, with something else in the place of every other string. All of them must be in it.
func (s *secured) file(from, to string, moved ...string) {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join("../deploy/nats", from))
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i < len(moved); i += 2 {
		if !bytes.Contains(text, []byte(moved[i])) {
			s.t.Fatalf("%s has no %s", from, moved[i])
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, to), []byte(strings.NewReplacer(moved...).Replace(string(text))), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// edit replaces a text, which must be there, in a file of the server.
func (s *secured) edit(name, from, to string) {
	s.t.Helper()
	name = filepath.Join(s.dir, name)
	text, err := os.ReadFile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(from)) {
		s.t.Fatalf("%s has no %s", name, from)
	}
	if err := os.WriteFile(name, bytes.Replace(text, []byte(from), []byte(to), 1), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// start starts a server from a file.
func (s *secured) start(conf string) *natsserver.Server {
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

func (s *secured) ready(srv *natsserver.Server) {
	s.t.Helper()
	if !srv.ReadyForConnections(20 * time.Second) {
		s.t.Fatalf("the server does not come up: %q", s.said.all())
	}
}

// flags are those of a program of ours that connects as a user.
func (s *secured) flags(tenant, user string) []string {
	return []string{
		"--nats", s.url, "--ca", filepath.Join(s.dir, "secrets", "ca.pem"),
		"--nkey", filepath.Join(s.dir, "secrets", tenant, user+".nk"),
	}
}

// connect is the test's own connection as a user.
func (s *secured) connect(tenant, user string) *nats.Conn {
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

// setUp makes the streams and durables of a tenant, as its operator.
func (s *secured) setUp(tenant string) *bus.Conn {
	s.t.Helper()
	c, err := bus.Open(s.t.Context(), s.connect(tenant, events.UserOperator), bus.Options{})
	if err == nil {
		err = c.Durables(s.t.Context())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

// debrief runs a command of debrief as the operator of a tenant, and returns what it prints.
func (s *secured) debrief(tenant string, args ...string) string {
	s.t.Helper()
	cmd := exec.Command(program(s.t, "debrief"), append(args, s.flags(tenant, events.UserOperator)...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.t.Fatalf("debrief %s: %v\n%s", strings.Join(args, " "), err, tail(string(out), 10))
	}
	return string(out)
}
