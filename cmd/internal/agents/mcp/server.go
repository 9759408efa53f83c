package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"debrief/cmd/internal/api"
	"debrief/events/service"
	"debrief/playbook"
)

// instructions tell a model how to use the server.
const instructions = `A playbook has short rules that agents learned from their runs. Before a task, call playbook_context with its question and follow the
rules that apply. After it, call report_run with the context_id. If a rule is wrong or missing, call propose_bullet: a person decides.`

// hookedInstructions are the instructions for a coding agent, whose hooks give advice and report runs.
const hookedInstructions = `A playbook has short rules that agents learned from their runs in this repository. Those that apply to a message come with it. For a part of
the work, call playbook_context with its question. If a rule is wrong or missing, call propose_bullet: a person decides.`

// session serves one playbook to the agent behind a client of the API.
type session struct {
	api  *api.Client
	book playbook.Book
	// hooked is set for an agent whose hooks report its runs: a second report would count again.
	hooked bool
}

// newServer returns a server for one playbook. The client has the token of the agent.
func newServer(c *api.Client, book playbook.Book) *mcp.Server {
	return (&session{api: c, book: book}).server()
}

func implementation(title string) *mcp.Implementation {
	return &mcp.Implementation{Name: service.Name, Title: title, Version: service.Version}
}

// server returns a server with the tools and resources of the session.
func (s *session) server() *mcp.Server {
	text := instructions
	if s.hooked {
		text = hookedInstructions
	}
	server := mcp.NewServer(
		implementation(fmt.Sprintf("Playbook %s", s.book)),
		&mcp.ServerOptions{
			Instructions: text,
			Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}, Resources: &mcp.ResourceCapabilities{}},
			SchemaCache:  schemas,
		},
	)
	s.addTools(server)
	s.addResources(server)
	return server
}

// inBook returns the path of the playbook in the API, or of an object in it.
func (s *session) inBook(segments ...string) string {
	return api.Path(append([]string{"books", string(s.book)}, segments...)...)
}

// schemas caches the schemas of the arguments, because each request over HTTP has another server.
var schemas = mcp.NewSchemaCache()

// tool adds a tool. run sends the request to the API. Its texts are for the model, and its value is for programs.
func tool[In any](server *mcp.Server, t *mcp.Tool, run func(context.Context, *In) (value any, texts []string, err error)) {
	mcp.AddTool(server, t, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
		value, texts, err := run(ctx, &in)
		if err != nil {
			return errorResult(err), nil, nil //nolint:nilerr // the result has the error
		}
		out := &mcp.CallToolResult{StructuredContent: value}
		for _, text := range texts {
			out.Content = append(out.Content, &mcp.TextContent{Text: text})
		}
		return out, nil, nil
	})
}

// errorResult returns the result for an error. An error of the API keeps its code, and the field that it names.
func errorResult(err error) *mcp.CallToolResult {
	out := &mcp.CallToolResult{}
	var refused *api.Error
	if errors.As(err, &refused) {
		out.StructuredContent = refused.Problem
		text := fmt.Sprintf("%s: %s", refused.Code, refused.Detail)
		if refused.Field != "" {
			text = fmt.Sprintf("%s, argument %s: %s", refused.Code, refused.Field, refused.Detail)
		}
		err = errors.New(text)
	}
	out.SetError(err)
	return out
}

// indented returns a value as JSON for a model.
func indented(v any) string {
	text, _ := json.MarshalIndent(v, "", " ") // values of the API cannot fail
	return string(text)
}
