package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/deltalog"
	"debrief/events/liveness"
	"debrief/events/natsd"
	"debrief/generator"
	"debrief/playbook"
	"debrief/reflector"
)

// patience is the timeout of a test for expected events.
const patience = 30 * time.Second

// failures is the log of the API and the console. It explains the failure of a test.
var failures = zerolog.New(os.Stderr).Level(zerolog.WarnLevel)

// TestMain closes what the tests share, and then fails if something of it still runs.
func TestMain(m *testing.M) {
	bustest.Prepare()
	code := m.Run()
	shared.Lock()
	for _, in := range shared.all {
		in.close()
	}
	shared.Unlock()
	closeBrowser()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// installation is Debrief in one process: an embedded NATS server, all roles, and two HTTP servers with the API and the console as the
// gateway mounts them. The generators use a simulated model, the other roles none.
type installation struct {
	conn    *bus.Conn
	open    *httptest.Server  // requires no token
	guarded *httptest.Server  // requires one of tokenSpecs
	secrets map[string]string // by the name of the token
	seeded  seeded

	closers []func() // in the order of opening
	roles   context.CancelFunc
	ended   chan error
}

// tokenSpecs are the tokens of the guarded server.
var tokenSpecs = []apitest.Grant{
	{Name: "admin", Scopes: tokens.Scopes},
	{Name: "reader", Scopes: []tokens.Scope{tokens.Read}},
	{Name: "reviewer", Scopes: []tokens.Scope{tokens.Read, tokens.Review}},
	{Name: "reporter", Scopes: []tokens.Scope{tokens.Read, tokens.Report}},
	{Name: "operator", Scopes: []tokens.Scope{tokens.Read, tokens.Operate}},
	{Name: "agent", Scopes: []tokens.Scope{tokens.Context, tokens.Report}},
	{Name: "support-desk", Scopes: tokens.Scopes, Books: []playbook.Book{"support"}},
}

// shared are the installations that several tests read. A test that changes something starts its own.
var shared struct {
	sync.Mutex
	all map[bool]*installation
}

// readOnly returns the installation that tests share. With attack all its stored texts contain an attack.
func readOnly(t *testing.T, attack bool) *installation {
	t.Helper()
	shared.Lock()
	defer shared.Unlock()
	if in := shared.all[attack]; in != nil {
		return in
	}
	if shared.all == nil {
		shared.all = map[bool]*installation{}
	}
	say := plain
	if attack {
		say = poisoned
	}
	in := startInstallation(t, say)
	shared.all[attack] = in
	return in
}

// newInstallation starts an installation until the end of the test.
func newInstallation(t testing.TB) *installation {
	t.Helper()
	in := startInstallation(t, plain)
	t.Cleanup(in.close)
	return in
}

// startInstallation starts and fills an installation. The function say returns the text for a field; see seed.
func startInstallation(t testing.TB, say func(field, text string) string) *installation {
	t.Helper()
	in := &installation{secrets: map[string]string{}, ended: make(chan error, 1)}
	done := false
	defer func() {
		if !done { // a failed start
			in.close()
		}
	}()
	s := &seeding{TB: t, installation: in, say: say, builder: in.startServers(t)}
	s.before()
	in.startRoles(t)
	s.after()
	s.settle()
	done = true
	return in
}

// startServers starts the NATS server and the HTTP servers.
func (in *installation) startServers(t testing.TB) *generator.ContextBuilder {
	t.Helper()
	srv, err := natsd.Start(natsd.Config{Sync: "1m"}) // tests need no protection against power loss
	check(t, err)
	in.closers = append(in.closers, srv.Close)
	nc, err := srv.Connect()
	check(t, err)
	in.closers = append(in.closers, nc.Close)
	in.conn, err = bus.Open(context.Background(), nc, bus.Options{}) // outlives the test
	check(t, err)
	builder := generator.NewContextBuilder(in.conn, nil, generator.Config{})
	in.closers = append(in.closers, builder.Close)

	set := in.tokenFile(t)
	views := index.New(in.conn, nil)
	in.follow(views.Run)
	options := api.Options{Conn: in.conn, Index: views, Log: failures}
	in.open = in.serve(api.New(builder, options))
	options.Tokens = set
	in.guarded = in.serve(api.New(builder, options))
	eventually(t, func() error { // pages are whole
		if views.Reading() {
			return errors.New("the server still reads the stored data")
		}
		return nil
	})
	return builder
}

// startRoles starts all roles, as a process that answers requests for its health.
func (in *installation) startRoles(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	in.roles = cancel
	health, err := liveness.NewProcess(in.conn, "debrief up", liveness.Floor).ServeReports()
	check(t, err)
	in.closers = append(in.closers, health)
	go func() {
		in.ended <- program.Run(ctx, in.conn, bustest.Must(generator.New(chat.ModelFunc(answer), nil, generator.Config{})), bustest.Must(reflector.New(nil, reflector.Config{})), bustest.Must(curator.New(nil, curator.Config{})))
	}()
}

// follow runs what follows the streams.
func (in *installation) follow(run func(context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { run(ctx) })
	in.closers = append(in.closers, func() {
		cancel()
		done.Wait()
	})
}

// answer is the simulated model of the generators.
func answer(context.Context, chat.Prompt) (chat.Reply, error) {
	return chat.Reply{Text: `{"reasoning": "It is 6 times 7.", "bullet_ids": [], "final_answer": "42"}`}, nil
}

// serve returns a server for the paths of the gateway without those of models.
func (in *installation) serve(handler http.Handler) *httptest.Server {
	s := httptest.NewServer(mounts(handler))
	in.closers = append(in.closers, func() {
		s.CloseClientConnections() // pages that are open get events
		s.Close()
	})
	return s
}

// mounts returns the API and the console as the gateway mounts them.
func mounts(handler http.Handler) http.Handler {
	mux, console := http.NewServeMux(), New(Options{API: handler, Log: failures})
	mux.Handle("/api/", handler)
	for _, path := range Paths {
		mux.Handle(path, console)
	}
	return mux
}

// tokenFile writes the tokens file and reads it.
func (in *installation) tokenFile(t testing.TB) *tokens.Set {
	t.Helper()
	dir, err := os.MkdirTemp("", "debrief-web-") // the installation outlives the test
	check(t, err)
	in.closers = append(in.closers, func() { _ = os.RemoveAll(dir) })
	ofProxy := apitest.Grant{Name: "sso", Scopes: []tokens.Scope{tokens.Read, tokens.Review}, Proxies: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
	set, secrets := apitest.Load(t, dir, append(slices.Clone(tokenSpecs), ofProxy)...)
	in.secrets = secrets
	return set
}

// close stops everything in the reverse order of opening.
func (in *installation) close() {
	if in.roles != nil {
		in.roles()
		if err := <-in.ended; err != nil {
			fmt.Fprintln(os.Stderr, "roles of a test:", err)
		}
	}
	for i := len(in.closers) - 1; i >= 0; i-- {
		in.closers[i]()
	}
	in.roles, in.closers = nil, nil
}

// commit appends deltas to the log of a playbook and updates its view. The versions are set by the log.
func (in *installation) commit(t testing.TB, b playbook.Book, deltas ...*playbook.Delta) {
	t.Helper()
	w, err := deltalog.New(in.conn.JetStream()).Writer(context.Background(), b)
	check(t, err)
	for _, d := range deltas {
		_, err = w.Commit(context.Background(), func(deltalog.State) ([]*playbook.Delta, error) { return []*playbook.Delta{d}, nil })
		check(t, err)
	}
	check(t, w.Flush(context.Background()))
}

// idle returns an error while a role has messages to handle.
func (in *installation) idle() error {
	for _, role := range []string{events.RoleGenerator, events.RoleReflector, events.RoleCurator} {
		b, err := in.conn.Consumers.Backlog(context.Background(), role)
		if err == nil && !b.Idle() {
			err = fmt.Errorf("%s is not idle: %+v", role, b.Lag)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// eventually repeats a function until it returns no error, for up to patience.
func eventually(t testing.TB, fn func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := fn()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
