package train

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"debrief/cmd/internal/program"
	"debrief/generator/scoring"
)

func TestDirectoryOfTasks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "1.json"), []byte(`{"question": "Who?"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := taskFile{}.read(t.Context(), dir, scoring.Check, 0)
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %+v, %v, want an error that names the directory", set, err)
	}
}

// TestSettingsListWhatChangesTheResult: the report lists these settings, and an interrupted run continues only with the same ones.
func TestSettingsListWhatChangesTheResult(t *testing.T) {
	t.Parallel()
	const text = "Be strict."
	rubric := filepath.Join(t.TempDir(), "rubric.txt")
	if err := os.WriteFile(rubric, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := new(Training)
	debrief := program.Program{
		Name: "debrief", CLI: new(program.Common), Commands: []program.Command{{Name: "train", Run: p}}, Vars: kong.Vars{"evaluators": "", "data": ""},
	}
	flags := debrief.Model().Children[0].Flags
	p.Tries = 3
	p.ReflectorConfig.EvidenceBudget = 700
	p.JudgeModel = "strict"
	p.Evaluators.Rubric = rubric
	p.Evaluators.Programs = []scoring.Program{{Name: "ours", Command: []string{"score", "--api-key", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"}}}
	settings, err := p.settings(flags)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, s := range settings {
		got[s.Name] = s.Value
	}
	for name, want := range map[string]string{
		"tries": "3", "evidence-budget": "700", "judge-model": "strict", "judge-rubric": fmt.Sprintf("rubric.txt (SHA-256 %.6x)", sha256.Sum256([]byte(text))),
		"evaluator-program": "ours=score --api-key [redacted: secret]",
	} {
		if got[name] != want {
			t.Errorf("setting %s: got %q, want %q", name, got[name], want)
		}
	}
}

func TestNameOfRunOfStandardInput(t *testing.T) {
	t.Parallel()
	if got := (&Training{Dataset: "-"}).stem(); got != "stdin" { // a run in epochs reads it, too
		t.Errorf("got %q, want stdin", got)
	}
}
