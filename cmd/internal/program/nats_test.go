package program_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
	"debrief/events/natsd"
	"debrief/events/streams"
)

func TestMain(m *testing.M) {
	bustest.Prepare()
	m.Run()
}

func TestInvalidAddressErrorHidesCredentials(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"nats://s3cret@host:nowhere":               `--nats: nats://…@host:nowhere: `,
		"s3cret@ho st":                             `--nats: …@ho st: `,
		"host:nowhere":                             `--nats: host:nowhere: `,
		"nats://one:4222,nats://ann:s3cret@two:x":  `--nats: nats://one:4222,nats://…@two:x: `,
		"nats://ann:s3cret/s3cret@host:4222":       "--nats: nats://…@host:4222: ",
		"nats://s3cret/s3cret@host:4222":           "--nats: nats://…@host:4222: ",
		"nats://s3cret#s3cret@host:4222":           "--nats: nats://…@host:4222: ",
		"nats://ann:s3cret,s3cret@host":            "--nats: nats://…@host: ",
		"nats://ann:100%s3cret@host":               "--nats: nats://…@host: ",
		"nats://one, nats://s3cret@two/s3cret@two": "--nats: nats://one, nats://…@two: ",
	} {
		n := program.NATS{NATS: address, Replicas: 1}
		_, dialed := n.Dial("debrief", zerolog.Nop())
		for _, err := range []error{n.Check(), dialed} {
			if program.ExitCode(err) != program.ExitUsage || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%s: got %v, exit code %d, want an error that begins with %s", address, err, program.ExitCode(err), want)
			}
		}
	}
	for _, address := range []string{
		"", "host", "nats://host:4222", "tls://one:4222, tls://two", "nats://ann:s3cret@host", "token@host:4222", "nats://[::1]:4222",
		"nats://ann:a%2Fb@[fe80::1%25eth0]:4222", "ws://token@host:80/path",
	} {
		if err := (program.NATS{NATS: address, Replicas: 1}).Check(); err != nil {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// done is a role that returns at once.
type done struct{}

func (done) Run(context.Context, *bus.Conn) error { return nil }

// TestWorkerPrintsItsStart has a token in the address, which must be in no output. The test is not parallel, because it
// replaces standard output and standard error.
func TestWorkerPrintsItsStart(t *testing.T) {
	srv, err := natsd.Start(natsd.Config{Listen: "127.0.0.1:0", Token: "s3cret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(srv.Close)
	name, out, errors := filepath.Join(t.TempDir(), "output"), os.Stdout, os.Stderr
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout, os.Stderr = f, f
	t.Cleanup(func() { f.Close(); os.Stdout, os.Stderr = out, errors })
	w := program.Worker{NATS: program.NATS{NATS: strings.Replace(srv.URL(), "://", "://s3cret@", 1)}, Common: program.Common{LogLevel: "info"}}
	if err := w.Work(t.Context(), events.RoleReflector, program.MetricsWithoutFigures(events.RoleReflector), "model m at http://x/v1", done{}); err != nil {
		t.Fatal(err)
	}
	said, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	want := "reflector is running: server " + strings.Replace(srv.URL(), "://", "://…@", 1) + ", all playbooks, model m at http://x/v1\nreflector has stopped\n"
	if !strings.Contains(string(said), want) || strings.Contains(string(said), "s3cret") {
		t.Errorf("got %s, want %s", said, want)
	}
}

// TestInterruptedRestoreIsRefused: only the command that restores a backup opens the streams.
func TestInterruptedRestoreIsRefused(t *testing.T) {
	t.Parallel()
	conn, nc := bustest.Open(t, bus.Policy{})
	s, err := conn.JetStream().Stream(t.Context(), streams.Attempts)
	if err != nil {
		t.Fatal(err)
	}
	cfg := s.CachedInfo().Config
	cfg.Metadata = map[string]string{streams.MetadataRestoring: "2026-11-20T15:04:05Z"}
	if _, err := conn.JetStream().UpdateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	n := program.NATS{Replicas: 1}
	_, err = n.Open(t.Context(), nc, "", zerolog.Nop())
	_, readErr := n.OpenReading(t.Context(), nc, zerolog.Nop())
	for _, err := range []error{err, readErr} {
		if !errors.Is(err, bus.ErrRestoring) || program.ExitCode(err) != program.ExitRefused {
			t.Errorf("got error %v with exit code %d, want %v with %d", err, program.ExitCode(err), bus.ErrRestoring, program.ExitRefused)
		}
	}
	if _, err := n.OpenRestoring(t.Context(), nc, zerolog.Nop()); err != nil {
		t.Errorf("for a restore: %v", err)
	}
}

// TestUnsuitableStreamsAreNotUnreachable: a stream with another configuration does not change without an operator.
func TestUnsuitableStreamsAreNotUnreachable(t *testing.T) {
	t.Parallel()
	for field, have := range map[string]jetstream.StreamConfig{
		"retention": {Name: events.StreamTasks, Subjects: events.TaskSubjects(""), AllowDirect: true},
		"":          {Name: "MINE", Subjects: []string{"debrief.>"}},
	} {
		srv, err := natsd.Start(natsd.Config{Listen: "127.0.0.1:0"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(srv.Close)
		n := program.NATS{NATS: srv.URL()}
		nc, err := n.Dial("debrief", zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.CreateStream(t.Context(), have); err != nil {
			t.Fatal(err)
		}
		_, err = n.Open(t.Context(), nc, "", zerolog.Nop())
		if unsuitable := (*streams.ConfigError)(nil); !errors.As(err, &unsuitable) || unsuitable.Stream != events.StreamTasks || unsuitable.Field != field || program.ExitCode(err) != program.ExitRefused {
			t.Errorf("got %v, exit code %d, want a ConfigError of %q, exit code %d", err, program.ExitCode(err), field, program.ExitRefused)
		}
	}
}
