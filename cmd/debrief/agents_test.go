package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tailscale/hujson"
)

// newcomer is a person who connects a coding agent on a machine of their own. The agent is simulated: its events and transcripts have
// the documented form, and its commands are those that 'debrief connect' wrote into its settings.
type newcomer struct {
	t       *testing.T
	dir     string // with home, repo and data
	address string // of the gateway
	agent   simulatedAgent
}

// simulatedAgent is how an agent looks from outside.
type simulatedAgent struct {
	name, settings      string // file in the home directory
	begin, prompt, stop string // events
	before              string // settings of the person before
	servers             string // file with MCP servers in the home directory
	serversBefore       string // of the person before
	transcript          func(session, question, item string) string
	promptExtra         string
}

const theError = "Error: unknown field title"

var simulatedAgents = []simulatedAgent{
	{
		name: "claude-code", servers: ".claude.json", serversBefore: "{\n  \"numStartups\": 7,\n  \"mcpServers\": {\"tickets\": {\"type\": \"http\", \"url\": \"http://127.0.0.1:9/mcp\"}}\n}",
		settings: ".claude/settings.json", begin: "SessionStart", prompt: "UserPromptSubmit", stop: "Stop",
		before: "{\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"true\"}]}]\n  }\n}\n",
		transcript: func(s, q, item string) string {
			line := func(kind, id, content string) string {
				return fmt.Sprintf(`{"type":%q,"sessionId":%q,"uuid":"%s-%s","timestamp":"2026-11-28T10:00:00Z","message":{"id":"%s-%s","role":%q,"model":"m","content":%s}}`+"\n", kind, s, s, id, s, id, kind, content)
			}
			return line("user", "u", fmt.Sprintf("%q", q)) +
				line("assistant", "a", fmt.Sprintf(`[{"type":"tool_use","id":"%s-1","name":"catalogue","input":{"title":%q}}]`, s, item)) +
				line("user", "b", fmt.Sprintf(`[{"type":"tool_result","tool_use_id":"%s-1","is_error":true,"content":%q}]`, s, theError)) +
				line("assistant", "c", fmt.Sprintf(`[{"type":"tool_use","id":"%s-2","name":"catalogue","input":{"item":%q}}]`, s, item)) +
				line("user", "d", fmt.Sprintf(`[{"type":"tool_result","tool_use_id":"%s-2","content":"shelf 7"}]`, s)) +
				line("assistant", "e", fmt.Sprintf(`[{"type":"tool_use","id":"%s-3","name":"Bash","input":{"command":"go test ./..."}}]`, s)) +
				line("user", "f", fmt.Sprintf(`[{"type":"tool_result","tool_use_id":"%s-3","content":"ok"}]`, s)) +
				line("assistant", "g", `[{"type":"text","text":"Shelf 7."}]`)
		},
	},
	{
		name: "codex", servers: ".codex/config.toml", serversBefore: "model = \"gpt\"\n\n[mcp_servers.tickets]\nurl = \"http://127.0.0.1:9/mcp\"\n",
		settings: ".codex/hooks.json", begin: "SessionStart", prompt: "UserPromptSubmit", stop: "Stop",
		promptExtra: `"turn_id":"t","model":"gpt",`,
		transcript: func(s, q, item string) string {
			line := func(kind, payload string) string {
				return fmt.Sprintf(`{"timestamp":"2026-11-28T10:00:00Z","type":%q,"payload":%s}`+"\n", kind, payload)
			}
			call := func(id, tool, args, output string) string {
				return line("response_item", fmt.Sprintf(`{"type":"function_call","call_id":"%s-%s","name":%q,"arguments":%q}`, s, id, tool, args)) +
					line("response_item", fmt.Sprintf(`{"type":"function_call_output","call_id":"%s-%s","output":%q}`, s, id, output))
			}
			return line("session_meta", fmt.Sprintf(`{"id":%q,"timestamp":"2026-11-28T10:00:00Z"}`, s)) +
				line("response_item", fmt.Sprintf(`{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}`, q)) +
				call("1", "catalogue", `{"title":"`+item+`"}`, theError) + call("2", "catalogue", `{"item":"`+item+`"}`, `{"shelf": 7}`) +
				call("3", "shell_command", `{"command":"go test ./..."}`, "Exit code: 0\nWall time: 1 seconds\nOutput:\nok") +
				line("response_item", `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Shelf 7."}]}`)
		},
	},
	{
		name: "gemini", servers: ".gemini/settings.json",
		settings: ".gemini/settings.json", begin: "SessionStart", prompt: "BeforeAgent", stop: "AfterAgent",
		before:      "{\n\t// dark\n\t\"theme\": \"Default\",\n}\n",
		promptExtra: `"timestamp":"2026-11-28T10:00:00Z",`,
		transcript: func(s, q, item string) string {
			call := func(id, tool, args, status, output string) string {
				return fmt.Sprintf(`{"id":"m%s","type":"gemini","content":"","toolCalls":[{"id":"%s-%s","name":%q,"args":%s,"status":%q,`+
					`"result":[{"functionResponse":{"id":"%s-%s","name":%q,"response":{"output":%q}}}]}]}`, id, s, id, tool, args, status, s, id, tool, output)
			}
			calls := []string{
				call("1", "catalogue", `{"title":"`+item+`"}`, "error", theError), call("2", "catalogue", `{"item":"`+item+`"}`, "success", "shelf 7"),
				call("3", "run_shell_command", `{"command":"go test ./..."}`, "success", "ok"),
			}
			return fmt.Sprintf(`{"sessionId":%q,"projectHash":"h","startTime":"2026-11-28T10:00:00Z","messages":[{"id":"u","type":"user","content":%q},`+
				`%s,{"id":"g2","type":"gemini","content":"Shelf 7."}]}`, s, q, strings.Join(calls, ","))
		},
	},
	{
		name: "cursor", servers: ".cursor/mcp.json",
		settings: ".cursor/hooks.json", begin: "sessionStart", prompt: "beforeSubmitPrompt", stop: "stop",
		before: "{\n  \"version\": 1,\n  \"hooks\": {\n    \"stop\": [{\"command\": \"true\"}]\n  }\n}\n",
	},
}

