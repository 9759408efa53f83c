package bus

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"debrief/events"
	"debrief/events/natsd"
)

// startIdle starts a worker without messages.
func startIdle(t *testing.T, nc *nats.Conn) *Conn {
	t.Helper()
	t.Cleanup(nc.Close)
	c := openOn(t, nc, fastPolicy)
	start(t, c, Worker{Role: events.RoleReflector, Handle: func(context.Context, []*Delivery) []Result { return nil }})
	awaitState(t, c, Running)
	return c
}

// TestIdleRoleWithoutServerIsUnavailable: an idle role does not notice the outage by itself.
func TestIdleRoleWithoutServerIsUnavailable(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := t.TempDir()
	srv := serve(t, natsd.Config{Dir: dir, Listen: "127.0.0.1:0"})
	nc, err := nats.Connect(srv.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := startIdle(t, nc)
	srv.Close()
	h := awaitState(t, c, Unavailable)
	if h.Healthy() || h.Reason == "" || time.Since(h.Since) > waitLimit {
		t.Errorf("got %+v", h)
	}
	time.Sleep(10 * time.Millisecond)
	if again := health1(t, c); !again.Since.Equal(h.Since) {
		t.Errorf("unavailable since %s, and then since %s", h.Since, again.Since)
	}
	serve(t, natsd.Config{Dir: dir, Listen: strings.TrimPrefix(srv.URL(), "nats://")})
	awaitState(t, c, Running)
}

// TestIdleRoleRecoversWhenRightsAreGranted: it recovers without a new message.
func TestIdleRoleRecoversWhenRightsAreGranted(t *testing.T) {
	if raceDetector {
		t.Skip("nats-server 2.15.2 itself has a race between ReloadOptions and a direct get")
	}
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	t.Parallel()
	dir := t.TempDir()
	rights := func(denied ...string) server.Options {
		return server.Options{JetStream: true, StoreDir: dir, Users: []*server.User{{Username: "u", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{">"}, Deny: denied},
		}}}}
	}
	srv := startNATS(t, rights())
	nc, err := nats.Connect(srv.ClientURL(), nats.UserInfo("u", "p"), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectJitter(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	c := startIdle(t, nc)
	reload := func(denied ...string) {
		t.Helper()
		changed := rights(denied...)
		changed.Host, changed.Port, changed.NoSigs, changed.NoLog = "127.0.0.1", server.RANDOM_PORT, true, true
		if err := srv.ReloadOptions(&changed); err != nil {
			t.Fatal(err)
		}
	}
	reload(pullSubject + ">")
	if h := awaitState(t, c, Unavailable); !strings.Contains(h.Reason, pullSubject) {
		t.Errorf("got %+v, want the subject that was refused", h)
	}
	reload()
	awaitState(t, c, Running)
}
