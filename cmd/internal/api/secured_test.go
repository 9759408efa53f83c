package api

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/agents/otlp"
	"debrief/cmd/internal/api/apitest"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/operate/rights"
	"debrief/cmd/internal/program"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/chat"
	"debrief/events/client"
	"debrief/generator"
	"debrief/playbook"
	"debrief/reflector"
)

// TestRoutesAsGateway sends the example of each route to an API with the rights of the NATS user gateway. All roles have their own
// users, and the server has the configuration of deploy.
func TestRoutesAsGateway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	startSecuredWorld(t).sendExamples(t)
}

// TestRequeueAsGateway requeues and drops a dead letter of each role with the rights of the NATS user gateway.
func TestRequeueAsGateway(t *testing.T) {
	t.Parallel()
	w := startSecuredWorld(t)
	w.seed(t)
	task := &events.Task{ID: "t-7", Question: "What is six times seven?", Created: time.Now().UTC()}
	execution := &events.Execution{ID: events.NewID(), RunID: "t-8", Question: "q", Answer: "a", Started: time.Now().UTC()}
	edit := &events.Edit{ID: events.NewID(), Author: "seed", Created: time.Now().UTC(), Ops: []playbook.Op{add("Measure twice.")}}
	task.Book, execution.Book, edit.Book = "default", "default", "default"
	for role, e := range map[string]events.Event{events.RoleGenerator: task, events.RoleReflector: execution, events.RoleCurator: edit} {
		w.send(t, 200, "DELETE", "/dead/"+w.buryEvent(t, role, e), "")
		w.send(t, 200, "POST", "/dead/"+w.buryEvent(t, role, e)+"/requeue", "")
	}
	eventually(t, func() error {
		reply, _ := w.send(t, 200, "GET", "/books/default/bullets?q=Measure", "")
		if len(ids(reply, "id")) != 1 {
			return fmt.Errorf("the requeued edit had no effect: got %v", reply)
		}
		return nil
	})
}

// TestTracesAsGateway stores and closes a trace with the rights of the NATS user gateway.
func TestTracesAsGateway(t *testing.T) {
	t.Parallel()
	w := startSecuredWorld(t)
	store := otlp.New(w.conn, client.NATS(w.conn.NATS()), otlp.Config{Quiet: 100 * time.Millisecond, Log: zerolog.New(zerolog.NewTestWriter(t))})
	inBackground(t, store.Run)
	h := otlp.NewHandler(nil)
	h.SetStore(store)
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	const body = `{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00f067aa0ba902b7","attributes":[
		{"key":"gen_ai.operation.name","value":{"stringValue":"chat"}},{"key":"input.value","value":{"stringValue":"Which shelf?"}},{"key":"output.value","value":{"stringValue":"Shelf 7."}}]}]}]}]}`
	if code, _, text := do(t, server.Client(), "POST", server.URL+otlp.Path, body, set("Content-Type", "application/json")); code != 200 {
		t.Fatalf("got %d %s", code, text)
	}
	eventually(t, func() error {
		code, _, text := do(t, w.client, "GET", w.URL()+prefix+"/books/default/executions", "", bearer(w.token)) // 404 until there is one
		if strings.Count(text, `"handle"`) != 1 {
			return fmt.Errorf("got the executions %d %s, want that of the trace", code, text)
		}
		return nil
	})
}

// startSecuredWorld starts a world in which each program has its own NATS user, and an operator token.
func startSecuredWorld(t *testing.T) *world {
	t.Helper()
	s := startSecuredServer(t)
	w := &world{admin: s.open(t, "debrief")}
	if err := w.admin.Consumers.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := metrics.New("test", "", metrics.Figures{})
	for role, run := range map[string]program.Role{
		events.RoleGenerator: bustest.Must(generator.New(chat.ModelFunc(answer), nil, generator.Config{}, program.NATSEndpoint(m))),
		events.RoleReflector: bustest.Must(reflector.New(nil, reflector.Config{})), events.RoleCurator: bustest.Must(curator.New(nil, curator.Config{})),
	} {
		runRoles(t, s.open(t, role), run)
	}
	set, secrets := apitest.Load(t, t.TempDir(), apitest.Grant{Name: "operator", Scopes: tokens.Scopes})
	w.token, w.conn = secrets["operator"], s.open(t, events.UserGateway)
	w.Server, w.client = open(t, client.NATS(w.conn.NATS()), Options{Tokens: set, Conn: w.conn, Index: runIndex(t, w.conn), Log: zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)}, defaultLimits)
	return w
}

// securedServer is a server with the configuration of deploy and the users of one tenant.
type securedServer struct{ url, secrets string }

const tenant = "debrief"

func startSecuredServer(t *testing.T) *securedServer {
	t.Helper()
	dir := t.TempDir()
	credentials := rights.Credentials{Dir: filepath.Join(dir, "secrets"), Tenants: []string{tenant}}
	if _, err := credentials.Create(); err != nil {
		t.Fatal(err)
	}
	files := strings.NewReplacer("/etc/nats", dir, `"/data"`, strconv.Quote(filepath.Join(dir, "data")), "0.0.0.0:4222", "127.0.0.1:-1",
		`http: "0.0.0.0:8222"`, `http: "127.0.0.1:-1"`, "sync_interval: always", `sync_interval: "1m"`) // tests need no protection against power loss
	for _, name := range []string{"server.conf", "limits.conf"} {
		text, err := os.ReadFile(filepath.Join("../../../deploy/nats", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), files.Replace(string(text)))
	}
	o, err := server.ProcessConfigFile(filepath.Join(dir, "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog = true, true
	s, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(patience) {
		t.Fatal("the server is not ready")
	}
	return &securedServer{s.ClientURL(), credentials.Dir}
}

// open connects as the user of a program, and opens its streams.
func (s *securedServer) open(t *testing.T, name string) *bus.Conn {
	t.Helper()
	user, role := name, name
	if name == "debrief" {
		user, role = events.UserOperator, ""
	}
	login, err := nats.NkeyOptionFromSeed(filepath.Join(s.secrets, tenant, user+".nk"))
	if err != nil {
		t.Fatal(err)
	}
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	nc, err := nats.Connect(s.url, append(program.ConnOptions(name, log), login, nats.RootCAs(filepath.Join(s.secrets, "ca.pem")), nats.Timeout(patience))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	conn, err := bus.Open(t.Context(), nc, bus.Options{Role: role, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