// run runs a program in the repository and returns its output.
func (n *newcomer) run(stdin string, name string, args ...string) (string, error) {
	cmd := n.command(stdin, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%s %v: %w: %s%s", name, args, err, stdout.String(), stderr.String())
	}
	return stdout.String(), err
}

// command returns a command in the repository.
func (n *newcomer) command(stdin string, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir = filepath.Join(n.dir, "repo")
	cmd.Env = []string{"HOME=" + filepath.Join(n.dir, "home"), "PATH=" + os.Getenv("PATH"), "GOGC=400", "USER=ann"}
	cmd.Stdin = strings.NewReader(stdin)
	return cmd
}

func (n *newcomer) must(name string, args ...string) string {
	n.t.Helper()
	out, err := n.run("", name, args...)
	if err != nil {
		n.t.Fatal(err)
	}
	return out
}

// files returns the files below a directory, by name.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// event sends an event to the commands that the settings of the agent have for it, as the agent does, and returns what they print.
func (n *newcomer) event(name, session, fields string) string {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "home", n.agent.settings))
	if err != nil {
		n.t.Fatal(err)
	}
	clean := strings.ReplaceAll(string(data), "\t// dark\n", "")
	clean = strings.Replace(clean, "]\n\t},\n}", "]\n\t}\n}", 1)
	var settings struct {
		Hooks map[string][]struct {
			Command string
			Hooks   []struct{ Command string }
		}
	}
	if err := json.Unmarshal([]byte(clean), &settings); err != nil {
		n.t.Fatalf("%v: %s", err, data)
	}
	text := fmt.Sprintf(`{"hook_event_name":%q,%s%s"cwd":%q}`, name, n.identity(session), fields, filepath.Join(n.dir, "repo"))
	if !json.Valid([]byte(text)) {
		n.t.Fatalf("no JSON: %s", text)
	}
	var out strings.Builder
	for _, group := range settings.Hooks[name] {
		commands := append(group.Hooks, struct{ Command string }{group.Command})
		for _, c := range commands {
			if !strings.Contains(c.Command, "debrief") {
				continue
			}
			printed, err := n.run(text, "sh", "-c", c.Command)
			if err != nil {
				n.t.Fatal(err)
			}
			out.WriteString(printed)
		}
	}
	return out.String()
}

func (n *newcomer) transcript(session string) string {
	return filepath.Join(n.dir, "home", "transcripts", session+".jsonl")
}

// identity returns the fields that all events of a session have.
func (n *newcomer) identity(session string) string {
	if n.agent.name == "cursor" {
		return fmt.Sprintf(`"conversation_id":%q,"generation_id":"g","cursor_version":"2.4.1","workspace_roots":[%q],"transcript_path":null,`, session, filepath.Join(n.dir, "repo"))
	}
	return fmt.Sprintf(`"session_id":%q,"transcript_path":%q,"permission_mode":"default",`, session, n.transcript(session))
}

