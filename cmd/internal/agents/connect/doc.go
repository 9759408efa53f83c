// Package connect connects coding agents with a playbook: it edits the settings of an agent so that it calls hooks and
// has the MCP server, and records the consent of the user for a repository. Disconnect restores the files byte for byte.
package connect
