package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"debrief/events"
	"debrief/playbook"
)

func bulletID(i int) playbook.BulletID { return playbook.BulletID(fmt.Sprintf("misc-%05d", i+1)) }

// TestEvents sends each event in the form that its agent documents, and compares the whole output.
func TestEvents(t *testing.T) {
	t.Parallel()
	const text = `<playbook>\nThe user did not write this part.\n\n- [misc-00001] Prices are in cents.\n</playbook>`
	nested := func(event string) string {
		return `{"hookSpecificOutput":{"additionalContext":"` + text + `","hookEventName":"` + event + `"}}` + "\n"
	}
	flat := `{"additional_context":"` + text + `"}` + "\n"
	const claude = `"session_id":"s","transcript_path":"/home/u/.claude/projects/x/s.jsonl","cwd":"REPO/src","permission_mode":"default"`
	const codex = `"session_id":"s","transcript_path":null,"cwd":"REPO","model":"gpt-5.6","permission_mode":"default"`
	const gemini = `"session_id":"s","transcript_path":"/home/u/.gemini/tmp/x/chats/s.json","cwd":"REPO","timestamp":"2026-11-28T10:00:00Z"`
	const cursor = `"conversation_id":"s","generation_id":"g","model":"auto","cursor_version":"2.4.1","workspace_roots":["REPO"],"user_email":"u@example.com","transcript_path":null`
	for _, test := range []struct{ agent, event, want string }{
		{ClaudeCode, `{"hook_event_name":"SessionStart","source":"startup","model":"opus",` + claude + `}`, nested("SessionStart")},
		{ClaudeCode, `{"hook_event_name":"UserPromptSubmit","prompt":"Fix the prices",` + claude + `}`, nested("UserPromptSubmit")},
		{ClaudeCode, `{"hook_event_name":"Stop","stop_hook_active":false,"last_assistant_message":"Done.","background_tasks":[],` + claude + `}`, ""},
		{ClaudeCode, `{"hook_event_name":"SessionEnd","reason":"prompt_input_exit",` + claude + `}`, ""},
		{ClaudeCode, `{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"},` + claude + `}`, ""},
		{ClaudeCode, `{"hook_event_name":"UserPromptSubmit","prompt":"Fix","agent_id":"a1","agent_type":"Explore",` + claude + `}`, ""},
		{ClaudeCode, `{"hook_event_name":"UserPromptSubmit","prompt":"Fix","cursor_version":"2.4.1",` + claude + `}`, ""},
		{Codex, `{"hook_event_name":"SessionStart","source":"startup",` + codex + `}`, nested("SessionStart")},
		{Codex, `{"hook_event_name":"UserPromptSubmit","turn_id":"t","prompt":"Fix the prices",` + codex + `}`, nested("UserPromptSubmit")},
		{Codex, `{"hook_event_name":"Stop","turn_id":"t","stop_hook_active":false,"last_assistant_message":null,` + codex + `}`, ""},
		{Gemini, `{"hook_event_name":"SessionStart","source":"startup",` + gemini + `}`, nested("SessionStart")},
		{Gemini, `{"hook_event_name":"BeforeAgent","prompt":"Fix the prices",` + gemini + `}`, nested("BeforeAgent")},
		{Gemini, `{"hook_event_name":"AfterAgent","prompt":"Fix the prices","prompt_response":"Done.","stop_hook_active":false,` + gemini + `}`, ""},
		{Gemini, `{"hook_event_name":"SessionEnd","reason":"exit",` + gemini + `}`, ""},
		{Cursor, `{"hook_event_name":"sessionStart","session_id":"s","is_background_agent":false,"composer_mode":"agent",` + cursor + `}`, flat},
		{Cursor, `{"hook_event_name":"beforeSubmitPrompt","prompt":"Fix the prices","attachments":[],` + cursor + `}`, ""},
		{Cursor, `{"hook_event_name":"afterAgentResponse","text":"Done.",` + cursor + `}`, ""},
		{Cursor, `{"hook_event_name":"stop","status":"completed","loop_count":0,` + cursor + `}`, ""},
		{Cursor, `{"hook_event_name":"sessionEnd","reason":"completed","duration_ms":5,` + cursor + `}`, ""},
	} {
		a := newAPI(t)
		a.bullets = []string{"Prices are in cents."}
		u := newUser(t, a)
		if got := u.hook(test.agent, test.event); got != test.want || u.log() != "" {
			t.Errorf("%s\ngot  %q\nwant %q, log %q", test.event, got, test.want, u.log())
		}
		if test.want != "" && (a.contexts[0].Book != "shop" || a.contexts[0].Session != "s" || !a.contexts[0].Advice || a.tokens[0] != "Bearer dbr_token") {
			t.Errorf("%s: got the request %+v with %q", test.event, a.contexts[0], a.tokens)
		}
	}
	a := newAPI(t)
	a.bullets = []string{"Prices are in cents."}
	u := newUser(t, a)
	u.hook(Cursor, `{"hook_event_name":"beforeSubmitPrompt","prompt":"Fix the prices",`+cursor+`}`)
	tool := `{"hook_event_name":"postToolUse","tool_name":"Shell","tool_input":{"command":"ls"},"tool_output":"{\"output\":\"a.go\"}","duration":12,"tool_use_id":"t","cwd":"REPO",` + cursor + `}`
	if got := u.hook(Cursor, tool); got != flat || a.contexts[0].Query != "Fix the prices" {
		t.Errorf("the first tool call of Cursor: got %q for %+v, want the advice for the message", got, a.contexts)
	}
	if got := u.hook(Cursor, tool); got != "" || len(a.contexts) != 1 {
		t.Errorf("the second tool call of Cursor: got %q", got)
	}
}

