// Package hooks handles the events of coding agents: Claude Code, Codex, Gemini CLI and Cursor. It adds advice to the messages of the
// user, and reports the work on each message as one run. It is a client of the API: what may be shown, and what a report counts, is
// decided there.
package hooks
