package agents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

const serverName = "debrief" // name of the MCP server of Debrief in the settings of an agent

// errOtherServer is returned for settings with another server of that name.
var errOtherServer = errors.New("the MCP server " + serverName + " is not one of 'debrief connect': rename it, or connect with --no-mcp")

// server is the entry of an MCP server on standard input and output. The command finds the playbook, the address and the token in the user's
// settings for Debrief, so the entry has none of them, and is the same for all repositories.
type server struct {
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// newServer returns the entry for a program and an agent.
func (a *agent) newServer(executable string) *server {
	return &server{executable, []string{"mcp", "--repository", a.workspace}}
}

// isOurs reports whether 'debrief connect' wrote the entry, maybe with another path of the program.
func (s *server) isOurs() bool {
	name := strings.TrimSuffix(filepath.Base(strings.ReplaceAll(s.Command, `\`, "/")), ".exe")
	return name == "debrief" && len(s.Args) > 1 && s.Args[0] == "mcp" && s.Args[1] == "--repository"
}

// addServer adds the MCP server to settings, or replaces the entry of another path of the program.
func (a *agent) addServer(data []byte, s *server) ([]byte, error) {
	if a.serversInTOML {
		return addServerTOML(data, s)
	}
	f, err := parseSettings(data)
	if err != nil {
		return nil, err
	}
	all, err := f.object("mcpServers")
	if err != nil {
		return nil, err
	}
	entry, err := json.MarshalIndent(s, strings.Repeat(f.unit, 2), f.unit)
	if err != nil {
		return nil, err
	}
	value, err := hujson.Parse(entry)
	if err != nil {
		return nil, err
	}
	old := member(all, serverName)
	if old == nil {
		add(all, serverName, value.Value, f.unit, 2)
		return f.value.Pack(), nil
	}
	was, err := serverOf(old)
	switch {
	case err != nil:
		return nil, err
	case was.Command == s.Command && slices.Equal(was.Args, s.Args):
		return data, nil
	}
	old.Value = value.Value
	return f.value.Pack(), nil
}

// removeServer removes the MCP server of Debrief from settings. Another server of that name belongs to the user.
func (a *agent) removeServer(data []byte) ([]byte, error) {
	if a.serversInTOML {
		return removeServerTOML(data), nil
	}
	return removeFrom(data, "mcpServers", func(all *hujson.Object) (removed bool) {
		old := member(all, serverName)
		if old == nil {
			return false
		}
		if _, err := serverOf(old); err != nil {
			return false
		}
		removeMember(all, serverName)
		return true
	})
}

// serverOf returns the entry of Debrief, or errOtherServer.
func serverOf(v *hujson.Value) (*server, error) {
	clone := v.Clone()
	clone.Standardize()
	s := new(server)
	if json.Unmarshal(clone.Pack(), s) != nil || !s.isOurs() {
		return nil, errOtherServer
	}
	return s, nil
}

// Settings of Codex are TOML. The edit appends a table, or removes the tables of that name, and reads no other part.
var (
	tomlServer = regexp.MustCompile(`(?m)^[ \t]*\[[ \t]*mcp_servers[ \t]*\.[ \t]*["']?` + serverName + `["']?[ \t]*(\.[^\]\n]*)?\][^\n]*\n?`)
	tomlTable  = regexp.MustCompile(`(?m)^[ \t]*\[`)
	// tomlComments matches the empty lines and comments at the end of a table.
	tomlComments = regexp.MustCompile(`(?:(?m:^)[ \t]*(?:#[^\n]*)?\n)+[ \t]*$`)
	// tomlInline matches servers in a form to which no table can be added.
	tomlInline = regexp.MustCompile(`(?m)^[ \t]*["']?mcp_servers["']?[ \t]*[.=]`)
	tomlOurs   = regexp.MustCompile(`(?m)^command = "(?:[^"\n]*[/\\])?debrief(?:\.exe)?"\nargs = \["mcp", "--repository", `)
)

// tomlTable returns the entry as a table of TOML.
func (s *server) tomlTable() string {
	quote := func(text string) string {
		out, _ := json.Marshal(text) // the escapes of a string in JSON are those of TOML
		return string(out)
	}
	args := make([]string, len(s.Args))
	for i, arg := range s.Args {
		args[i] = quote(arg)
	}
	return fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = [%s]\n", serverName, quote(s.Command), strings.Join(args, ", "))
}

func addServerTOML(data []byte, s *server) ([]byte, error) {
	table := []byte(s.tomlTable())
	switch {
	case tomlServer.Match(data) && bytes.Contains(data, table):
		return data, nil
	case tomlInline.Match(data):
		return nil, errors.New("mcp_servers: want a table for each server, such as [mcp_servers.NAME]; or connect with --no-mcp")
	}
	rest := removeServerTOML(data)
	if tomlServer.Match(rest) { // it belongs to the user
		return nil, errOtherServer
	}
	if len(rest) == 0 {
		return table, nil
	}
	if !bytes.HasSuffix(rest, []byte("\n")) {
		rest = append(slices.Clone(rest), '\n')
	}
	return slices.Concat(rest, []byte("\n"), table), nil
}

// removeServerTOML removes the table of the server, and those inside it, which Codex adds. The first table has the command: if that is the
// user's, nothing is removed.
func removeServerTOML(data []byte) []byte {
	var out []byte
	removed := false
	for len(data) > 0 {
		at := tomlServer.FindIndex(data)
		if at == nil {
			break
		}
		end := len(data)
		if next := tomlTable.FindIndex(data[at[1]:]); next != nil {
			end = at[1] + next[0]
		}
		end -= len(tomlComments.Find(data[at[1]:end])) // these belong to the next table
		if !removed && !tomlOurs.Match(data[at[1]:end]) {
			break
		}
		removed = true
		out = append(out, data[:at[0]]...)
		data = data[end:]
	}
	out = append(out, data...)
	if removed && len(bytes.TrimSpace(out)) == 0 {
		return nil
	}
	if removed && len(data) == 0 { // the empty line before the table
		out = bytes.TrimSuffix(out, []byte("\n"))
	}
	return out
}
