package agents

import (
	"cmp"
	"os"
	"path/filepath"
)

// agent describes where a coding agent has its settings, and their form. A function of home gets the home directory of the user.
type agent struct {
	name  string
	title string // for people
	note  string // for the user, after Connect

	// The hooks. A file name is relative to homeDir, or to projectDir in a repository.
	homeDir          func(home string) string // directory of the user's settings of the agent
	projectDir       string                   // directory of the settings in a repository
	hooksFile        string
	projectHooksFile string   // the same in a repository; "" for the same name
	events           []string // that Debrief handles
	isFlat           bool     // a hook has one command; otherwise it is a group with a list of commands
	hasVersion       bool     // the settings have a member version
	timeout          int      // of a hook, in the unit of the agent; a hook ends much earlier

	// The file that makes the command /debrief known. Both are "" if the agent needs none.
	commandFile string
	commandText string

	// The MCP servers, always in the user's settings.
	serversFile   func(home string) string
	serversInTOML bool   // else in JSON
	workspace     string // argument of a server for the directory of the repository
}

// hookEntry returns a hook in the form of the agent.
func (a *agent) hookEntry(command string) any {
	if a.isFlat {
		return map[string]any{"command": command, "timeout": a.timeout}
	}
	return map[string]any{"hooks": []any{map[string]any{"type": "command", "command": command, "timeout": a.timeout}}}
}

// inHome returns the directory that an environment variable names, or else a directory of the home directory.
func inHome(variable, name string) func(string) string {
	return func(home string) string { return cmp.Or(os.Getenv(variable), filepath.Join(home, name)) }
}

// inDir returns a file of a directory.
func inDir(dir func(string) string, file string) func(string) string {
	return func(home string) string { return filepath.Join(dir(home), file) }
}

// claudeServers returns the file of Claude Code with MCP servers. It is in the home directory, unless CLAUDE_CONFIG_DIR is set.
func claudeServers(home string) string {
	return filepath.Join(cmp.Or(os.Getenv("CLAUDE_CONFIG_DIR"), home), ".claude.json")
}

// agents are the known agents. The sources of the forms of hooks are in event.go. MCP servers are described for
// Claude Code in code.claude.com/docs/en/mcp, for Codex in developers.openai.com/codex/mcp, for Gemini CLI in google-gemini/gemini-cli,
// docs/tools/mcp-server.md, and for Cursor in cursor.com/docs/context/mcp.
var agents = []*agent{
	{
		name: ClaudeCode, title: "Claude Code",
		homeDir: inHome("CLAUDE_CONFIG_DIR", ".claude"), projectDir: ".claude", hooksFile: "settings.json", projectHooksFile: "settings.local.json",
		events: []string{"SessionStart", "UserPromptSubmit", "Stop", "SessionEnd"}, timeout: 5,
		serversFile: claudeServers, workspace: ".",
		// Claude Code refuses an unknown command before it calls a hook. The hook keeps this text from the model.
		commandFile: "commands/debrief.md",
		commandText: "---\ndescription: Rate the last run for Debrief, good or bad, and say why\nargument-hint: good|bad [words]\n---\n/debrief $ARGUMENTS\n",
	},
	{
		name: Codex, title: "Codex", homeDir: inHome("CODEX_HOME", ".codex"), projectDir: ".codex", hooksFile: "hooks.json",
		events: []string{"SessionStart", "UserPromptSubmit", "Stop"}, timeout: 5,
		serversFile: inDir(inHome("CODEX_HOME", ".codex"), "config.toml"), serversInTOML: true, workspace: ".",
		note: "Codex asks once whether you trust the hooks. Rate a run with: debrief good, or: debrief bad WORDS",
	},
	{
		name: Gemini, title: "Gemini CLI", homeDir: inHome("", ".gemini"), projectDir: ".gemini", hooksFile: "settings.json",
		events: []string{"SessionStart", "BeforeAgent", "AfterAgent", "SessionEnd"}, timeout: 5000,
		serversFile: inDir(inHome("", ".gemini"), "settings.json"), workspace: ".",
		commandFile: "commands/debrief.toml",
		commandText: "description = \"Rate the last run for Debrief, good or bad, and say why\"\nprompt = \"/debrief {{args}}\"\n",
	},
	{
		name: Cursor, title: "Cursor", homeDir: inHome("", ".cursor"), projectDir: ".cursor", hooksFile: "hooks.json", isFlat: true, hasVersion: true,
		events: []string{"sessionStart", "beforeSubmitPrompt", "postToolUse", "postToolUseFailure", "afterAgentResponse", "stop", "sessionEnd"}, timeout: 5,
		serversFile: inDir(inHome("", ".cursor"), "mcp.json"), workspace: "${workspaceFolder}",
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