// work lets the agent work on a question, and returns what the hooks add to its prompt.
func (n *newcomer) work(session, question, item string) string {
	n.t.Helper()
	advice := n.event(n.agent.begin, session, `"source":"startup",`)
	advice += n.event(n.agent.prompt, session, fmt.Sprintf(`%s"prompt":%q,`, n.agent.promptExtra, question))
	if n.agent.transcript != nil {
		name := n.transcript(session)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			n.t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(n.agent.transcript(session, question, item)), 0o600); err != nil {
			n.t.Fatal(err)
		}
	} else {
		advice += n.event("postToolUseFailure", session, fmt.Sprintf(`"tool_name":"MCP:catalogue","tool_input":{"title":%q},"error_message":%q,"failure_type":"error",`, item, theError))
		advice += n.event("postToolUse", session, fmt.Sprintf(`"tool_name":"MCP:catalogue","tool_input":{"item":%q},"tool_output":"{\"shelf\":7}","duration":3,`, item))
		advice += n.event("postToolUse", session, `"tool_name":"Shell","tool_input":{"command":"go test ./..."},"tool_output":"{\"exitCode\":0,\"output\":\"ok\"}","duration":3,`)
		n.event("afterAgentResponse", session, `"text":"Shelf 7.",`)
	}
	n.event(n.agent.stop, session, `"stop_hook_active":false,"last_assistant_message":"Shelf 7.","status":"completed",`)
	return advice
}

// await waits until a condition holds.
func (n *newcomer) await(what string, holds func() bool) {
	n.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(filepath.Join(n.dir, "home/.local/state/debrief/agents/hook.log"))
			n.t.Fatalf("%s: not in time: %s", what, log)
		}
	}
}

// awaitHandOver waits until no run waits.
func (n *newcomer) awaitHandOver() {
	n.t.Helper()
	n.await("hand over", func() bool {
		waiting, _ := filepath.Glob(filepath.Join(n.dir, "home/.local/state/debrief/agents/spool/*.json"))
		return len(waiting) == 0
	})
}

// watch runs 'debrief learn --watch' until the playbook has a lesson.
func (n *newcomer) watch(data, book, lesson string) {
	n.t.Helper()
	cmd := exec.Command("debrief", "learn", "--watch", "--data", data, "--book", book)
	cmd.Env = []string{"HOME=" + filepath.Join(n.dir, "home"), "PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.await("learn --watch", func() bool {
		out, err := n.run("", "debrief", "playbook", "show", "--data", data, "--book", book)
		return err == nil && strings.Contains(strings.Join(strings.Fields(out), " "), lesson)
	})
	if cmd.ProcessState != nil {
		n.t.Error("learn --watch has ended")
	}
	_ = cmd.Process.Signal(os.Interrupt)
	_ = cmd.Wait()
}

// entry returns the command of the MCP server in the settings of the agent, as the agent starts it in a directory.
func (n *newcomer) entry(dir string) *exec.Cmd {
	n.t.Helper()
	data, err := os.ReadFile(filepath.Join(n.dir, "home", n.agent.servers))
	if err != nil {
		n.t.Fatal(err)
	}
	var s struct {
		Command string
		Args    []string
	}
	if strings.HasSuffix(n.agent.servers, ".toml") {
		_, table, ok := strings.Cut(string(data), "\n[mcp_servers.debrief]\n")
		if _, err := fmt.Sscanf(table, "command = %q\n", &s.Command); err != nil || !ok {
			n.t.Fatalf("no server in %s: %v", data, err)
		}
		_, args, _ := strings.Cut(table, "args = ")
		err = json.Unmarshal([]byte(strings.TrimSpace(args)), &s.Args)
	} else {
		v, parseErr := hujson.Standardize(data)
		var settings struct {
			MCPServers map[string]json.RawMessage `json:"mcpServers"`
		}
		err = errors.Join(parseErr, json.Unmarshal(v, &settings), json.Unmarshal(settings.MCPServers["debrief"], &s))
	}
	if err != nil {
		n.t.Fatalf("%v: %s", err, data)
	}
	for i, arg := range s.Args {
		s.Args[i] = strings.ReplaceAll(arg, "${workspaceFolder}", dir)
	}
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + filepath.Join(n.dir, "home"), "PATH=" + os.Getenv("PATH")}
	return cmd
}

