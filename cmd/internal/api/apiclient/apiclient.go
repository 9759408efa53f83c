// Package apiclient gives commands a client of the API. The client calls the gateway of --url, or a handler in this process, which uses the
// NATS server of --nats or --data. So the rules of the API also hold for commands.
package apiclient

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/operate/metrics"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/proxy/capture"
	"debrief/curator"
	"debrief/events"
	"debrief/events/bus"
	"debrief/events/client"
	"debrief/generator"
)

// Flags has the flags of a command that is a client of the API.
type Flags struct {
	cli.ServerFlags
	URL string `name:"url" help:"Address of a gateway to send the request to, with --token; needs no NATS. Default: $DEBRIEF_URL, if no server is named." placeholder:"URL" env:"-" instead:"nats,data" group:"Server"`
}

// BookFlags has the flags of a client of the API that works on one playbook.
type BookFlags struct {
	Flags
	Book string `help:"Name of the playbook." default:"default"`
}

// Path returns the path of the playbook, or of an object in it.
func (p BookFlags) Path(segments ...string) string {
	return api.Path(append([]string{"books", p.Book}, segments...)...)
}

// gateway returns the address and the token of the gateway, from the flags or from the environment variables that all clients use. The
// address is empty if the command works over NATS.
func (p Flags) gateway() (address, token string, err error) {
	address = p.URL
	if address == "" && p.NATS.NATS == "" && p.Data == "" {
		address = os.Getenv("DEBRIEF_URL")
	}
	if address == "" {
		return "", "", nil
	}
	_, _, token, err = p.Login() // user and password are only for NATS
	if token == "" {
		token = os.Getenv("DEBRIEF_API_TOKEN")
	}
	return address, token, err
}

// Access tells how a command uses the server of --nats or --data. It has no effect with a gateway, which decides by the token.
type Access int

const (
	Read    Access = iota // only reads, from streams that exist
	ReadAny               // only reads; without a server and streams it finds nothing
	Change                // changes stored data, in streams that exist
	Create                // may begin a playbook; starts a server if none runs
	Running               // needs the roles of a running server
)

// Client is a client of the API, until Close.
type Client struct {
	*api.Client
	*cli.Session                // nil for a gateway
	close        []func() error // called by Close, the last one first
}

// Close ends the work in this process.
func (a *Client) Close() error {
	var errs []error
	for _, end := range slices.Backward(a.close) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

// ExecutionPath returns the path of an execution in its playbook. If the execution is not stored any more, this is the given playbook, whose
// log may still have it.
func (a *Client) ExecutionPath(ctx context.Context, handle, playbook string) (string, error) {
	found, err := api.Get[api.FoundExecution](ctx, a.Client, api.Path("executions", handle), nil)
	var refused *api.Error
	switch {
	case err == nil:
		playbook = string(found.Book)
	case !errors.As(err, &refused) || refused.Code != api.CodeNotFound:
		return "", err
	}
	return api.Path("books", playbook, "executions", handle), nil
}

// Open returns a client of the API. author is the author of changes over NATS. With a gateway the author is the name of the token.
func (p Flags) Open(ctx context.Context, c *program.Common, access Access, author string) (*Client, error) {
	return p.open(ctx, c, access, author, generator.Config{})
}

// OpenWithContexts is Open for a command that shows contexts, which this process builds with the settings cfg. A gateway builds them with
// settings of its own: there OpenWithContexts returns an error unless cfg has the default settings.
func (p Flags) OpenWithContexts(ctx context.Context, c *program.Common, cfg generator.Config) (*Client, error) {
	a, err := p.open(ctx, c, Read, "", cfg)
	if err == nil && a.Session == nil && !isDefault(cfg) {
		return nil, program.Exit(program.ExitUsage, errors.New("--url: the gateway builds contexts with its own settings: leave the flags of contexts out"))
	}
	return a, err
}

// isDefault reports whether a configuration has the default settings.
func isDefault(cfg generator.Config) bool {
	return cfg.WithDefaults() == (generator.Config{}).WithDefaults()
}

// open opens a client. cfg are the settings of the contexts that this process builds.
func (p Flags) open(ctx context.Context, c *program.Common, access Access, author string, cfg generator.Config) (*Client, error) {
	address, token, err := p.gateway()
	if err != nil {
		return nil, err
	}
	if address != "" {
		return &Client{Client: api.NewClient(address, token)}, nil
	}
	prices, err := metrics.LoadPrices("")
	if err != nil {
		return nil, err
	}
	log := c.Logger()
	s, err := p.connect(ctx, log, access)
	if err != nil {
		return nil, err
	}
	a := &Client{Session: s, close: []func() error{func() error { s.Close(); return nil }}}
	changes := access != Read && access != ReadAny
	if changes && s.Server != nil { // no Curator of another process can connect to the server in this process
		role, err := curator.New(nil, curator.Config{})
		if err != nil {
			return nil, errors.Join(err, a.Close())
		}
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- program.Run(work, s.Conn, role) }()
		a.close = append(a.close, func() error { stop(); return <-ended })
	}
	builder := generator.NewContextBuilder(s.Conn, nil, cfg)
	backend := &contexts{
		ContextBuilder: builder, conn: s.Conn, hasOwnSettings: !isDefault(cfg),
		runs: capture.New(s.Conn.NATS(), s.Conn.JetStream(), builder, capture.Config{Log: log}),
	}
	a.close = append(a.close, func() error { backend.Close(); return nil })
	a.Client = api.InProcess(api.New(backend, api.Options{
		CommandToken: &tokens.Token{Name: cli.Author(author), Scopes: tokens.Scopes}, Conn: s.Conn,
		Index: index.New(s.Conn, prices), Log: log,
	}))
	return a, nil
}

