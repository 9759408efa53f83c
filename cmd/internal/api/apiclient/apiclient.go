// Package apiclient gives commands a client of the API: of the gateway of --url, or of a handler in this process on the server of
// --nats or --data. So a rule of the API holds for commands, too.
package apiclient

import (
	"context"
	"errors"
	"os"

	"github.com/rs/zerolog"

	"debrief/cmd/internal/api"
	"debrief/cmd/internal/api/index"
	"debrief/cmd/internal/api/tokens"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/curator"
	"debrief/generator"
)

// Flags has the flags of a command that is a client of the API: of the gateway of --url, or of a handler in this process on the
// server of --nats or --data.
type Flags struct{ cli.ServerFlags }

// BookFlags has the flags of such a command on one playbook.
type BookFlags struct {
	Flags
	Book string `help:"Name of the playbook." default:"default"`
}

// Path returns the path of the playbook, or of an object in it.
func (p BookFlags) Path(segments ...string) string {
	return api.Path(append([]string{"books", p.Book}, segments...)...)
}

// Check returns an error for each invalid setting.
func (p Flags) Check() error { return p.CheckConnection() }

// gateway returns the address and the token of the gateway, with the variables of the clients for other languages. The address is
// empty if the command works over NATS.
func (p Flags) gateway() (address, token string, err error) {
	if address = p.URL; address == "" && p.NATS.NATS == "" && p.Data == "" {
		address = os.Getenv("DEBRIEF_URL")
	}
	if address == "" {
		return "", "", nil
	}
	if _, _, token, err = p.Login(); token == "" {
		token = os.Getenv("DEBRIEF_API_TOKEN")
	}
	return address, token, err
}

// Access is how a command uses the server of --nats or --data. A gateway decides by the token.
type Access int

const (
	Read    Access = iota // creates nothing
	ReadAny               // the same, and needs no stored playbook
	Change                // changes stored data: the server must have streams
	Create                // may begin a playbook: starts a server if none runs
	Running               // needs the roles of a running server
)

// Client is a client of the API, until Close.
type Client struct {
	*api.Client
	*cli.Session // nil for a gateway
	contexts     *contexts
	close        []func() error
}

// Close ends the work in this process.
func (a *Client) Close() error {
	var errs []error
	for i := range a.close {
		errs = append(errs, a.close[len(a.close)-1-i]())
	}
	return errors.Join(errs...)
}

// ExecutionPath returns the path of an execution in its playbook. One that has expired is looked for in the given playbook.
func (a *Client) ExecutionPath(ctx context.Context, handle, playbook string) (string, error) {
	found, err := api.Get[api.FoundExecution](ctx, a.Client, api.Path("executions", handle), nil)
	var refused *api.Error
	switch {
	case errors.As(err, &refused) && refused.Code == api.CodeNotFound:
	case err != nil:
		return "", err
	default:
		playbook = string(found.Book)
	}
	return api.Path("books", playbook, "executions", handle), nil
}

// Open returns a client of the API. Author is the author of changes over NATS; a gateway knows the name of its token.
func (p Flags) Open(ctx context.Context, c *program.Common, access Access, author string) (*Client, error) {
	return p.open(ctx, c, access, author, generator.Config{})
}

// OpenBuilding is Open for a command that shows contexts. A setting that is not the default one needs NATS: a gateway has its own.
func (p Flags) OpenBuilding(ctx context.Context, c *program.Common, cfg generator.Config) (*Client, error) {
	a, err := p.open(ctx, c, Read, "", cfg)
	if err == nil && a.Session == nil && !isDefault(cfg) {
		return nil, program.Exit(program.ExitUsage, errors.New("--url: the gateway builds contexts with its own settings: leave the flags of contexts out"))
	}
	return a, err
}

func isDefault(cfg generator.Config) bool {
	return cfg.WithDefaults() == (generator.Config{}).WithDefaults()
}

func (p Flags) open(ctx context.Context, c *program.Common, access Access, author string, cfg generator.Config) (*Client, error) {
	address, token, err := p.gateway()
	if err != nil {
		return nil, err
	}
	if address != "" {
		return &Client{Client: api.NewClient(address, token)}, nil
	}
	log := c.Logger()
	s, err := map[Access]func(context.Context, zerolog.Logger) (*cli.Session, error){
		Read: p.ConnectReading, ReadAny: p.ConnectReadingOrEmpty, Change: p.ConnectChanging, Create: p.Connect, Running: p.ConnectRunning,
	}[access](ctx, log)
	if err != nil {
		return nil, err
	}
	a := &Client{Session: s, close: []func() error{func() error { s.Close(); return nil }}}
	if s.Server != nil && access != Read && access != ReadAny { // no other process can connect, so no other Curator can apply the changes
		role, err := curator.New(nil, curator.Config{})
		if err != nil {
			return nil, err
		}
		work, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- program.Run(work, s.Conn, role) }()
		a.close = append(a.close, func() error { stop(); return <-ended })
	}
	a.contexts = &contexts{ContextBuilder: generator.NewContextBuilder(s.Conn, nil, cfg), conn: s.Conn, own: !isDefault(cfg)}
	a.close = append(a.close, func() error { a.contexts.Close(); return nil })
	a.Client = api.InProcess(api.New(a.contexts, api.Options{
		Local: &tokens.Token{Name: cli.Author(author), Scopes: tokens.Scopes}, Conn: s.Conn,
		Index: index.New(s.Conn), Log: log,
	}))
	return a, nil
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

// List reads the first items of a list for a command; 0 for all. More reports whether the list has more of them.
func List[T any](ctx context.Context, c *program.Common, p Flags, path string, query map[string]string, limit int) (all []T, more bool, err error) {
	a, err := p.Open(ctx, c, Read, "")
	if err != nil {
		return nil, false, err
	}
	defer a.Close()
	return api.List[T](ctx, a.Client, path, query, limit)
}