var ids = regexp.MustCompile(`\[(misc-\d+)\]`)

// TestNoBulletTwice: 200 turns of a session, each with other bullets of a playbook.
func TestNoBulletTwice(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	u := newUser(t, a)
	seen := map[string]int{}
	long := strings.Repeat("a long condition, ", 20)
	for turn := range 200 {
		a.bullets = nil
		for i := range 120 {
			a.bullets = append(a.bullets, fmt.Sprint(i, long[:rand.N(len(long))]))
		}
		out := u.hook(ClaudeCode, fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","prompt":"Task %d","session_id":"s","cwd":"REPO"}`, turn))
		if len(out) > maxText*2 {
			t.Fatalf("turn %d: %d bytes", turn, len(out))
		}
		var output struct {
			Out struct {
				Text string `json:"additionalContext"`
			} `json:"hookSpecificOutput"`
		}
		if out != "" {
			if err := json.Unmarshal([]byte(out), &output); err != nil || len(output.Out.Text) > maxText {
				t.Fatalf("turn %d: %v, %d bytes of text", turn, err, len(output.Out.Text))
			}
		}
		for _, m := range ids.FindAllStringSubmatch(output.Out.Text, -1) {
			seen[m[1]]++
			if seen[m[1]] > 1 {
				t.Fatalf("turn %d: %s again", turn, m[1])
			}
		}
	}
	if len(seen) != 120 {
		t.Errorf("got %d bullets in all, want 120", len(seen))
	}
	for _, source := range []string{"resume", "compact", "clear"} {
		out := u.hook(ClaudeCode, `{"hook_event_name":"SessionStart","source":"`+source+`","session_id":"s","cwd":"REPO"}`)
		if want := source != "resume"; (out != "") != want {
			t.Errorf("after %s: got %q, want bullets again: %t", source, out, want)
		}
	}
}

// TestOneOutputOrNone: whatever the server does, the output is empty, and the hook ends in time.
func TestOneOutputOrNone(t *testing.T) {
	t.Parallel()
	wait := func(r *http.Request) { // until the client has gone; the server notices that after the body
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	for name, serve := range map[string]http.HandlerFunc{
		"slow": func(_ http.ResponseWriter, r *http.Request) { wait(r) },
		"slow body": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(`{"messages":[`))
			w.(http.Flusher).Flush()
			wait(r)
		},
		"full":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) },
		"unauthorized": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"no JSON":      func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"hostile offsets": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"messages":[{"speaker":"user","text":"x"}],"lines":[{"start":5,"end":900,"bullet":"a-1"},{"start":-4,"end":2,"bullet":"a-2"}]}`))
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		},
		"dead": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := &api{Server: httptest.NewServer(serve)}
			t.Cleanup(a.Close)
			if serve == nil {
				a.Close()
			}
			u := newUser(t, a)
			h := u.hooks[ClaudeCode]
			started := time.Now()
			h.Until = started.Add(Limit)
			out := h.Handle(t.Context(), strings.NewReader(`{"hook_event_name":"UserPromptSubmit","prompt":"Fix","session_id":"s","cwd":"`+u.repo+`"}`))
			took := time.Since(started)
			if len(out) > 0 || u.log() == "" || took > 10*Limit {
				t.Errorf("got %q after %s, log %q; want no output, and the reason in the log", out, took, u.log())
			}
			if strings.Contains(u.log(), "dbr_token") {
				t.Errorf("the log has the token: %s", u.log())
			}
		})
	}
}

func TestInvalidInput(t *testing.T) {
	t.Parallel()
	u := newUser(t, newAPI(t))
	for _, text := range []string{"", "{", "[]", "null", `{"hook_event_name":7}`, `{"session_id":{}}`, "\x00\xff", strings.Repeat("[", 100_000)} {
		if out := u.hook(ClaudeCode, text); out != "" {
			t.Errorf("%.20q: got %q", text, out)
		}
	}
	u.hooks[ClaudeCode].Until = time.Now().Add(50 * time.Millisecond)
	in, _ := io.Pipe() // nobody writes or closes it
	if out := u.hooks[ClaudeCode].Handle(t.Context(), in); out != nil || !strings.Contains(u.log(), "not done in time") {
		t.Errorf("input without an end: got %q, log %q", out, u.log())
	}
}

// TestConsent: advice is shown, and runs are recorded, only in the repository that the user has connected.
func TestConsent(t *testing.T) {
	t.Parallel()
	a := newAPI(t)
	a.bullets = []string{"Prices are in cents."}
	u := newUser(t, a)
	git := filepath.Join(u.repo, ".git")
	base := filepath.Dir(u.repo)
	path := func(names ...string) string { return filepath.Join(append([]string{base}, names...)...) }
	ask := func(dir string) bool {
		return u.hook(ClaudeCode, fmt.Sprintf(`{"hook_event_name":"UserPromptSubmit","prompt":"Fix","session_id":%q,"cwd":%q}`, events.NewID(), dir)) != ""
	}

	u.write(path("clone", ".git", "config"), "")                                        // a clone does not have the key
	u.write(path("copy", ".git", KeyFile), "secret\n")                                  // a copy has it, at another place
	u.write(path("forged", ".git"), "gitdir: "+git+"\n")                                // claims to be the repository
	u.write(path("forged2", ".git"), "gitdir: "+filepath.Join(git, "worktrees", "x"))   // claims to be another's worktree
	u.write(path("forged3", ".git"), "gitdir: ./own")                                   // claims the repository by its own files
	u.write(path("forged3", "own", "gitdir"), path("forged3", ".git"))                  //
	u.write(path("forged3", "own", "commondir"), git)                                   //
	u.write(path("shop", "vendor", "nested", ".git", "config"), "")                     // a repository in the repository
	u.write(path("tree", ".git"), "gitdir: "+filepath.Join(git, "worktrees", "x")+"\n") // a worktree
	u.write(filepath.Join(git, "worktrees", "x", "gitdir"), path("tree", ".git")+"\n")  //
	u.write(path("shop", "agents.json"), `{"repositories":[{"book":"other"}]}`)         // a file in the repository decides nothing
	u.write(path("shop", ".debrief", "settings.json"), `{"book":"other","url":"http://x"}`)
	if err := os.MkdirAll(path("shop", "src", "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{
		u.repo: true, path("shop", "src", "deep"): true, path("tree"): true,
		path("clone"): false, path("copy"): false, path("forged"): false, path("forged2"): false, path("forged3"): false,
		path("shop", "vendor", "nested"): false, base: false, "/nowhere": false, "": false,
	} {
		if got := ask(dir); got != want {
			t.Errorf("%s: got advice %t, want %t", dir, got, want)
		}
	}
	if slices.ContainsFunc(a.contexts, func(r events.ContextRequest) bool { return r.Book != "shop" }) {
		t.Error("a file in the repository chose the playbook")
	}
	u.write(filepath.Join(git, KeyFile), "another\n") // another repository took the place
	if ask(u.repo) {
		t.Error("another repository at the same place: got advice")
	}
}

// TestLockInUseStays checks that the lock of an old session in use is not removed, and that of an idle session is.
func TestLockInUseStays(t *testing.T) {
	t.Parallel()
	s := state(t.TempDir())
	used, idle := s.sessionFile("codex", "used"), s.sessionFile("codex", "idle")
	created := time.Now().Add(-2 * sessionAge)
	for _, file := range []string{used, idle} {
		if err := WriteFile(file+".lock", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file+".lock", created, created); err != nil {
			t.Fatal(err)
		}
	}
	unlock, err := lock(t.Context(), used)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	s.removeOld(time.Now())
	if _, err := os.Stat(used + ".lock"); err != nil {
		t.Errorf("the lock in use: %v", err)
	}
	if _, err := os.Stat(idle + ".lock"); err == nil {
		t.Error("the idle lock stays")
	}
}
