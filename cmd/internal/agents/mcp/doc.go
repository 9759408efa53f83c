// Package mcp serves a playbook to agents over the Model Context Protocol: at /mcp/{book} of the gateway, and on standard input and output
// with 'debrief mcp'. The server binds the playbook, so no argument of a model can name another one.
//
// Every tool is a request to the API with the token of the agent: the API decides on scopes, playbooks, owners and limits. A rating over MCP
// is the opinion of an agent on its own run, so it has the limited trust of an inferred outcome. A proposal waits for a person. Nothing
// deletes.
//
// MCP never returns a text that generators do not show: bullets that wait or are retired, earlier wordings, and texts of runs would
// reach the prompt of the agent without the admission that prompts need.
package mcp
