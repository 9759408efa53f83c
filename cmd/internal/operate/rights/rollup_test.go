package rights_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"debrief/cmd/internal/operate/rights"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/streams"
)

// TestRollupsAreRefused publishes, as each user and to each subject that the user may write, a message with the header
// Nats-Rollup. No stream may lose a message. The control allows rollups in each stream and sees the loss.
func TestRollupsAreRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		allowed bool
	}{{"as created", false}, {"control with rollups", true}} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := newRollupServer(t)
			s.fill()
			if test.allowed {
				s.allowRollups()
			}
			lost := map[string]bool{}
			for _, user := range rights.Users() {
				for stream := range s.attack(user) {
					lost[stream] = true
				}
			}
			for _, cfg := range s.streams {
				switch {
				case cfg.DenyPurge: // the server allows no rollups in a stream that cannot be purged
				case lost[cfg.Name] != test.allowed:
					t.Errorf("stream %s: lost messages %t, want %t", cfg.Name, lost[cfg.Name], test.allowed)
				}
			}
		})
	}
}

// rollupServer is a server with one tenant and its streams.
type rollupServer struct {
	*testing.T
	conns   map[string]*nats.Conn // by user
	js      jetstream.JetStream   // of the operator
	streams []jetstream.StreamConfig
}

func newRollupServer(t *testing.T) *rollupServer {
	t.Helper()
	x, pairs := rights.Tenant{Name: "m", Keys: map[string]string{}}, map[string]nkeys.KeyPair{}
	for _, user := range rights.Users() {
		pair, err := nkeys.CreateUser()
		if err != nil {
			t.Fatal(err)
		}
		pairs[user.Name] = pair
		if x.Keys[user.Name], err = pair.PublicKey(); err != nil {
			t.Fatal(err)
		}
	}
	limits, err := os.ReadFile("../../../../deploy/nats/limits.conf")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "limits.conf"), string(limits))
	write(t, filepath.Join(dir, "secrets", "accounts.conf"), rights.Conf([]rights.Tenant{x}))
	write(t, filepath.Join(dir, "server.conf"), "include \"secrets/accounts.conf\"\njetstream: {store_dir: \""+dir+"\"}\n")
	o, err := server.ProcessConfigFile(filepath.Join(dir, "server.conf"))
	if err != nil {
		t.Fatal(err)
	}
	o.NoSigs, o.NoLog, o.DontListen = true, true, true
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	s := &rollupServer{T: t, conns: map[string]*nats.Conn{}, streams: streams.All(1)}
	for user, pair := range pairs {
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.CustomInboxPrefix(events.InboxPrefix(user)),
			nats.Nkey(x.Keys[user], func(nonce []byte) ([]byte, error) { return pair.Sign(nonce) }), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		s.conns[user] = nc
	}
	if _, err := bus.Open(t.Context(), s.conns[events.UserOperator], bus.Options{}); err != nil {
		t.Fatal(err)
	}
	if s.js, err = jetstream.New(s.conns[events.UserOperator]); err != nil {
		t.Fatal(err)
	}
	return s
}

// subjectsOf returns the subjects of a stream that a grant allows to write, with two different last tokens.
func subjectsOf(cfg jetstream.StreamConfig, grant string) (subjects []string) {
	for _, of := range cfg.Subjects {
		narrow := grant
		switch {
		case rights.Covers(grant, of):
			narrow = of
		case !rights.Covers(of, grant):
			continue
		}
		for _, last := range []string{"a", "b"} {
			subjects = append(subjects, strings.NewReplacer("*", last, ">", last).Replace(narrow))
		}
	}
	return subjects
}

// writers calls fn for each subject of a stream that a user may write.
func (s *rollupServer) writers(user rights.User, fn func(cfg jetstream.StreamConfig, subject string)) {
	for _, grant := range user.Publish {
		for _, cfg := range s.streams {
			for _, subject := range subjectsOf(cfg, grant.Subject) {
				denied := false
				for _, pattern := range user.Deny {
					denied = denied || rights.Covers(pattern, subject)
				}
				if !denied {
					fn(cfg, subject)
				}
			}
		}
	}
}

// publish publishes a message as a user and waits for the answer of the stream, which may be an error.
func (s *rollupServer) publish(user, subject, rollup string) string {
	s.Helper()
	m := &nats.Msg{Subject: subject, Header: nats.Header{}, Data: []byte("x")}
	if rollup != "" {
		m.Header.Set(jetstream.MsgRollup, rollup)
	}
	answer, err := s.conns[user].RequestMsg(m, 10*time.Second)
	if err != nil {
		s.Fatalf("%s publishes to %s: %v", user, subject, err)
	}
	return string(answer.Data)
}

// fill stores messages under each subject that a user may write.
func (s *rollupServer) fill() {
	s.Helper()
	for _, user := range rights.Users() {
		s.writers(user, func(_ jetstream.StreamConfig, subject string) {
			if answer := s.publish(user.Name, subject, ""); strings.Contains(answer, "error") {
				s.Fatalf("%s publishes to %s: %s", user.Name, subject, answer)
			}
		})
	}
	for name, n := range s.messages() {
		if n < 2 {
			s.Fatalf("stream %s: %d messages, so that a loss would not show", name, n)
		}
	}
}

func (s *rollupServer) allowRollups() {
	s.Helper()
	for _, cfg := range s.streams {
		if cfg.DenyPurge {
			continue
		}
		cfg.AllowRollup = true
		if _, err := s.js.UpdateStream(s.Context(), cfg); err != nil {
			s.Fatal(err)
		}
	}
}

// messages returns the number of messages of each stream.
func (s *rollupServer) messages() map[string]uint64 {
	s.Helper()
	n := map[string]uint64{}
	for _, cfg := range s.streams {
		stream, err := s.js.Stream(s.Context(), cfg.Name)
		if err != nil {
			s.Fatal(err)
		}
		n[cfg.Name] = stream.CachedInfo().State.Msgs
	}
	return n
}

// attack publishes rollups as a user to each subject that it may write, and returns the streams that lost messages.
func (s *rollupServer) attack(user rights.User) (lost map[string]bool) {
	s.Helper()
	lost = map[string]bool{}
	before := s.messages()
	s.writers(user, func(cfg jetstream.StreamConfig, subject string) {
		for _, rollup := range []string{jetstream.MsgRollupAll, jetstream.MsgRollupSubject} {
			s.publish(user.Name, subject, rollup)
			after := s.messages()
			if after[cfg.Name] < before[cfg.Name] {
				lost[cfg.Name] = true
				s.Logf("%s removed %d messages of %s by a rollup of %s", user.Name, before[cfg.Name]-after[cfg.Name], cfg.Name, subject)
			}
			before = after
		}
	})
	return lost
}