// lookUp has the agent use the MCP server that is in its settings: in the repository, and in one that is not connected.
func (n *newcomer) lookUp(book string) {
	n.t.Helper()
	tools := func(dir string) (*mcp.ClientSession, []string) {
		session, err := mcp.NewClient(&mcp.Implementation{Name: n.agent.name, Version: "1"}, nil).Connect(n.t.Context(), &mcp.CommandTransport{Command: n.entry(dir)}, nil)
		if err != nil {
			n.t.Fatalf("the MCP server in the settings: %v", err)
		}
		n.t.Cleanup(func() { _ = session.Close() })
		var names []string
		if session.InitializeResult().Capabilities.Tools != nil {
			list, err := session.ListTools(n.t.Context(), nil)
			if err != nil {
				n.t.Fatal(err)
			}
			for _, tool := range list.Tools {
				names = append(names, tool.Name)
			}
		}
		return session, names
	}
	session, names := tools(filepath.Join(n.dir, "repo"))
	if d := cmp.Diff([]string{"explain_bullet", "playbook_context", "playbook_search", "propose_bullet"}, names); d != "" {
		n.t.Errorf("tools of a connected agent, whose hooks report its runs: %s", d)
	}
	got, err := session.CallTool(n.t.Context(), &mcp.CallToolParams{Name: "playbook_context", Arguments: map[string]any{"query": "Where is the map?"}})
	if err != nil {
		n.t.Fatal(err)
	}
	if data, _ := json.Marshal(got.Content); got.IsError || !strings.Contains(string(data), "unknown field title") {
		n.t.Errorf("playbook_context of %s: got %s", book, data)
	}
	elsewhere := filepath.Join(n.dir, "elsewhere")
	n.must("git", "init", "-q", elsewhere)
	if _, names := tools(elsewhere); len(names) > 0 {
		n.t.Errorf("in a repository that is not connected: got the tools %q", names)
	}
}

