package api

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestClientPython runs the tests of debrief.py in a clean directory, without installed packages, against a fake API and a server.
func TestClientPython(t *testing.T) {
	runClientTests(t, "python3", []string{"-I", "-S", "-B", "test_debrief.py"}, "debrief.py", "test_debrief.py")
}

// TestClientNode runs the tests of debrief.mjs in the same way.
func TestClientNode(t *testing.T) {
	runClientTests(t, "node", []string{"--test", "debrief.test.mjs"}, "debrief.mjs", "debrief.test.mjs")
}

// runClientTests runs a program in a directory that has only the given files. It skips the test without the program.
func runClientTests(t *testing.T, program string, args []string, files ...string) {
	t.Helper()
	t.Parallel()
	if testing.Short() {
		t.Skip("starts another program")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed: the tests of its client were not run", program)
	}
	if out, err := exec.Command(path, "--version").CombinedOutput(); err != nil {
		t.Skipf("%s does not run: %v %s", program, err, out)
	}
	w := startWorld(t, Options{})
	dir := t.TempDir()
	for _, name := range files {
		text, err := os.ReadFile(filepath.Join("clients", name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), string(text))
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "DEBRIEF_TEST_URL=" + w.URL(), "NO_PROXY=*"}
	out, err := cmd.CombinedOutput()
	if skipped := strings.Contains(string(out), "(skipped=") || strings.Contains(string(out), "# SKIP"); err != nil || skipped {
		t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}
