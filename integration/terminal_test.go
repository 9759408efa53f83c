package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"debrief/events"
)

// onTheLine contains all known kinds of terminal control sequences; attack also contains a forged line of output.
const (
	onTheLine = "x\x1b]0;title\x07\x1b[2J\u009b31m\u202ey\u2066z\u200e\u061c\u2028\u2029\x7f\r"
	attack    = onTheLine + "\nFORGED"
)

// named is an attack without control characters and line breaks, which names of runs, sessions and users do not have.
var named = strings.Map(func(r rune) rune {
	if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
		return -1
	}
	return r
}, attack)

// storeAttacks stores an attack in every text field that a client can set, and returns the handles of two executions.
func storeAttacks(t *testing.T, p *pipeline) (agents, tasks string) {
	t.Helper()
	r := report(make([]string, len(secretKinds)))
	for _, name := range []string{"run_id", "session", "model", "question", "context", "answer", "reasoning", "target"} {
		r[name] = attack
	}
	r["run_id"], r["session"] = named, named
	r["cited"] = []string{attack}
	r["outcome"] = fields{"label": "failure", "feedback": attack, "by": attack}
	call := fields{"tool": attack, "arguments": attack, "output": "error: " + attack, "outcome": "failure"}
	record := fields{"synthesis": attack, "calls": []fields{{"line": attack, "insights": attack, "learning": attack, "next_suggested_actions": []string{attack}}}}
	step := fields{"speaker": "assistant", "text": attack, "mode": attack, "user_feedback": attack, "tool_calls": []fields{call, call}, "record": record}
	r["steps"] = []fields{step, step, step}
	served := p.post(t, "/api/v1/contexts", fields{"book": "b", "session": named, "query": attack, "context": attack, "system": attack})
	r["context_id"] = served["context_id"]
	agents, _ = p.post(t, "/api/v1/executions", r)["handle"].(string)
	p.post(t, "/api/v1/feedback", fields{"book": "b", "execution": agents, "outcome": fields{"label": "success", "by": attack, "feedback": attack}})

	task := &events.Task{
		Book: "b",
		ID:   named, Session: named, Question: attack, Context: attack, Target: attack, Evaluator: "contains",
		Origin: events.Origin{Run: named, Source: named, Task: named},
	}
	subject, header, data, err := events.Encode(task)
	if err != nil {
		t.Fatal(err)
	}
	bad := nats.Header{"X-Note": {onTheLine}, "Debrief-Schema": {"1"}}
	for _, m := range []*nats.Msg{{Subject: subject, Header: header, Data: data}, {Subject: subject, Header: bad, Data: []byte(attack)}} {
		if err := p.conn.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	p.run(t, "playbook", "add", attack, "--section", attack, "--author", attack, "--reason", attack)
	p.settle(t)
	log := p.run(t, "tail", "--json", "--book", "b")
	for line := range strings.Lines(log) {
		var e struct{ Kind, Handle, ID string }
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == "execution" {
			tasks = e.Handle
		}
	}
	return agents, tasks
}

// TestOutputContainsNoControlSequences stores an attack in every field and runs every command that prints stored data, as
// text and as JSON.
func TestOutputContainsNoControlSequences(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some sixty commands")
	}
	t.Parallel()
	p := startPipeline(t)
	agents, tasks := storeAttacks(t, p)
	bullet := regexp.MustCompile(`[a-z]+-[0-9]{5}`).FindString(p.run(t, "playbook", "show", "--json"))
	letter := regexp.MustCompile(`(?m)^[0-9]+-[0-9a-f]{8}`).FindString(p.run(t, "dead", "list"))
	if agents == "" || bullet == "" || letter == "" {
		t.Fatalf("got execution %q, bullet %q, dead letter %q", agents, bullet, letter)
	}
	runs := p.file(t, "runs.jsonl", string(jsonLine(t, fields{
		"run_id": named + "2", "question": attack, "answer": attack, "outcome": "failure",
		"steps": []fields{{"tool_calls": []fields{{"tool": attack, "arguments": attack, "output": "error", "outcome": "failure"}}}},
	}))+attack+"\n")
	book := p.file(t, "ace.txt", "## OTHERS\n[oth-00001] helpful=0 harmful=0 :: Say "+onTheLine+".\n")
	commands := [][]string{
		{"learn", runs},
		{"submit", attack + "3", "--id", named + "3", "--session", named, "--wait"},
		{"feedback", agents, "--bad", "--author", attack, "--text", attack},
		{"context", "show", "--query", attack, "--session", named, "--explain"},
		{"context", "show", "--execution", agents},
		{"context", "pin", agents},
		{"context", "star", agents},
		{"context", "session", "--session", named},
		{"context", "unpin", agents},
		{"playbook", "show"},
		{"playbook", "log"},
		{"playbook", "diff", "1"},
		{"playbook", "tag", attack, "--author", attack},
		{"playbook", "restore", "1", "--author", attack, "--reason", attack},
		{"playbook", "add", attack + "4", "--section", attack, "--author", attack},
		{"playbook", "edit", bullet, "--content", attack + "5", "--section", attack, "--author", attack},
		{"playbook", "pin", bullet, "--author", attack},
		{"playbook", "merge", bullet, bullet, "--content", attack},
		{"playbook", "refine"},
		{"playbook", "import", book},
		{"playbook", "export"},
		{"playbook", "export", "--format", "jsonl"},
		{"playbook", "fork", "c", "--reason", attack},
		{"playbook", "promote", attack},
		{"playbook", "gate"},
		{"playbook", "review", "list"},
		{"playbook", "review", "approve", attack},
		{"playbook", "review", "reject", attack},
		{"playbook", "why", bullet},
		{"playbook", "why", agents},
		{"playbook", "why", tasks},
		{"playbook", "why", attack},
		{"playbook", "rejected"},
		{"playbook", "verify"},
		{"playbook", "rebuild"},
		{"playbook", "forget", "--session", named, "--dry-run"},
		{"playbook", "forget", "--session", named, "--author", attack},
		{"playbook", "remove", bullet, "--author", attack},
		{"status"},
		{"version"},
		{"schema"},
		{"schema", attack},
		{"doctor"},
		{"tail"},
		{"dead", "list"},
		{"dead", "show", letter},
		{"dead", "show", attack},
		{"dead", "requeue", letter},
		{"dead", "drop", letter},
		{"up", "--gate", attack, "--show-config"},
		{"eval", runs, "--model", attack, "--base-url", "http://127.0.0.1:1/v1"},
		{"train", runs, "--model", attack, "--run", attack, "--base-url", "http://127.0.0.1:1/v1"},
		{"backup", "create", attack},
		{"backup", "restore", attack},
		{attack},
		{"status", "--" + attack},
	}
	commands = append(commands, unlisted(t, p.bin, commands)...)
	printed := 0
	for _, args := range commands {
		for _, args := range [][]string{args, append(append([]string{}, args...), "--json")} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // ends commands that retry
			defer cancel()
			cmd := exec.CommandContext(ctx, p.bin, args...)
			cmd.Dir = t.TempDir()
			cmd.Env = append(os.Environ(), "DEBRIEF_NATS="+p.nats, "DEBRIEF_BOOK=b", "USER="+onTheLine, "HOME="+cmd.Dir, "GOGC=400")
			out, _ := cmd.CombinedOutput() // many commands fail; the test checks their errors too
			printed += strings.Count(string(out), `\u001b`)
			if bad := controlCharacter(string(out)); bad != "" {
				t.Errorf("%.60q: prints %s", args, bad)
			}
			if shows := args[0] == "context" || args[0] == "submit"; !shows && strings.Contains(string(out), "\nFORGED") {
				// Bullets, answers and messages may have several lines, which are indented beside other output.
				t.Errorf("%.60q: a text forged a line of\n%.600s", args, out)
			}
		}
	}
	if printed < 100 { // the control
		t.Errorf("the attack was printed only %d times, so the test is not meaningful", printed)
	}
	t.Logf("%d commands showed the attack %d times", 2*len(commands), printed)
}