// TestNewcomers: a person connects each of the agents with a server that has tokens, works, learns, sees the lesson in the next session,
// rates a run, and takes all of it back.
func TestNewcomers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: run without -short")
	}
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("needs git")
	}
	t.Parallel()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, address, health := filepath.Join(base, "data"), freeAddress(), freeAddress()
	server := &newcomer{t: t, dir: filepath.Join(base, "server")}
	if err := os.MkdirAll(filepath.Join(server.dir, "repo"), 0o700); err != nil {
		t.Fatal(err)
	}
	tokens := filepath.Join(base, "tokens.yaml")
	secret := strings.TrimSpace(server.must("debrief", "token", "new", "agents", "--file", tokens, "--scope", "context,report"))
	up := exec.Command("debrief", "up", "--data", data, "--listen", "127.0.0.1:0", "--http", address, "--health", health, "--tokens", tokens)
	up.Env = []string{"HOME=" + base, "PATH=" + os.Getenv("PATH")}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(os.Interrupt)
		_ = up.Wait()
	})
	server.await("the server", func() bool {
		r, err := http.Get("http://" + health + "/readyz")
		if err == nil {
			_ = r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
	t.Run("agents", func(t *testing.T) { // ends before the server
		for _, agent := range simulatedAgents {
			t.Run(agent.name, func(t *testing.T) {
				t.Parallel()
				n := &newcomer{t: t, dir: filepath.Join(base, agent.name), address: "http://" + address, agent: agent}
				n.walk(data, secret)
			})
		}
	})
}

// walk is what the person does.
func (n *newcomer) walk(data, secret string) {
	t := n.t
	home, repo := filepath.Join(n.dir, "home"), filepath.Join(n.dir, "repo")
	write := func(name, text string) {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(repo, "a.go"), "package shop\n")
	write(filepath.Join(n.dir, "token"), secret+"\n")
	if n.agent.before != "" {
		write(filepath.Join(home, n.agent.settings), n.agent.before)
	} else if err := os.MkdirAll(home, 0o700); err != nil {
		t.Fatal(err)
	}
	if n.agent.serversBefore != "" {
		write(filepath.Join(home, n.agent.servers), n.agent.serversBefore)
	}
	n.must("git", "init", "-q", ".")
	n.must("git", "-c", "user.name=ann", "-c", "user.email=ann@example.com", "commit", "-q", "--allow-empty", "-m", "begin")
	n.must("git", "add", "a.go")
	homeBefore, repoBefore := files(t, home), files(t, repo)
	book := "shop-" + n.agent.name
	connect := []string{"connect", n.agent.name, "--book", book, "--url", n.address, "--token-file", filepath.Join(n.dir, "token")}

	out := n.must("debrief", append(connect, "--dry-run")...)
	if !strings.Contains(out, "+++ ") || !strings.Contains(out, "hook "+n.agent.name) || !strings.Contains(out, "Nothing was changed") || strings.Contains(out, secret) {
		t.Errorf("connect --dry-run: got %s, want the difference without the token", out)
	}
	if got := files(t, home); !cmp.Equal(got, homeBefore) {
		t.Errorf("connect --dry-run changed files: %s", cmp.Diff(homeBefore, got))
	}
	n.must("debrief", connect...)
	homeAfter := files(t, home)
	if out := n.must("debrief", connect...); !strings.Contains(out, "nothing to change") || !cmp.Equal(files(t, home), homeAfter) {
		t.Errorf("connect again: got %s", out)
	}
	for name, text := range homeAfter {
		if strings.Contains(text, secret) && name != "/.config/debrief/agents.json" {
			t.Errorf("%s has the token", name)
		}
	}

	n.must("debrief", append(connect, "--no-mcp")...)
	if without := files(t, home)["/"+n.agent.servers]; strings.Contains(without, `"mcp"`) {
		t.Errorf("connect --no-mcp: got %s", without)
	}
	n.must("debrief", connect...)
	if d := cmp.Diff(homeAfter["/"+n.agent.servers], files(t, home)["/"+n.agent.servers]); d != "" {
		t.Errorf("connect after --no-mcp: %s", d)
	}

	for session, item := range map[string]string{"s-1": "atlas", "s-2": "globe"} {
		if advice := n.work(session, "Where is the "+item+"?", item); advice != "" {
			t.Errorf("before anything is learned: got %s", advice)
		}
	}
	n.awaitHandOver()
	const lesson = `answers "unknown field title", give`
	if n.agent.name == "codex" {
		n.watch(data, book, lesson)
	} else if out := strings.Join(strings.Fields(n.must("debrief", "learn", "--data", data, "--book", book)), " "); !strings.Contains(out, lesson) {
		t.Fatalf("learn: got %s, want the lesson %q", out, lesson)
	}
	session := ""
	n.await("the lesson", func() bool { // a hook on a busy machine goes on without advice
		session += "s-3"
		advice := n.work(session, "Where is the map?", "map")
		if got := strings.Count(advice, "unknown field title"); got > 1 {
			t.Errorf("the next session: got the lesson %d times: %s", got, advice)
		}
		return strings.Contains(advice, "unknown field title")
	})
	n.lookUp(book)
	rated := n.event(n.agent.prompt, session, `"prompt":"/debrief bad it was shelf 9",`)
	if !strings.Contains(rated, "rated failure") || !json.Valid([]byte(rated)) {
		t.Errorf("a rating: got %s", rated)
	}
	n.awaitHandOver()
	var runs []string
	for line := range strings.Lines(n.must("debrief", "tail", "--lines", "1000", "--data", data, "--book", book)) {
		if strings.Contains(line, " execution ") || strings.Contains(line, " feedback ") {
			runs = append(runs, line)
		}
	}
	all := strings.Join(runs, "")
	executions := strings.Count(all, " execution ")
	if executions < 3 || strings.Count(all, "success 1.00") != executions || strings.Count(all, "atlas?")+strings.Count(all, "globe?") != 2 || strings.Count(all, " feedback ") != 1 || !strings.Contains(all, "failure") {
		t.Errorf("got the runs\n%s\nwant one for each session that succeeded by their tests, and a rating as a failure", all)
	}
	if out := n.must("git", "status", "--porcelain", "--ignored"); out != "A  a.go\n" {
		t.Errorf("git status: got %s", out)
	}
	for name, text := range files(t, repo) {
		if strings.Contains(text, secret) || strings.Contains(text, n.address) {
			t.Errorf("%s in the repository has the token or the address", name)
		}
	}

	n.must("debrief", "connect", n.agent.name, "--uninstall")
	homeEnd := files(t, home)
	maps.DeleteFunc(homeEnd, func(name, _ string) bool {
		return strings.HasPrefix(name, "/.local/state/debrief/") || strings.HasPrefix(name, "/transcripts/")
	})
	if d := cmp.Diff(homeBefore, homeEnd); d != "" {
		t.Errorf("files of the person after the removal: %s", d)
	}
	if d := cmp.Diff(repoBefore, files(t, repo)); d != "" {
		t.Errorf("files of the repository after the removal: %s", d)
	}
	if dirs, _ := os.ReadDir(home); slices.ContainsFunc(dirs, func(d fs.DirEntry) bool {
		return n.agent.before+n.agent.serversBefore == "" && strings.HasPrefix(d.Name(), "."+n.agent.name)
	}) {
		t.Errorf("an empty directory of the agent stays")
	}
}
