package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// childEnv selects the function that this binary runs instead of its tests, as a child process of a test.
const childEnv = "DEBRIEF_REPORT_TEST_CHILD"

// children are the functions for child processes. They run in the folder named by DIR.
var children = map[string]func(dir string) error{"stall": stall, "full disk": fullDisk, "file limit": fileLimit}

func TestMain(m *testing.M) {
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := child(os.Getenv("DIR")); err != nil {
			_, _ = os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child returns a command that runs this binary as a child process in a folder.
func child(t *testing.T, name, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+name, "DIR="+dir)
	return cmd
}

// stall writes without end, and reports its start.
func stall(dir string) error {
	f, err := Open(dir, config())
	if err != nil {
		return err
	}
	return WriteLines(f, SamplesFile, func(yield func(Sample) bool) {
		for i := 0; yield(Sample{ID: "later"}); i++ {
			if i == 10_000 {
				_, _ = os.Stdout.WriteString("writing\n")
				time.Sleep(time.Hour)
			}
		}
	})
}

func TestKillKeepsEarlierFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	if err := errors.Join(WriteLines(f, SamplesFile, values(Sample{ID: "earlier"})), f.Close()); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	cmd := child(t, "stall", dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 8)
	_, err = out.Read(said)
	if e := cmd.Process.Kill(); err != nil || e != nil || string(said) != "writing\n" {
		t.Fatalf("got %q, %v, %v, want it to be writing", said, err, e)
	}
	_ = cmd.Wait()
	if got := tree(t, dir)[SamplesFile]; got != before[SamplesFile] {
		t.Errorf("got %.40q…, want the earlier file", got)
	}
	f = open(t, dir)
	if err := WriteLines(f, SamplesFile, values(Sample{ID: "again"})); err != nil {
		t.Fatal(err)
	}
	if after := slices.Sorted(maps.Keys(tree(t, dir))); !slices.Equal(after, slices.Sorted(maps.Keys(before))) {
		t.Errorf("got files %q, want nothing left of the kill", after)
	}
}

// notMounted is the exit code of a child that has no right to mount.
const notMounted = "cannot mount here: "

// fullDisk mounts a disk of 128 KB and fills it. The mount ends with the process and its namespace.
func fullDisk(dir string) error {
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		return errors.New(notMounted + err.Error())
	}
	f, earlier, err := begin(dir)
	if err != nil {
		return err
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		return err
	}
	if err := refuses(f, dir, earlier, syscall.ENOSPC, "free disk space"); err != nil {
		return err
	}
	if err := os.Remove(ballast); err != nil {
		return err
	}
	if err := f.WriteFile(SamplesFile, make([]byte, 80<<10)); err != nil {
		return fmt.Errorf("with room again: %w", err)
	}
	return f.Close()
}

// fileLimit limits files to 32 KB.
func fileLimit(dir string) error {
	signal.Ignore(syscall.SIGXFSZ)
	f, earlier, err := begin(dir)
	if err != nil {
		return err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 32 << 10, Max: 32 << 10}); err != nil {
		return err
	}
	if err := refuses(f, dir, earlier, syscall.EFBIG, "run the command again"); err != nil {
		return err
	}
	return f.Close()
}

func begin(dir string) (*Folder, []byte, error) {
	f, err := Open(dir, config())
	if err != nil {
		return nil, nil, err
	}
	earlier := bytes.Repeat([]byte("earlier\n"), 1<<10)
	return f, earlier, f.WriteFile(SamplesFile, earlier)
}

// refuses checks the error for a file that does not fit: it has a hint, the earlier file is unchanged, and no other
// file is left.
func refuses(f *Folder, dir string, earlier []byte, want error, hint string) error {
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	big := Sample{Answer: strings.Repeat("x", 1<<10)}
	for _, write := range []func() error{
		func() error { return f.WriteFile(SamplesFile, make([]byte, 100<<10)) },
		func() error { return WriteLines(f, SamplesFile, values(slices.Repeat([]Sample{big}, 100)...)) },
	} {
		err := write()
		if !errors.Is(err, want) || !strings.Contains(err.Error(), filepath.Join(dir, SamplesFile)) ||
			!strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), ".tmp") {
			return fmt.Errorf("got %w, want %w for the file, and %q", err, want, hint)
		}
		got, err := os.ReadFile(filepath.Join(dir, SamplesFile))
		if err != nil || !bytes.Equal(got, earlier) {
			return fmt.Errorf("got %d bytes (%v), want the earlier file of %d", len(got), err, len(earlier))
		}
	}
	after, err := os.ReadDir(dir)
	if err != nil || len(after) != len(names) {
		return fmt.Errorf("got %v (%v), want nothing new", after, err)
	}
	return nil
}

func TestFullDiskKeepsEarlierFile(t *testing.T) {
	t.Parallel()
	t.Run("of a disk", func(t *testing.T) {
		t.Parallel()
		cmd := child(t, "full disk", t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if os.Getuid() != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER,
				UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
			}
		}
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil || strings.HasPrefix(string(out), notMounted) {
			t.Skipf("no disk of its own to fill: %s %v", out, err)
		}
		if err != nil {
			t.Errorf("got %v: %s", err, out)
		}
	})
	t.Run("of a limit", func(t *testing.T) {
		t.Parallel()
		if out, err := child(t, "file limit", t.TempDir()).CombinedOutput(); err != nil {
			t.Errorf("got %v: %s", err, out)
		}
	})
}
