package agents

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tailscale/hujson"
)

// settingsOfUsers are files as users have them.
var settingsOfUsers = map[string]string{
	"empty object":      "{}\n",
	"on one line":       `{"model": "opus", "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}`,
	"tabs":              "{\n\t\"model\": \"opus\"\n}\n",
	"four spaces":       "{\n    \"env\": {\n        \"A\": \"b\"\n    },\n    \"hooks\": {\n        \"Stop\": [\n            {\n                \"hooks\": [\n                    {\"type\": \"command\", \"command\": \"say done\"}\n                ]\n            }\n        ]\n    }\n}\n",
	"comments":          "// mine\n{\n  // the theme\n  \"theme\": \"dark\", /* really */\n  \"hooks\": {\n    // none yet\n  },\n}\n",
	"no line feed":      "{\n  \"theme\": \"dark\"\n}",
	"carriage returns":  "{\r\n  \"theme\": \"dark\"\r\n}\r\n",
	"commas at the end": "{\n  \"a\": [1, 2,],\n}\n",
	"duplicate spaces":  "{  \"a\" :  1 ,\n\n\n   \"b\":2 }",
}

func TestInstallKeepsAllElse(t *testing.T) {
	t.Parallel()
	for _, a := range agents {
		for name, before := range settingsOfUsers {
			t.Run(a.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				command := "/usr/bin/debrief hook " + a.name
				after, err := a.installHooks([]byte(before), command)
				if err != nil {
					t.Fatal(err)
				}
				if got := strings.Count(string(after), command); got != len(a.events) {
					t.Errorf("got %d hooks, want %d:\n%s", got, len(a.events), after)
				}
				again, err := a.installHooks(after, command)
				if err != nil || string(again) != string(after) {
					t.Errorf("a second time: %v\n%s", err, cmp.Diff(string(after), string(again)))
				}
				moved, err := a.installHooks(after, `"/opt/my tools/debrief" hook `+a.name)
				if err != nil || strings.Contains(string(moved), "/usr/bin") || strings.Count(string(moved), "my tools") != len(a.events) {
					t.Errorf("another path of the program: %v\n%s", err, moved)
				}
				for _, line := range strings.Split(before, "\n") { // comments and lines of the user stay
					if text := strings.Trim(line, " \t\r{}[],"); len(text) > 3 && !strings.Contains(string(after), text) {
						t.Errorf("%q is gone:\n%s", text, after)
					}
				}
				removed, err := a.removeHooks(after)
				if err != nil {
					t.Fatal(err)
				}
				if want, got := values(t, before), values(t, string(removed)); !cmp.Equal(want, got) {
					t.Errorf("after the removal: %s", cmp.Diff(want, got))
				}
			})
		}
	}
}

// values returns the values of a file without the parts that hooks may leave: empty lists, and a version.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	data, err := hujson.Standardize([]byte(text))
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	var v map[string]any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	delete(v, "version")
	if hooks, ok := v["hooks"].(map[string]any); ok && len(hooks) == 0 {
		delete(v, "hooks")
	}
	return v
}

// FuzzInstall installs hooks into any file, and removes them: a second installation changes nothing, and the removal leaves no hook.
func FuzzInstall(f *testing.F) {
	for _, text := range settingsOfUsers {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, a := range agents {
			command := "/usr/bin/debrief hook " + a.name
			after, err := a.installHooks(data, command)
			if err != nil {
				continue
			}
			if again, err := a.installHooks(after, command); err != nil || string(again) != string(after) {
				t.Errorf("%s: a second time: %v\n%s\n%s", a.name, err, after, again)
			}
			if removed, err := a.removeHooks(after); err != nil || a.isInstalled(removed, command) {
				t.Errorf("%s: after the removal: %v\n%s", a.name, err, removed)
			}
		}
	})
}

func TestInstallRefusesOtherShapes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"[]", "{", `{"hooks": []}`, `{"hooks": {"Stop": {}}}`, "model = 1"} {
		if out, err := find("claude-code").installHooks([]byte(text), "debrief hook claude-code"); err == nil {
			t.Errorf("%s: got %s, want an error", text, out)
		}
	}
}

// TestForeignHooksStay: a hook of another program or agent is not ours, whatever its command contains.
func TestForeignHooksStay(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"debrief hook codex", "my-debrief hook claude-code", "debrief hook claude-code && say done", "echo debrief hook claude-code"} {
		text := `{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"` + command + `"}]}]}}`
		if out, err := find("claude-code").removeHooks([]byte(text)); err != nil || string(out) != text {
			t.Errorf("%s: got %s, %v", command, out, err)
		}
	}
}
