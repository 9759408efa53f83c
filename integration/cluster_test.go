package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	mobynet "github.com/moby/moby/api/types/network"
	moby "github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"

	"debrief/events"
	"debrief/integration/programs"
)

// cluster has three servers, workers and their model, each in a container. The servers use one network among themselves
// and another one with their clients, so that a server can be partitioned from the others but reach its clients.
type cluster struct {
	t       *testing.T
	engine  *testcontainers.DockerClient
	host    string // where the engine publishes ports
	image   string
	clients string // names of the networks
	routes  string
	nodes   []*node
	workers []*containerRef
}

// containerRef holds name and id of a container.
type containerRef struct{ name, id string }

// node is a server's container with its addresses for the test.
type node struct {
	containerRef
	url, health string
}

// startCluster starts all containers at once. Workers may start before the servers or before a leader is elected.
func startCluster(t *testing.T, ctx context.Context, replicas map[string]int) *cluster {
	t.Helper()
	requireEngine(t)
	began := time.Now()
	packages := []string{"github.com/nats-io/nats-server/v2"}
	if runtime.GOOS != "linux" {
		packages = append(packages, "./cmd/...")
	}
	dir := buildContext(t, "FROM scratch\nCOPY root/ /\nCOPY nats.conf /nats.conf\n", packages...)
	if runtime.GOOS == "linux" { // the containers can run the programs of this machine
		for _, name := range []string{"generator", "reflector", "curator", "debrief"} {
			if err := programs.Link(program(t, name), filepath.Join(dir, "root", name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "nats.conf"), []byte(serverConfig), 0o600); err != nil {
		t.Fatal(err)
	}
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, engine: provider.Client().(*testcontainers.DockerClient)}
	if c.host, err = provider.DaemonHost(ctx); err != nil {
		t.Fatal(err)
	}
	c.image, err = provider.BuildImage(ctx, &testcontainers.ContainerRequest{
		FromDockerfile: testcontainers.FromDockerfile{Context: dir, Repo: "debrief-cluster-test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, err := c.engine.ImageRemove(context.WithoutCancel(ctx), c.image, moby.ImageRemoveOptions{Force: true, PruneChildren: true})
		if err != nil {
			t.Errorf("remove image %s: %v", c.image, err)
		}
	})
	built := time.Since(began)
	c.clients = c.network(ctx)
	c.routes = c.network(ctx, network.WithInternal()) // else connections to the host may use it

	var all sync.WaitGroup
	for i := range 3 {
		n := &node{containerRef: containerRef{name: fmt.Sprint("n", i+1)}}
		c.nodes = append(c.nodes, n)
		all.Go(func() { c.startServer(ctx, n) })
	}
	all.Go(func() {
		c.start(ctx, "model", c.inClients("model"), testcontainers.WithCmd("/debrief", "simulate", "--address", "0.0.0.0:8080", "--latency", "20ms"))
	})
	for role, most := range replicas {
		for i := range most {
			w := &containerRef{name: fmt.Sprint(role, i+1)}
			c.workers = append(c.workers, w)
			all.Go(func() {
				w.id = c.start(ctx, w.name, c.inClients(w.name), testcontainers.WithCmd("/"+role,
					"--nats", "nats://n1:4222,nats://n2:4222,nats://n3:4222", "--replicas", "3", "--ack-wait", clusterAckWait.String(),
					"--model", "simulated-invoice-desk", "--base-url", "http://model:8080/v1", "--log-level", "info"))
			})
		}
	}
	all.Wait()
	if t.Failed() {
		t.FailNow()
	}
	t.Logf("image within %.1f s, containers within %.1f s", built.Seconds(), (time.Since(began) - built).Seconds())
	return c
}

// clusterAckWait is the ack wait of the workers.
const clusterAckWait = 5 * time.Second

func (c *cluster) network(ctx context.Context, opts ...network.NetworkCustomizer) (name string) {
	c.t.Helper()
	n, err := network.New(ctx, opts...)
	if err != nil {
		c.t.Fatal(err)
	}
	testcontainers.CleanupNetwork(c.t, n)
	return n.Name
}

func (c *cluster) inClients(alias string) testcontainers.CustomizeRequestOption {
	return network.WithNetworkName([]string{alias}, c.clients)
}

// start starts a container and returns its id, "" after an error.
func (c *cluster) start(ctx context.Context, name string, opts ...testcontainers.ContainerCustomizer) string {
	ctr, err := testcontainers.Run(ctx, c.image, opts...)
	testcontainers.CleanupContainer(c.t, ctr)
	if err != nil {
		c.t.Errorf("start %s: %v", name, err)
		return ""
	}
	return ctr.GetContainerID()
}

const clientPort, healthPort = "4222/tcp", "8222/tcp"

// serverConfig is the common configuration of the servers. The ping interval of routes is short: with the default of 30 s a
// server would need that long to find the others after a partition.
const serverConfig = `listen: "0.0.0.0:4222"
http: "0.0.0.0:8222"
jetstream: { store_dir: "/data" }
cluster: {
  name: debrief, listen: "0.0.0.0:6222", no_advertise: true
  routes: ["nats-route://route-n1:6222", "nats-route://route-n2:6222", "nats-route://route-n3:6222"]
  ping_interval: "3s", ping_max: 2
}
`

// startServer starts a server. It has the same host ports after a restart.
func (c *cluster) startServer(ctx context.Context, n *node) {
	bindings := mobynet.PortMap{}
	for port, at := range map[string]*string{clientPort: &n.url, healthPort: &n.health} {
		_, free, _ := net.SplitHostPort(freeAddress(c.t))
		*at = net.JoinHostPort(c.host, free)
		bindings[mobynet.MustParsePort(port)] = []mobynet.PortBinding{{HostIP: netip.IPv4Unspecified(), HostPort: free}}
	}
	n.id = c.start(ctx, n.name, c.inClients(n.name), network.WithNetworkName([]string{n.route()}, c.routes),
		testcontainers.WithExposedPorts(clientPort, healthPort),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) { h.PortBindings = bindings }),
		testcontainers.WithCmd("/nats-server", "--config", "/nats.conf", "--name", n.name))
}

