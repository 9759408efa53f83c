package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"debrief/cmd/internal/agents"
	"debrief/cmd/internal/api"
	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/events"
	"debrief/events/service"
	"debrief/playbook"
)

// Command serves a playbook over MCP on standard input and output.
type Command struct {
	Book      string `help:"Name of the playbook." default:"default"`
	URL       string `name:"url" help:"Address of the gateway." default:"http://127.0.0.1:4280" placeholder:"URL" env:"DEBRIEF_URL"`
	Token     string `help:"Token. Prefer --token-file: other users of this machine can see flags." placeholder:"TEXT" secret:"" env:"DEBRIEF_API_TOKEN,DEBRIEF_TOKEN"`
	TokenFile string `help:"File with the token." type:"path" placeholder:"FILE" instead:"token"`

	Repository string `help:"Use the playbook, the address and the token of 'debrief connect' for the repository around this directory." placeholder:"DIR"`
}

func (*Command) Help() string {
	return `Serves a playbook to an agent over the Model Context Protocol, on standard input and output. It calls the API of a gateway, whose
token decides what the agent may do. An agent that speaks HTTP needs no command: its URL is that of the gateway with /mcp/NAME.
'debrief connect' enters the command with --repository into the settings of coding agents. Then it has no tools to report and rate runs,
because the hooks of the agent do that.

Examples:

  debrief mcp --book support
  debrief mcp --url https://debrief.example.com --token-file agent.token`
}

// Run serves requests until the agent closes standard input, or the context ends.
func (c *Command) Run(ctx context.Context, _ *program.Common) error {
	if c.Repository != "" {
		return c.serveConnected(ctx)
	}
	book := playbook.Book(c.Book)
	if err := events.ValidateBook(book); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--book: %w", err))
	}
	token, err := program.ReadSecret("--token", c.Token, "--token-file", c.TokenFile)
	if err != nil {
		return err
	}
	return Serve(ctx, api.NewClient(c.URL, token), book, os.Stdin, output{term.Stdout})
}

// serveConnected serves the playbook that is connected with a repository. An agent starts the command in every repository, so it serves
// nothing in those that are not connected.
func (c *Command) serveConnected(ctx context.Context) error {
	file, err := agents.SettingsFile()
	if err != nil {
		return err
	}
	settings, err := agents.ReadSettings(file)
	if err != nil {
		return err
	}
	r := settings.Of(c.Repository)
	if r == nil {
		return serve(ctx, mcp.NewServer(implementation(""), &mcp.ServerOptions{Instructions: notConnected}), os.Stdin, output{term.Stdout})
	}
	s := &session{api: api.NewClient(r.URL, r.Token), book: playbook.Book(r.Book), hooked: true}
	return serve(ctx, s.server(), os.Stdin, output{term.Stdout})
}

// notConnected are the instructions of a server without a playbook.
const notConnected = "This repository is not connected with a playbook: the user can run 'debrief connect' in it."

// output is the standard output, which stays open.
type output struct{ io.Writer }

func (output) Close() error { return nil }

// Serve serves a playbook on a pair of streams until in ends or the context does. The client has the token of the agent.
func Serve(ctx context.Context, c *api.Client, book playbook.Book, in io.ReadCloser, out io.WriteCloser) error {
	return serve(ctx, newServer(c, book), in, out)
}

func serve(ctx context.Context, s *mcp.Server, in io.ReadCloser, out io.WriteCloser) error {
	limit := service.MaxBodyBytes(events.VerbReport) // of a message, in bytes
	err := s.Run(ctx, &mcp.IOTransport{Reader: in, Writer: out, MaxLineLength: limit})
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil //nolint:nilerr // the agent has closed its end, or a person stopped the command
	}
	return err
}
