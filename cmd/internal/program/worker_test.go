package program

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestInstructionsComeFromAFile(t *testing.T) {
	t.Parallel()
	write := func(text string) string {
		name := filepath.Join(t.TempDir(), "prompt.txt")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	g := Generator{GeneratorPrompt: write("\n Be brief.\n")}
	if cfg, err := g.Settings(); err != nil || cfg.Instructions != "Be brief." {
		t.Errorf("got %q, %v", cfg.Instructions, err)
	}
	if cfg, err := (Reflector{}).Settings(); err != nil || cfg.Instructions != "" {
		t.Errorf("got %q, %v; want ours", cfg.Instructions, err)
	}
	for why, name := range map[string]string{
		"no such file": filepath.Join(t.TempDir(), "none"),
		"empty":        write(" \n"),
		"too long":     write(strings.Repeat("x", maxInstructions+1)),
		"not UTF-8":    write("\xff\xfe"),
		"a directory":  t.TempDir(),
	} {
		r := Reflector{ReflectorPrompt: name}
		_, err := r.Settings()
		if ExitCode(err) != ExitUsage || !strings.HasPrefix(err.Error(), "--reflector-prompt: ") || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v, want a usage error that names the flag and the file", why, err)
		}
	}
}