// route returns the server's host name in the network of the servers.
func (n *node) route() string { return "route-" + n.name }

// urls returns the client addresses of the servers.
func (c *cluster) urls() string {
	all := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		all[i] = n.url
	}
	return strings.Join(all, ",")
}

func (c *cluster) node(name string) *node {
	for _, n := range c.nodes {
		if n.name == name {
			return n
		}
	}
	return nil
}

// healthy returns an error unless the server reports that it is up and its replicas are current.
func (n *node) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	status, body, err := get(ctx, "http://"+n.health+"/healthz")
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: %d: %s", n.name, status, body)
	}
	return err
}

// awaitHealthy waits for all servers.
func (c *cluster) awaitHealthy(ctx context.Context) {
	c.t.Helper()
	for _, n := range c.nodes {
		eventually(c.t, time.Minute, n.name+" is healthy", func() error { return n.healthy(ctx) })
	}
}

// supervise restarts workers that exited because no server was usable, as a supervisor does. Another exit is an error. stop
// ends it and returns the number of restarts.
func (c *cluster) supervise(ctx context.Context) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	again, over := 0, make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			for _, w := range c.workers {
				again += c.revive(ctx, w)
			}
			pause(ctx, time.Second)
		}
	}()
	stop = func() int { cancel(); <-over; return again }
	c.t.Cleanup(func() { stop() })
	return stop
}

// revive restarts a worker that has exited, and returns the number of restarts.
func (c *cluster) revive(ctx context.Context, w *containerRef) int {
	i, err := c.engine.ContainerInspect(ctx, w.id, moby.ContainerInspectOptions{})
	if ctx.Err() != nil || err == nil && i.Container.State.Running {
		return 0
	}
	if err != nil {
		c.t.Errorf("inspect %s: %v", w.name, err)
		return 0
	}
	if code := i.Container.State.ExitCode; code != 4 {
		c.t.Errorf("%s ended by itself with exit code %d:\n%s", w.name, code, c.logs(ctx, w))
	} else {
		c.t.Logf("%s exited without a usable server and is restarted: %s", w.name, tail(c.logs(ctx, w), 1))
	}
	if _, err := c.engine.ContainerStart(ctx, w.id, moby.ContainerStartOptions{}); err != nil && ctx.Err() == nil {
		c.t.Errorf("start %s: %v", w.name, err)
		return 0
	}
	return 1
}

