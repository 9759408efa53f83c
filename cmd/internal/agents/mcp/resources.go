package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"debrief/cmd/internal/api"
	"debrief/playbook"
)

const maxRead = 2000 // maximum number of bullets in the resource of a playbook

// addResources adds the playbook, and a template for its bullets.
func (s *session) addResources(server *mcp.Server) {
	server.AddResource(&mcp.Resource{
		URI: s.uri("playbook"), Name: "playbook", Title: fmt.Sprintf("Playbook %s", s.book), MIMEType: "text/markdown",
		Description: "The rules that agents get, by section.",
	}, s.read(s.playbookText))
	server.AddResourceTemplate(&mcp.ResourceTemplate{
		URITemplate: s.uri("bullets/{id}"), Name: "bullet", Title: "Rule", MIMEType: "text/markdown", Description: "One rule, by its id.",
	}, s.read(s.bulletText))
}

// uri returns the URI of a resource of the playbook.
func (s *session) uri(rest string) string { return fmt.Sprintf("debrief://%s/%s", s.book, rest) }

// read returns the handler of a resource. The function text returns the content of a URI.
func (s *session) read(text func(context.Context, string) (string, error)) mcp.ResourceHandler {
	return func(ctx context.Context, r *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		uri := r.Params.URI
		content, err := text(ctx, uri)
		if err != nil {
			return nil, readError(uri, err)
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: uri, MIMEType: "text/markdown", Text: content}}}, nil
	}
}

// readError returns the error of the protocol for an error of the API.
func readError(uri string, err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) {
		return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: err.Error()}
	}
	if refused.Status == http.StatusNotFound {
		return mcp.ResourceNotFoundError(uri)
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: %s", refused.Code, refused.Detail)}
}

// playbookText returns the shown bullets as Markdown.
func (s *session) playbookText(ctx context.Context, _ string) (string, error) {
	all, more, err := api.List[bullet](ctx, s.api, s.inBook("bullets"), map[string]string{"state": "shown", "sort": "section"}, maxRead)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Playbook %s\n", s.book)
	section := ""
	for _, b := range all {
		if b.Section != section {
			section = b.Section
			fmt.Fprintf(&out, "\n## %s\n\n", section)
		}
		fmt.Fprintf(&out, "- %s\n", b.line())
	}
	if more {
		fmt.Fprintf(&out, "\nThese are the first %d rules: playbook_search finds the others.\n", maxRead)
	}
	return out.String(), nil
}

// bulletText returns one shown bullet as Markdown.
func (s *session) bulletText(ctx context.Context, uri string) (string, error) {
	id := strings.TrimPrefix(uri, s.uri("bullets/"))
	b, err := s.shownBullet(ctx, playbook.BulletID(id))
	if err != nil {
		return "", err
	}
	return b.line() + "\n", nil
}
