package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/operate/doctor"
	"debrief/cmd/internal/program"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/natsd"
	"debrief/events/streams"
	"debrief/playbook"
)

// ServerFlags holds the flags that select the server with the streams: a remote server, or an embedded one on a directory.
type ServerFlags struct {
	program.NATS
	Data     string       `help:"Data directory of the embedded server; overrides DEBRIEF_NATS. Default: ${data}." type:"path" placeholder:"DIR" env:"DEBRIEF_DATA_DIR" group:"Server"`
	Sync     string       `name:"sync" help:"When the embedded server flushes to disk: 'always', or an interval such as 100ms." rare:"" group:"Server"`
	MaxStore streams.Size `name:"max-store" help:"Maximum disk space of the embedded server's streams, in B, KiB, MiB, GiB or TiB." rare:"" group:"Server"`
}

func (p *ServerFlags) SetDefaults() {
	d := natsd.Config{}.WithDefaults()
	p.Sync, p.MaxStore = d.Sync, streams.Size(d.MaxStore)
}

// DataDir returns the default data directory.
func DataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "debrief")
	}
	if home, err := os.UserHomeDir(); err == nil {
		return filepath.Join(home, ".local", "share", "debrief")
	}
	return "debrief-data"
}

// NATSFlags holds the flags of a command that needs NATS. A command that can also use the API of a gateway has apiclient.Flags.
type NATSFlags struct {
	ServerFlags
	NoGateway
}

// Check returns an error for each invalid setting, or only that of --url.
func (p NATSFlags) Check() error {
	if err := p.NoGateway.Check(); err != nil {
		return err
	}
	return p.ServerFlags.Check()
}

// NoGateway has the flag --url for a command that cannot use a gateway. Its Check refuses the flag with the reason; without the field the
// flag would be unknown.
type NoGateway struct {
	URL string `name:"url" help:"Address of a gateway: this command needs NATS." hidden:"" env:"-" group:"Server"`
}

// Check returns an error if the flag is set.
func (n NoGateway) Check() error {
	if n.URL == "" {
		return nil
	}
	return program.Exit(program.ExitUsage, errors.New("--url: this command needs NATS: name the server with --nats or --data"))
}

// Check returns an error for each invalid setting of the connection.
func (p ServerFlags) Check() error {
	return errors.Join(p.NATS.Check(), p.checkServer(natsd.Config{Sync: p.Sync, MaxStore: int64(p.MaxStore)}))
}

// checkServer returns an error for each invalid field of the server's configuration. The error names the flag.
func (p ServerFlags) checkServer(cfg natsd.Config) error {
	flags := struct {
		ServerFlags
		Listen string `name:"listen"` // a flag of 'debrief up'
	}{}
	return program.Exit(program.ExitUsage, program.FlagErrors(cfg.Validate(), flags))
}

// Session is a connection to a server, and the embedded server if this process runs it.
type Session struct {
	*bus.Conn
	Server *natsd.Server // nil if another process runs it
	Data   string        // data directory, if ConnectReading or Attach found the server there; else ""
}

