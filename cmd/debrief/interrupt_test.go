package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"debrief/cmd/internal/program"
)

// startProgram starts the program in an empty home directory. The reader has its standard output and standard error in the order of
// their writes.
func startProgram(t *testing.T, args ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	bin, err := exec.LookPath("debrief") // package testscript puts it into the path
	if err != nil {
		t.Fatal(err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(bin, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = out, out, t.TempDir()
	cmd.Env = []string{"HOME=" + cmd.Dir, "PATH=" + os.Getenv("PATH")}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
	})
	return cmd, bufio.NewReader(in)
}

// TestDemoBeginsWithText: the first line comes before the server starts. It is there even if the server cannot start.
func TestDemoBeginsWithText(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{}, {"--model", "m", "--base-url", "http://127.0.0.1:9/v1"}} {
		cmd, out := startProgram(t, append([]string{"demo", "--data", "/dev/null/data"}, args...)...)
		first, err := out.ReadString('\n')
		if err != nil || !strings.HasPrefix(first, "An invoice desk has hidden rules") {
			t.Errorf("%v: the first line is %q, %v", args, first, err)
		}
		rest, _ := io.ReadAll(out)
		if err := cmd.Wait(); err == nil || !strings.Contains(string(rest), "/dev/null/data") {
			t.Errorf("%v: got %v, want an error about the directory behind the first line: %s", args, err, rest)
		}
	}
}

// lines reads lines until one has a text. It reads the others in the background, so that the program never waits for a reader.
func lines(t *testing.T, out *bufio.Reader, text string) (rest func() string) {
	t.Helper()
	all := ""
	for !strings.Contains(all, text) {
		line, err := out.ReadString('\n')
		if all += line; err != nil {
			t.Fatalf("the output ends without %q: %s", text, all)
		}
	}
	read := make(chan string, 1)
	go func() {
		left, _ := io.ReadAll(out)
		read <- string(left)
	}()
	return func() string { return <-read }
}

// TestInterruptEndsCommands sends SIGINT to real processes. A server ends with exit code 0; a command that is not
// done ends with an error.
func TestInterruptEndsCommands(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	tasks := filepath.Join(t.TempDir(), "tasks")
	help(t, 80, "demo", "--tasks", tasks)
	dead := []string{"--model", "m", "--base-url", "http://127.0.0.1:9/v1"}
	train := []string{"train", filepath.Join(tasks, "train.jsonl"), "--json", "--batch", "1"}
	for name, row := range map[string]struct {
		args  []string
		ready string // in the output
		code  int
		says  string
	}{
		"demo":                   {[]string{"demo", "--latency", "1s"}, "hidden rules", program.ExitFailed, "interrupted"},
		"demo with a dead model": {append([]string{"demo"}, dead...), "hidden rules", program.ExitFailed, "interrupted"},
		"train":                  {append(train, "--simulated", "--latency", "100ms"), `"train"`, program.ExitFailed, "run the same command again"},
		"up":                     {[]string{"up", "--simulated", "--listen", "none", "--http", "none"}, "debrief is up", 0, "debrief has stopped"},
		"simulate":               {[]string{"simulate", "--address", "127.0.0.1:0"}, "listens at", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd, out := startProgram(t, row.args...)
			rest := lines(t, out, row.ready)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			var late atomic.Bool
			limit := time.AfterFunc(10*time.Second, func() { late.Store(true); _ = cmd.Process.Kill() })
			_ = cmd.Wait()
			limit.Stop()
			if code := cmd.ProcessState.ExitCode(); late.Load() || code != row.code {
				t.Errorf("got exit code %d, killed after 10 s: %v, want %d", code, late.Load(), row.code)
			}
			if text := rest(); !strings.Contains(text, row.says) {
				t.Errorf("got %q, want %q", text, row.says)
			}
		})
	}
}
