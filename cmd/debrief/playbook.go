package main

import (
	"debrief/cmd/debrief/internal/books"
	"debrief/cmd/internal/agents/mcp"
	"debrief/cmd/internal/program"
)

// playbookCommands are the commands on playbooks and on the contexts built from them.
func playbookCommands() []program.Command {
	return []program.Command{
		{Name: "playbook", Run: new(books.Playbook), Help: "Show, explain, change, import and export playbooks."},
		{Name: "context", Run: new(books.Context), Help: "Show the context of a query or of a past execution; pin turns of a session."},
		{Name: "mcp", Run: new(mcp.Command), Help: "Serve a playbook to an agent over the Model Context Protocol."},
	}
}
