package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/app"
	"debrief/events/bus"
	"debrief/events/natsd"
	book "debrief/playbook"
)

// place says where the streams are: on a server somewhere, or in a directory of our own.
type place struct {
	app.NATS
	Data     string `help:"Directory of the embedded server, used unless --nats is given; as a flag it beats DEBRIEF_NATS. Default: ${data}." type:"path" placeholder:"DIR" env:"DEBRIEF_DATA_DIR"`
	Sync     string `help:"When the embedded server flushes to disk: 'always', or a duration such as 100ms." default:"always"`
	MaxStore bytes  `help:"Most that streams of the embedded server may take on disk." default:"16GiB"`
}

// dataDir is where streams are kept unless the user says otherwise.
func dataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "debrief")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "debrief")
	}
	return "debrief-data"
}

// Check reports settings that cannot be.
func (p place) Check() error {
	return errors.Join(p.NATS.Check(), app.Exit(app.ExitUsage, natsd.Config{Sync: p.Sync, MaxStore: int64(p.MaxStore)}.Validate()))
}

// session is an open place.
type session struct {
	*bus.Conn
	nc     *nats.Conn
	server *natsd.Server // nil when somebody else runs it
}

func (s *session) Close() {
	s.nc.Close()
	if s.server != nil {
		s.server.Close()
	}
}

// open connects to the server that the flags name, else to one that runs on the directory, else runs one there.
func (p place) open(ctx context.Context, log zerolog.Logger) (*session, error) {
	if p.NATS.NATS != "" {
		return p.dial(ctx, log)
	}
	return p.embed(ctx, "", log)
}

// running connects to a server that runs already.
func (p place) running(ctx context.Context, log zerolog.Logger) (*session, error) {
	if p.NATS.NATS == "" {
		if dir := p.dir(); dirExists(dir) {
			s, err := p.embed(ctx, "", log)
			if err != nil {
				return nil, err
			}
			if s.server == nil {
				return s, nil
			}
			s.Close() // nobody runs it
		}
		if p.Data != "" {
			return nil, p.idle()
		}
	}
	return p.dial(ctx, log)
}

// idle is the error of a directory that was named and that nobody runs a server on: another one is not what was asked for.
func (p place) idle() error {
	return app.Exit(app.ExitUnreachable, fmt.Errorf("--data: no server runs on %s: start one with 'debrief up', or name one with --nats", p.Data))
}

func dirExists(dir string) bool {
	i, err := os.Stat(dir)
	return err == nil && i.IsDir()
}

func (p place) dir() string {
	if p.Data != "" {
		return p.Data
	}
	return dataDir()
}

func (p place) dial(ctx context.Context, log zerolog.Logger) (*session, error) {
	nc, err := p.Dial("debrief", log)
	if err != nil {
		return nil, err
	}
	conn, err := p.Open(ctx, nc, "", log)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return &session{Conn: conn, nc: nc}, nil
}

// embed runs a server on the directory; when another process has it and listens, it connects to that one.
func (p place) embed(ctx context.Context, listen string, log zerolog.Logger) (*session, error) {
	user, password, token, err := p.Login()
	if err != nil {
		return nil, err
	}
	cfg := natsd.Config{
		Dir: p.dir(), Listen: listen, Sync: p.Sync, MaxStore: int64(p.MaxStore),
		User: user, Password: password, Token: token,
		OnError: func(text string) { log.Error().Str("server", text).Msg("nats server") },
	}
	return p.start(ctx, cfg, log)
}

// scratch runs a server that leaves nothing behind.
func (p place) scratch(ctx context.Context, sync string, log zerolog.Logger) (*session, error) {
	return p.start(ctx, natsd.Config{Sync: sync}, log)
}

func (p place) start(ctx context.Context, cfg natsd.Config, log zerolog.Logger) (*session, error) {
	if err := cfg.Validate(); err != nil {
		return nil, app.Exit(app.ExitUsage, err)
	}
	server, err := natsd.Start(cfg)
	var used *natsd.InUseError
	switch {
	case errors.As(err, &used) && used.URL != "" && cfg.Listen == "":
		p.NATS.NATS = used.URL
		return p.dial(ctx, log)
	case errors.As(err, &used):
		return nil, app.Exit(app.ExitRefused, err)
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, app.Exit(app.ExitRefused, fmt.Errorf("--listen: another program listens at %s: choose another address, or port 0 for any free one", cfg.Listen))
	case err != nil:
		return nil, err
	}
	nc, err := server.Connect(app.Options("debrief", log)...)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	conn, err := p.Open(ctx, nc, "", log)
	if err != nil {
		nc.Close()
		server.Close()
		return nil, err
	}
	server.Watch(conn.StoreClosed)
	if cfg.Listen == "" { // else workers elsewhere may still have what they took
		if err := conn.Reclaim(ctx); err != nil {
			log.Warn().Err(err).Msg("what was in work comes again after its ack wait")
		}
	}
	return &session{Conn: conn, nc: nc, server: server}, nil
}

// bytes is a size on the command line: a number with an optional KiB, MiB or GiB.
type bytes int64

// String is the size as UnmarshalText reads it.
func (b bytes) String() string {
	for _, u := range []struct {
		name  string
		scale bytes
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b >= u.scale && b%u.scale == 0 {
			return fmt.Sprintf("%d%s", b/u.scale, u.name)
		}
	}
	return fmt.Sprint(int64(b))
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (b *bytes) UnmarshalText(text []byte) error {
	var n float64
	var unit string
	if _, err := fmt.Sscanf(string(text)+" ", "%f%s", &n, &unit); err != nil && unit != "" || n < 0 {
		return fmt.Errorf("want a size such as 512MiB, got %q", text)
	}
	scale, ok := map[string]float64{"": 1, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}[unit]
	if !ok || n == 0 {
		return fmt.Errorf("want a size such as 512MiB, got %q", text)
	}
	*b = bytes(n * scale)
	return nil
}

// bookName checks the name of a book from the command line.
func bookName(name string) (book.Book, error) {
	b := book.Book(name)
	if err := b.Validate(); err != nil {
		return "", app.Exit(app.ExitUsage, fmt.Errorf("--book: %w", err))
	}
	return b, nil
}
