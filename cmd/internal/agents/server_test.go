package agents

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestServers adds the MCP server to settings and removes it. All else stays, and the server of a user with the same name is not touched.
func TestServers(t *testing.T) {
	t.Parallel()
	const block = "[mcp_servers.debrief]\ncommand = \"/bin/debrief\"\nargs = [\"mcp\", \"--repository\", \".\"]\n"
	for _, test := range []struct {
		name, agent, before, after string
		removed                    string // if it is not before
		err                        bool
	}{
		{name: "no file of Cursor", agent: "cursor", after: "{\n  \"mcpServers\": {\n    \"debrief\": {\n      \"command\": \"/bin/debrief\",\n      \"args\": [\n        \"mcp\",\n        \"--repository\",\n        \"${workspaceFolder}\"\n      ]\n    }\n  }\n}\n", removed: "{\n}\n"},
		{name: "another server, tabs", agent: "gemini", before: "{\n\t\"mcpServers\": {\"a\": {\"url\": \"x\"}},\n}", after: "{\n\t\"mcpServers\": {\"a\": {\"url\": \"x\"},\n\t\t\"debrief\": {\n\t\t\t\"command\": \"/bin/debrief\",\n\t\t\t\"args\": [\n\t\t\t\t\"mcp\",\n\t\t\t\t\"--repository\",\n\t\t\t\t\".\"\n\t\t\t]\n\t\t}\n\t},\n}", removed: "{\n\t\"mcpServers\": {\"a\": {\"url\": \"x\"}\n\t},\n}"},
		{name: "a server of the user", agent: "gemini", before: `{"mcpServers": {"debrief": {"command": "mine"}}}`, err: true},
		{name: "no file of Codex", agent: "codex", after: block},
		{name: "settings of Codex", agent: "codex", before: "model = \"m\"\n", after: "model = \"m\"\n\n" + block},
		{name: "without a last line feed", agent: "codex", before: "[a]\nb = 1", after: "[a]\nb = 1\n\n" + block, removed: "[a]\nb = 1\n"},
		{name: "another path of the program", agent: "codex", before: "[a]\nb = 1\n\n" + strings.Replace(block, "/bin/", "/opt/", 1), after: "[a]\nb = 1\n\n" + block, removed: "[a]\nb = 1\n"},
		{name: "tables after it", agent: "codex", before: strings.Replace(block, "/bin/", "/opt/", 1) + "[mcp_servers.debrief.tools.x]\nok = true\n\n# mine\n[z]\ny = 1\n", after: "\n# mine\n[z]\ny = 1\n\n" + block, removed: "\n# mine\n[z]\ny = 1\n"},
		{name: "a server of the user of Codex", agent: "codex", before: "[mcp_servers.debrief]\nurl = \"x\"\n", err: true},
		{name: "servers inline", agent: "codex", before: "mcp_servers = { a = { url = \"x\" } }\n", err: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			a := find(test.agent)
			got, err := a.addServer([]byte(test.before), a.newServer("/bin/debrief"))
			if (err != nil) != test.err || err == nil && string(got) != test.after {
				t.Fatalf("got %q, %v, want %q", got, err, test.after)
			}
			if err != nil {
				if kept, err := a.removeServer([]byte(test.before)); err != nil || string(kept) != test.before {
					t.Errorf("removed the server of the user: got %q, %v", kept, err)
				}
				return
			}
			if again, err := a.addServer(got, a.newServer("/bin/debrief")); err != nil || !bytes.Equal(again, got) {
				t.Errorf("again: got %q, %v", again, err)
			}
			want := test.before
			if test.removed != "" {
				want = test.removed
			}
			if rest, err := a.removeServer(got); err != nil || string(rest) != want {
				t.Errorf("removed: got %q, %v, want %q", rest, err, want)
			}
		})
	}
}

// FuzzServerTOML: what was added is removed again, and the server of a user stays.
func FuzzServerTOML(f *testing.F) {
	for _, text := range []string{"", "a = 1", "[mcp_servers.debrief]\ncommand = \"x\"\n", "[mcp_servers.debrief.env]\n[a]\n# b\n\n", "x = '''\n[mcp_servers.debrief]\n'''\n"} {
		f.Add([]byte(text))
	}
	a := find("codex")
	f.Fuzz(func(t *testing.T, data []byte) {
		clean, err := a.removeServer(data)
		if err != nil {
			return
		}
		added, err := a.addServer(clean, a.newServer("/bin/debrief"))
		if errors.Is(err, errOtherServer) {
			if kept, err := a.removeServer(clean); err != nil || !bytes.Equal(kept, clean) {
				t.Errorf("removed a part of the user's server: got %q, %v, want %q", kept, err, clean)
			}
		}
		if err != nil {
			return
		}
		rest, err := a.removeServer(added)
		if err != nil || !bytes.Equal(bytes.TrimSpace(rest), bytes.TrimSpace(clean)) {
			t.Errorf("got %q, %v, want %q", rest, err, clean)
		}
	})
}
