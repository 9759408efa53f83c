package bus

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"debrief/events"
	"debrief/events/natsd"
)

// TestConnectionLeavesUnresponsiveServer: a server that is cut off from its cluster accepts connections without
// streams, like a server without JetStream. A client that knows another server connects to that one.
func TestConnectionLeavesUnresponsiveServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	cut := startNATS(t, server.Options{})
	whole := serve(t, natsd.Config{Listen: "127.0.0.1:0"})
	open(t, whole, fastPolicy) // creates the streams
	nc, err := nats.Connect(cut.ClientURL()+","+whole.URL(), nats.DontRandomize(), nats.ReconnectWait(time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	c := newConn(nc, js, Options{Policy: Policy{ReconnectAfter: time.Millisecond}})
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	silent := 0
	for {
		_, err := c.Publish(ctx, task("main", 1), PublishOptions{})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatalf("after %d publishes: connected to %s: %v", silent, nc.ConnectedUrl(), err)
		}
		if silent++; !Unreachable(err) {
			t.Errorf("got %v, want it to be the server's fault", err)
		}
	}
	if silent < 2 || nc.ConnectedUrl() != whole.URL() {
		t.Errorf("stored after %d publishes without an answer, through %s; want at least 2, and %s", silent, nc.ConnectedUrl(), whole.URL())
	}
}

// TestOpenWaitsForClusterLeader: two of three servers are not running yet, and the third drops all requests.
func TestOpenWaitsForClusterLeader(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	free, routes := make([]net.Listener, 3), make([]*url.URL, 3)
	for i := range free {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		free[i], routes[i] = l, &url.URL{Scheme: "nats-route", Host: l.Addr().String()}
	}
	join := func(i int) *server.Server {
		free[i].Close()
		return startNATS(t, server.Options{
			ServerName: fmt.Sprint("s", i), JetStream: true, StoreDir: t.TempDir(), Routes: routes,
			Cluster: server.ClusterOpts{Name: "three", Host: "127.0.0.1", Port: free[i].Addr().(*net.TCPAddr).Port},
		})
	}
	nc, err := nats.Connect(join(0).ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	asked, err := nc.SubscribeSync("$JS.API.STREAM.INFO." + events.StreamTasks) // also receives the requests
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan error, 1)
	go func() {
		_, err := Open(ctx, nc, Options{})
		opened <- err
	}()
	for range 2 { // the second request shows that the first was dropped
		if _, err := asked.NextMsgWithContext(ctx); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-opened:
		t.Fatalf("opened with one server of three: %v", err)
	default:
	}
	join(1)
	join(2)
	if err := <-opened; err != nil {
		t.Errorf("got %v", err)
	}
}