// connect connects to the server of --nats or --data.
func (p Flags) connect(ctx context.Context, log zerolog.Logger, access Access) (*cli.Session, error) {
	switch access {
	case Read:
		return p.ConnectReading(ctx, log)
	case ReadAny:
		return p.ConnectReadingOrEmpty(ctx, log)
	case Change:
		return p.ConnectChanging(ctx, log)
	case Running:
		return p.ConnectRunning(ctx, log)
	case Create:
	}
	return p.Connect(ctx, log)
}

// Get reads one object for a command. Empty parameters are left out.
func Get[T any](ctx context.Context, c *program.Common, p Flags, path string, query map[string]string) (*T, error) {
	a, err := p.Open(ctx, c, Read, "")
	if err != nil {
		return nil, err
	}
	defer a.Close()
	return api.Get[T](ctx, a.Client, path, query)
}

// Show reads an object for a command, like Get, and prints it: as JSON, or with the function text for people. T may have
// only those fields of the object that the command shows.
func Show[T any](ctx context.Context, c *program.Common, p Flags, asJSON bool, path string, query map[string]string, text func(*T) error) error {
	found, err := Get[T](ctx, c, p, path, query)
	switch {
	case err != nil:
		return err
	case asJSON:
		return cli.WriteJSON(term.Stdout, found)
	}
	return text(found)
}

// List reads the first limit items of a list for a command. A limit of 0 means all items. more reports whether the list has further items.
func List[T any](ctx context.Context, c *program.Common, p Flags, path string, query map[string]string, limit int) (all []T, more bool, err error) {
	a, err := p.Open(ctx, c, Read, "")
	if err != nil {
		return nil, false, err
	}
	defer a.Close()
	return api.List[T](ctx, a.Client, path, query, limit)
}

// Send sends a change of a playbook for a command. A Curator makes it.
func Send[T any](ctx context.Context, c *program.Common, p Flags, access Access, author, path string, body any) (*T, error) {
	a, err := p.Open(ctx, c, access, author)
	if err != nil {
		return nil, err
	}
	defer term.Doing("waiting for a curator")()
	reply, err := api.Post[T](ctx, a.Client, path, nil, body)
	return reply, errors.Join(err, a.Close())
}

// historyTimeout is the time to load history. After it the context is built with the part that was loaded.
const historyTimeout = 20 * time.Second

// contexts builds the contexts of a command: by a generator's service with its settings, or in this process.
type contexts struct {
	*generator.ContextBuilder
	conn           *bus.Conn
	hasOwnSettings bool // the settings are not the default: the service cannot build the context
	runs           *capture.Store
}

// Context implements service.Backend.
func (b *contexts) Context(ctx context.Context, r *events.ContextRequest) (*events.ContextReply, error) {
	if !b.hasOwnSettings {
		service := client.NATS(b.conn.NATS())
		service.Trace = bus.Traceparent
		reply, err := service.Context(ctx, r)
		if !errors.Is(err, nats.ErrNoResponders) { // without a generator this process builds the context
			return reply, err
		}
	}
	b.WaitLoaded(ctx, r.Book, historyTimeout)
	return b.ContextBuilder.Context(ctx, r)
}

// Feedback implements service.Backend. As at a gateway, the execution may be any id of a capture.Ref.
func (b *contexts) Feedback(ctx context.Context, r *events.FeedbackRequest) (*events.StoredReply, error) {
	return b.runs.Feedback(ctx, r)
}