// NewConn opens another connection to the embedded server, which must be in this process.
func (s *Session) NewConn(ctx context.Context, log zerolog.Logger) (*bus.Conn, error) {
	nc, err := s.Server.Connect(program.ConnOptions("debrief", log)...)
	if err != nil {
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	conn, err := bus.Open(ctx, nc, bus.Options{Log: log})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return conn, nil
}

// Close closes the connection and stops the embedded server.
func (s *Session) Close() {
	s.NATS().Close()
	if s.Server != nil {
		s.Server.Close()
	}
}

// opener opens the streams of a connection.
type opener func(ctx context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error)

// openOrCreate is the opener of commands that change something: it opens all streams, and creates missing ones.
func (p ServerFlags) openOrCreate(ctx context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error) {
	return p.Open(ctx, nc, "", log)
}

// newSession opens the streams of a connection. If that fails, it closes the connection and the embedded server.
func newSession(ctx context.Context, nc *nats.Conn, server *natsd.Server, open opener, log zerolog.Logger) (*Session, error) {
	conn, err := open(ctx, nc, log)
	if err != nil {
		nc.Close()
		if server != nil {
			server.Close()
		}
		return nil, err
	}
	return &Session{Conn: conn, Server: server}, nil
}

// dial connects to the server of --nats.
func (p ServerFlags) dial(ctx context.Context, open opener, log zerolog.Logger) (*Session, error) {
	nc, err := p.Dial("debrief", log)
	if err != nil {
		return nil, err
	}
	return newSession(ctx, nc, nil, open, log)
}

// start starts an embedded server. If another process serves the directory and cfg has no address to listen at, start connects to
// the server of that process.
func (p ServerFlags) start(ctx context.Context, cfg natsd.Config, open opener, log zerolog.Logger) (*Session, error) {
	if err := p.checkServer(cfg); err != nil {
		return nil, err
	}
	server, err := natsd.Start(cfg)
	var used *natsd.InUseError
	switch {
	case errors.As(err, &used) && used.URL != "" && cfg.Listen == "":
		other := p
		other.NATS.NATS = used.URL
		return other.dial(ctx, open, log)
	case errors.As(err, &used) && used.URL == "": // the other server does not listen
		return nil, program.Exit(program.ExitRefused, fmt.Errorf("%w, or stop it, start 'debrief up' on the directory and run both: commands share its server", err))
	case errors.As(err, &used):
		return nil, program.Exit(program.ExitRefused, fmt.Errorf("%w, stop it, or choose another directory with --data", err))
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, program.Exit(program.ExitRefused, fmt.Errorf("--listen: another program listens at %s: choose another address, or port 0 for any free one", cfg.Listen))
	case err != nil:
		return nil, err
	}
	nc, err := server.Connect(program.ConnOptions("debrief", log)...)
	if err != nil {
		server.Close()
		return nil, fmt.Errorf("connect to the embedded server: %w", err)
	}
	return newSession(ctx, nc, server, open, log)
}

// startOnData calls start for the data directory and the flags of the server.
func (p ServerFlags) startOnData(ctx context.Context, listen string, open opener, log zerolog.Logger) (*Session, error) {
	user, password, token, err := p.Login()
	if err != nil {
		return nil, err
	}
	return p.start(ctx, natsd.Config{
		Dir: p.Dir(), Listen: listen, Sync: p.Sync, MaxStore: int64(p.MaxStore),
		User: user, Password: password, Token: token, Views: []string{"KV_" + events.BucketPlaybook},
		OnError: func(text string) { log.Error().Str("server", text).Msg("nats server") },
	}, open, log)
}

// Connect connects to the server of --nats. Without --nats it connects to the server that runs on the data directory, and
// starts one there if none runs. A user of a gateway, with DEBRIEF_URL, does not expect a new store on this machine, so Connect creates none.
func (p ServerFlags) Connect(ctx context.Context, log zerolog.Logger) (*Session, error) {
	if p.NATS.NATS != "" {
		return p.dial(ctx, p.openOrCreate, log)
	}
	if _, err := os.Stat(p.Dir()); p.Data == "" && os.Getenv("DEBRIEF_URL") != "" && errors.Is(err, fs.ErrNotExist) {
		return nil, program.Exit(program.ExitUsage, fmt.Errorf("DEBRIEF_URL names a gateway, but this command needs NATS, and %s does not exist: name the server with --nats, or a directory with --data", p.Dir()))
	}
	return p.StartServer(ctx, "", log)
}

// ConnectRestoring is Connect for a command that restores a backup: it also opens the streams that an interrupted restore has left.
func (p ServerFlags) ConnectRestoring(ctx context.Context, log zerolog.Logger) (*Session, error) {
	if p.NATS.NATS != "" {
		return p.dial(ctx, p.OpenRestoring, log)
	}
	return p.startOnData(ctx, "", p.OpenRestoring, log)
}

// StartServer starts a server on the data directory. It listens on an address, or nowhere if listen is empty. If another
// process serves the directory and listen is empty, StartServer connects to the server of that process.
func (p ServerFlags) StartServer(ctx context.Context, listen string, log zerolog.Logger) (*Session, error) {
	s, err := p.startOnData(ctx, listen, p.openOrCreate, log)
	if err == nil {
		s.watchStore()
		if listen == "" { // no worker of another process can connect
			s.reclaim(ctx, log)
		}
	}
	return s, err
}

// StartTemporary starts a server on a temporary directory, which Close removes.
func (p ServerFlags) StartTemporary(ctx context.Context, sync string, log zerolog.Logger) (*Session, error) {
	s, err := p.start(ctx, natsd.Config{Sync: sync}, p.openOrCreate, log)
	if err == nil {
		s.watchStore()
		s.reclaim(ctx, log)
	}
	return s, err
}

// ConnectReading connects for a command that only reads: it creates no directory and no stream. Without --nats it uses the data
// directory. If that has no streams and --data is not set, it uses the default server.
func (p ServerFlags) ConnectReading(ctx context.Context, log zerolog.Logger) (*Session, error) {
	dir := p.Dir()
	switch {
	case p.NATS.NATS != "":
		return p.dial(ctx, p.OpenReading, log)
	case natsd.HasStore(dir):
		s, err := p.startOnData(ctx, "", p.OpenReading, log)
		if err == nil {
			s.Data = dir
		}
		return s, err
	case p.Data != "":
		return nil, program.Exit(program.ExitUnreachable, fmt.Errorf("--data: %s has no streams: name another directory, or begin with 'debrief up' or 'debrief learn FILE'", p.Data))
	}
	s, err := p.dial(ctx, p.OpenReading, log)
	if program.ExitCode(err) == program.ExitUnreachable {
		err = program.Exit(program.ExitUnreachable, fmt.Errorf("%w (no streams in %s)", err, dir))
	}
	return s, err
}

// ConnectReadingOrEmpty connects like ConnectReading. Without --nats, if no server answers and the data directory has no streams, it
// starts an empty temporary server.
func (p ServerFlags) ConnectReadingOrEmpty(ctx context.Context, log zerolog.Logger) (*Session, error) {
	s, err := p.ConnectReading(ctx, log)
	if program.ExitCode(err) == program.ExitUnreachable && p.NATS.NATS == "" && !natsd.HasStore(p.Dir()) {
		return p.StartTemporary(ctx, p.Sync, log)
	}
	return s, err
}

// ConnectChanging connects like ConnectReading, for a command that changes stored data: it creates missing streams.
func (p ServerFlags) ConnectChanging(ctx context.Context, log zerolog.Logger) (*Session, error) {
	s, err := p.ConnectReading(ctx, log)
	if err != nil {
		return nil, err
	}
	conn, err := p.openOrCreate(ctx, s.NATS(), log)
	if err != nil {
		s.Close()
		return nil, err
	}
	s.Conn = conn
	s.watchStore()
	s.reclaim(ctx, log)
	return s, nil
}

// ConnectRunning connects to a server that already runs: of --nats, else on the data directory, else the default server unless
// --data is set. It starts no server, except for a moment to find out that none runs on the directory.
func (p ServerFlags) ConnectRunning(ctx context.Context, log zerolog.Logger) (*Session, error) {
	if p.NATS.NATS == "" {
		if natsd.HasStore(p.Dir()) {
			s, err := p.StartServer(ctx, "", log)
			if err != nil || s.Server == nil {
				return s, err
			}
			s.Close() // StartServer started it, so no server runs on the directory
		}
		if p.Data != "" {
			return nil, p.noServerError()
		}
	}
	return p.dial(ctx, p.openOrCreate, log)
}

// Attach connects for a diagnosis: the server need not have streams. Without --nats it uses the data directory if that exists.
func (p ServerFlags) Attach(ctx context.Context, log zerolog.Logger) (*Session, error) {
	attach := func(_ context.Context, nc *nats.Conn, log zerolog.Logger) (*bus.Conn, error) {
		return bus.Attach(nc, bus.Options{Log: log})
	}
	switch {
	case p.Embedded():
		s, err := p.startOnData(ctx, "", attach, log)
		if err == nil {
			s.Data = p.Dir()
		}
		return s, err
	case p.NATS.NATS == "" && p.Data != "":
		return nil, p.noServerError()
	}
	return p.dial(ctx, attach, log)
}

// noServerError is the error for a --data directory without a running server. Connecting to another server would ignore
// the flag.
func (p ServerFlags) noServerError() error {
	return program.Exit(program.ExitUnreachable, fmt.Errorf("--data: no server runs on %s: start one with 'debrief up', or name one with --nats", p.Data))
}

// Dir returns the data directory of the embedded server.
func (p ServerFlags) Dir() string { return cmp.Or(p.Data, DataDir()) }

// Embedded reports whether the flags select an embedded server, in this process or another one: its data directory exists, and
// --nats is not set.
func (p ServerFlags) Embedded() bool {
	i, err := os.Stat(p.Dir())
	return p.NATS.NATS == "" && err == nil && i.IsDir()
}

// watchStore reports to the connection when the embedded server stops to store. It does nothing for a server of another process.
func (s *Session) watchStore() {
	if s.Server != nil {
		s.Server.Watch(s.SetStoreClosed)
	}
}

// reclaim takes back the messages of an embedded server that no worker has acknowledged: they belong to workers that have ended, because no
// other process can connect. It does nothing for a server of another process.
func (s *Session) reclaim(ctx context.Context, log zerolog.Logger) {
	if s.Server == nil {
		return
	}
	if err := s.Consumers.Reclaim(ctx); err != nil {
		log.Warn().Err(err).Msg("reclaim unacknowledged messages: the server redelivers them after the ack wait")
	}
}

// ParseBook validates the name of a playbook from the command line.
func ParseBook(name string) (playbook.Book, error) {
	b := playbook.Book(name)
	if err := events.ValidateBook(b); err != nil {
		return "", program.Exit(program.ExitUsage, fmt.Errorf("--book: %w", err))
	}
	return b, nil
}

// Author returns the author of an edit or feedback: the name of the flag, or else the user of the shell.
func Author(name string) string { return cmp.Or(name, os.Getenv("USER"), "operator") }

// Damage lists missing messages: gaps in the streams, and losses that the embedded server recorded in its directory.
// It reads every message of a stream of at most maxRead bytes, and only the state of a larger one.
func (p ServerFlags) Damage(ctx context.Context, conn *bus.Conn, maxRead uint64) ([]doctor.Damage, error) {
	all, err := doctor.CheckDamage(ctx, conn, maxRead)
	if err != nil || !p.Embedded() {
		return all, err
	}
	found, err := natsd.ReadDamage(p.Dir())
	if err != nil {
		return nil, fmt.Errorf("read the damage report in %s: %w", p.Dir(), err)
	}
	for _, d := range found {
		text := fmt.Sprintf("%s (found %s)", d.Text, d.Time.Local().Format(time.DateTime))
		all = append(all, doctor.Damage{Stream: d.Stream, Text: text, Lost: !d.Repaired, Repaired: d.Repaired})
	}
	return all, nil
}

// WarnOfDamage logs the losses that the embedded server recorded.
func (p ServerFlags) WarnOfDamage(c *program.Common) {
	found, err := natsd.ReadDamage(p.Dir())
	log := c.Logger()
	if err != nil {
		log.Warn().Err(err).Msg("read the damage report")
	}
	for _, d := range found {
		log.Warn().Str("stream", d.Stream).Time("found", d.Time).Msg("damage: " + d.Text + "; " + doctor.DamageFix)
	}
}
