package outcome

import (
	"encoding/json"
	"strings"

	"debrief/events"
	"debrief/events/shell"
	"debrief/playbook/text"
)

var (
	// viewerPrograms print files or other text, which may contain error messages.
	viewerPrograms = text.Set("open goto scroll_up scroll_down edit insert append search_dir search_file find_file str_replace_editor view submit decompile " +
		"disassemble cat bat head tail less more nl sed awk grep egrep fgrep zgrep rg ag find fd diff git strings xxd hexdump od echo printf jq curl wget " +
		"journalctl dmesg man kubectl docker psql sqlite3 gh tree ls")
	// viewerWords are the words in the name of a tool that shows content.
	viewerWords = text.Set("read view cat grep search find fetch open list show log logs diff browse browser page glob retrieve recall docs web visit scrape " +
		"extract crawl tail print")
	// answerPrograms have exit code 1 as an answer: no match, or a difference.
	answerPrograms = text.Set("grep egrep fgrep zgrep rg ag diff cmp test [ pgrep which git")
)

// isViewer reports whether the name of a tool says that it shows content, such as read_file, WebFetch or search-docs.
func isViewer(tool string) bool {
	for word := range text.NameWords(tool) {
		if viewerWords[word] {
			return true
		}
	}
	return false
}

// commandLine returns the command line of a call, or "" for other tools. Mostly it is a field of the arguments. For an agent that
// acts by commands it is the name of the tool with the arguments after it.
func commandLine(call *events.ToolCall) string {
	arguments := strings.TrimSpace(call.Arguments)
	if !strings.HasPrefix(arguments, "{") {
		if shell.IsEditor(call.Tool) || shell.Known(call.Tool) || strings.HasPrefix(call.Tool, "./") {
			return strings.TrimSpace(call.Tool + " " + call.Arguments)
		}
		return ""
	}
	var fields map[string]json.RawMessage
	if len(arguments) > 2*shell.MaxInput || json.Unmarshal([]byte(arguments), &fields) != nil {
		return ""
	}
	if shell.IsEditor(call.Tool) { // an editor command with arguments in JSON is a function of the agent
		return call.Tool
	}
	for _, name := range [...]string{"command", "cmd", "commands"} {
		var line string
		var words []string
		switch {
		case json.Unmarshal(fields[name], &line) == nil && line != "":
			return line
		case json.Unmarshal(fields[name], &words) == nil && len(words) > 0:
			return commandOfWords(words)
		}
	}
	return ""
}

// commandOfWords returns the line of a command that is a list of words: the script of ["bash", "-lc", "script"].
func commandOfWords(words []string) string {
	if script, ok := shell.Script(words[0], words[1:]); ok && script == words[len(words)-1] {
		return script
	}
	for i, w := range words {
		if strings.ContainsAny(w, " \t\n'\"\\$`|&;<>()") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// programs returns the names of the programs that a command line runs in sequence. It leaves out filters after a pipe,
// because their output comes from the first program. The text that an editor command writes is not parsed.
func programs(command string) []string {
	command = strings.TrimSpace(command)
	if first, _, _ := strings.Cut(command, " "); shell.IsEditor(first) {
		command, _, _ = strings.Cut(command, "\n")
	}
	commands, _ := shell.Parse(command) // the commands before an error are valid
	var names []string
	for _, c := range commands {
		if !c.Piped {
			names = append(names, c.Program)
		}
	}
	return names
}
