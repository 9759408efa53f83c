package connect

import (
	"cmp"
	"os"
	"path/filepath"

	"debrief/cmd/internal/agents/hooks"
)

// agent describes where a coding agent has its settings, and their form.
type agent struct {
	name    string
	title   string
	home    func(home string) string // directory of its settings of the user who has this home directory
	project string                   // the same in a repository
	file    string                   // settings in home
	local   string                   // settings in project, if they have another name
	events  []string                 // that Debrief handles
	flat    bool                     // a hook has one command; otherwise it is a group with a list of commands
	version bool                     // the settings have a member version
	timeout int                      // of a hook, in the unit of the agent; a hook ends much earlier
	command string                   // file in home or project that makes /debrief known, "" if the agent needs none
	text    string                   // of that file
	note    string                   // for the user

	servers   func(home string) string // file with the MCP servers of that user
	toml      bool                     // that file is TOML, not JSON
	workspace string                   // argument of a server for the directory of the repository
}

// entry returns a hook in the form of the agent.
func (a *agent) entry(command string) any {
	if a.flat {
		return map[string]any{"command": command, "timeout": a.timeout}
	}
	return map[string]any{"hooks": []any{map[string]any{"type": "command", "command": command, "timeout": a.timeout}}}
}

// inHome returns the directory of a variable, or one in the home directory.
func inHome(variable, name string) func(string) string {
	return func(home string) string { return cmp.Or(os.Getenv(variable), filepath.Join(home, name)) }
}

func inDir(dir func(string) string, file string) func(string) string {
	return func(home string) string { return filepath.Join(dir(home), file) }
}

// claudeServers returns the file of Claude Code with MCP servers. It is in the home directory, unless CLAUDE_CONFIG_DIR is set.
func claudeServers(home string) string {
	return filepath.Join(cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), home), ".claude.json")
}

// agents are the known agents. The sources of the forms of hooks are in package hooks. MCP servers are described for
// Claude Code in code.claude.com/docs/en/mcp, for Codex in developers.openai.com/codex/mcp, for Gemini CLI in google-gemini/gemini-cli,
// docs/tools/mcp-server.md, and for Cursor in cursor.com/docs/context/mcp.
var agents = []*agent{
	{
		name: hooks.ClaudeCode, title: "Claude Code", home: inHome("CLAUDE_CONFIG_DIR", ".claude"), project: ".claude", file: "settings.json", local: "settings.local.json",
		events: []string{"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"}, timeout: 5,
		servers: claudeServers, workspace: ".",
		// Claude Code refuses an unknown command before it calls a hook. The hook keeps this text from the model.
		command: "commands/debrief.md",
		text:    "---\ndescription: Rate the last run for Debrief, good or bad, and say why\nargument-hint: good|bad [words]\n---\n/debrief $ARGUMENTS\n",
	},
	{
		name: hooks.Codex, title: "Codex", home: inHome("CODEX_HOME", ".codex"), project: ".codex", file: "hooks.json",
		events: []string{"SessionStart", "UserPromptSubmit", "Stop"}, timeout: 5,
		servers: inDir(inHome("CODEX_HOME", ".codex"), "config.toml"), toml: true, workspace: ".",
		note: "Codex asks once whether you trust the hooks. Rate a run with: debrief good, or: debrief bad WORDS",
	},
	{
		name: hooks.Gemini, title: "Gemini CLI", home: inHome("", ".gemini"), project: ".gemini", file: "settings.json",
		events: []string{"SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"}, timeout: 5000,
		servers: inDir(inHome("", ".gemini"), "settings.json"), workspace: ".",
		command: "commands/debrief.toml",
		text:    "description = \"Rate the last run for Debrief, good or bad, and say why\"\nprompt = \"/debrief {{args}}\"\n",
	},
	{
		name: hooks.Cursor, title: "Cursor", home: inHome("", ".cursor"), project: ".cursor", file: "hooks.json", flat: true, version: true,
		events: []string{"sessionStart", "beforeSubmitPrompt", "postToolUse", "postToolUseFailure", "afterAgentResponse", "stop", "sessionEnd"}, timeout: 5,
		servers: inDir(inHome("", ".cursor"), "mcp.json"), workspace: "${workspaceFolder}",
		note: "Cursor cannot add text to a message: advice comes when a session starts and with the first tool call. Rate a run with: debrief good",
	},
}

func find(name string) *agent {
	for _, a := range agents {
		if a.name == name {
			return a
		}
	}
	return nil
}
