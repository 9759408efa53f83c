package train

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/dataset"
	"debrief/events"
)

// TestDemoTableFitsTheTerminal: a terminal that is too narrow for all columns gets the narrow table.
func TestDemoTableFitsTheTerminal(t *testing.T) {
	name, stdout := filepath.Join(t.TempDir(), "output"), os.Stdout
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	os.Stdout = f
	t.Cleanup(func() { f.Close(); os.Stdout = stdout })
	t.Setenv("COLUMNS", "60")
	s := newDemoScreen(term.Stdout, false)
	s.begin(&demoResult{})
	s.epoch(demoEpoch{Epoch: 1})
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if n := len(strings.TrimSuffix(line, "\n")); n > 60 {
			t.Errorf("%q has %d columns, want at most 60", line, n)
		}
	}
}

// TestDemoTasks checks that the files have the same tasks as the demo.
func TestDemoTasks(t *testing.T) {
	t.Parallel()
	d := Demo{Epochs: 1, Train: 250, HeldOut: 30, Seed: 3, Tasks: filepath.Join(t.TempDir(), "new", "tasks")}
	if err := d.writeTasks(); err != nil {
		t.Fatal(err)
	}
	train, heldOut := simulated.GenerateTasks(3, 250, 30)
	for name, want := range map[string][]events.Task{trainFile: train, heldOutFile: heldOut} {
		f, err := os.Open(filepath.Join(d.Tasks, name))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		set, err := dataset.Read(t.Context(), name, f, dataset.Options{})
		if err != nil || set.Invalid > 0 {
			t.Fatal(set, err)
		}
		if diff := cmp.Diff(want, set.Tasks, cmpopts.IgnoreUnexported(events.Task{})); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if err := os.Remove(filepath.Join(d.Tasks, trainFile)); err != nil {
		t.Fatal(err)
	}
	if err := d.writeTasks(); program.ExitCode(err) != program.ExitRefused {
		t.Errorf("got %v, want a refusal to overwrite", err)
	}
	if _, err := os.Stat(filepath.Join(d.Tasks, trainFile)); err == nil {
		t.Error("half of the files were written")
	}
}

func TestCreateFileRemovesPartialFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	full := errors.New("no space left on device")
	err := createFile(name, func(w io.Writer) error {
		_, _ = w.Write(make([]byte, 1<<20))
		return full
	})
	if _, serr := os.Stat(name); !errors.Is(err, full) || serr == nil {
		t.Errorf("got %v and a file %v", err, serr)
	}
}