// unlisted returns calls of the commands of the program that are not in a list, without arguments and with an attack as
// the argument. It leaves out the commands that print no stored data.
func unlisted(t *testing.T, bin string, list [][]string) (calls [][]string) {
	t.Helper()
	elsewhere := map[string]string{
		"demo": "its own tasks", "up": "logs, see package console", "simulate": "its own text", "credentials": "its own keys", "setup": "names of streams",
	}
	help, err := exec.Command(bin, "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+(?: [a-z]+){0,2})  +[A-Z]`).FindAllStringSubmatch(string(help), -1) {
		found++
		covered := elsewhere[m[1]] != ""
		for _, args := range list {
			covered = covered || strings.HasPrefix(strings.Join(args, " ")+" ", m[1]+" ")
		}
		if !covered {
			words := strings.Fields(m[1])
			calls = append(calls, words, append(slices.Clone(words), attack))
		}
	}
	if found < 40 {
		t.Errorf("found %d commands in the help", found)
	}
	return calls
}

// controlCharacter returns the first control character of a text.
func controlCharacter(text string) string {
	for i, c := range text {
		switch {
		case c == '\n' || c == '\t':
		case c == utf8.RuneError && !strings.HasPrefix(text[i:], "\ufffd"), unicode.IsControl(c), unicode.Is(unicode.Bidi_Control, c), c == 0x2028, c == 0x2029:
			return fmt.Sprintf("%U in %q", c, text[max(0, i-40):min(len(text), i+20)])
		}
	}
	return ""
}

func jsonLine(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return append(data, '\n')
}
