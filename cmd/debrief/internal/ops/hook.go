package ops

import "debrief/cmd/internal/agents/hooks"

// Hook handles one event of a coding agent. The program calls hooks.Main before it parses flags; this type has the help.
type Hook struct {
	Agent string `arg:"" help:"The agent: claude-code, codex, gemini or cursor." placeholder:"AGENT"`
}

// Help implements kong.HelpProvider.
func (*Hook) Help() string {
	return `Coding agents call this command: 'debrief connect' writes it into their settings. It reads one event from standard input. For a
message of the user it adds advice of the playbook of the repository, each bullet once in a session. When the agent stops, another
process reports the run. The command ends within 300 ms, with the exit code 0 in any case. Errors are in
~/.local/state/debrief/agents/hook.log.

Examples:

  debrief hook claude-code`
}

// Run implements the command.
func (h *Hook) Run() error {
	hooks.Main([]string{h.Agent})
	return nil
}