// dismiss stops all workers and checks their exit codes.
func (c *cluster) dismiss(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range c.workers {
		all.Go(func() {
			before, err := c.engine.ContainerInspect(ctx, w.id, moby.ContainerInspectOptions{})
			if err == nil && !before.Container.State.Running && before.Container.State.ExitCode == 4 {
				c.t.Logf("%s had exited without a usable server: %s", w.name, tail(c.logs(ctx, w), 1))
				return
			}
			grace := 40
			_, err = c.engine.ContainerStop(ctx, w.id, moby.ContainerStopOptions{Timeout: &grace})
			i, ierr := c.engine.ContainerInspect(ctx, w.id, moby.ContainerInspectOptions{})
			if err := errors.Join(err, ierr); err != nil {
				c.t.Errorf("stop %s: %v", w.name, err)
			} else if code := i.Container.State.ExitCode; code != 0 {
				c.t.Errorf("stop %s: exit code %d, want 0:\n%s", w.name, code, c.logs(ctx, w))
			}
		})
	}
	all.Wait()
}

// logs returns the end of a container's log.
func (c *cluster) logs(ctx context.Context, w *containerRef) string {
	out, err := c.engine.ContainerLogs(ctx, w.id, moby.ContainerLogsOptions{ShowStdout: true, ShowStderr: true, Tail: "30"})
	if err != nil {
		return err.Error()
	}
	defer out.Close()
	data, err := io.ReadAll(out)
	return cmp.Or(strings.ToValidUTF8(string(data), ""), fmt.Sprint(err))
}

// Functions that inject a fault, and that end it.

func (c *cluster) kill(ctx context.Context, n *node) error {
	_, err := c.engine.ContainerKill(ctx, n.id, moby.ContainerKillOptions{Signal: "KILL"})
	return err
}

func (c *cluster) boot(ctx context.Context, n *node) error {
	_, err := c.engine.ContainerStart(ctx, n.id, moby.ContainerStartOptions{})
	return err
}

func (c *cluster) freeze(ctx context.Context, n *node) error {
	_, err := c.engine.ContainerPause(ctx, n.id, moby.ContainerPauseOptions{})
	return err
}

func (c *cluster) thaw(ctx context.Context, n *node) error {
	_, err := c.engine.ContainerUnpause(ctx, n.id, moby.ContainerUnpauseOptions{})
	return err
}

// cut removes a server from the network of the servers; join adds it again.
func (c *cluster) cut(ctx context.Context, n *node) error { return c.leave(ctx, n, c.routes) }

func (c *cluster) join(ctx context.Context, n *node) error {
	return c.enter(ctx, n, c.routes, n.route())
}

// unplug removes a server from the network of the clients too; plug adds it again.
func (c *cluster) unplug(ctx context.Context, n *node) error {
	return errors.Join(c.leave(ctx, n, c.routes), c.leave(ctx, n, c.clients))
}

func (c *cluster) plug(ctx context.Context, n *node) error {
	return errors.Join(c.enter(ctx, n, c.clients, n.name), c.enter(ctx, n, c.routes, n.route()))
}

func (c *cluster) leave(ctx context.Context, n *node, network string) error {
	_, err := c.engine.NetworkDisconnect(ctx, network, moby.NetworkDisconnectOptions{Container: n.id, Force: true})
	return err
}

func (c *cluster) enter(ctx context.Context, n *node, network, alias string) error {
	_, err := c.engine.NetworkConnect(ctx, network, moby.NetworkConnectOptions{
		Container: n.id, EndpointConfig: &mobynet.EndpointSettings{Aliases: []string{alias}},
	})
	return err
}

// shutdown stops a server gracefully, as an upgrade does.
func (c *cluster) shutdown(ctx context.Context, n *node) error {
	_, err := c.engine.ContainerStop(ctx, n.id, moby.ContainerStopOptions{})
	return err
}

// workersPerRole is the number of workers of each role.
var workersPerRole = map[string]int{events.RoleGenerator: 2, events.RoleReflector: 3, events.RoleCurator: 2}
