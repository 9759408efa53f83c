package train

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"debrief/cmd/internal/program"
	"debrief/cmd/internal/program/cli"
	"debrief/cmd/internal/program/term"
	"debrief/cmd/internal/simulated"
	"debrief/cmd/internal/train/dataset"
	"debrief/events"
)

// The files that 'debrief demo --tasks' writes.
const (
	trainFile   = "train.jsonl"
	heldOutFile = "held-out.jsonl"
)

// writeTasks writes the tasks of the demo as data sets. It does not overwrite files.
func (d *Demo) writeTasks() error {
	train, heldOut := simulated.GenerateTasks(d.Seed, d.Train, d.HeldOut)
	files := []struct {
		name  string
		tasks []events.Task
	}{
		{filepath.Join(d.Tasks, trainFile), train},
		{filepath.Join(d.Tasks, heldOutFile), heldOut},
	}
	for _, f := range files {
		if _, err := os.Lstat(f.name); err == nil {
			return existsError(f.name)
		}
	}
	if err := os.MkdirAll(d.Tasks, 0o755); err != nil {
		return program.Exit(program.ExitUsage, fmt.Errorf("--tasks: %w", err))
	}
	for _, f := range files {
		if err := createFile(f.name, func(w io.Writer) error { return dataset.Write(w, f.tasks) }); err != nil {
			return err
		}
		if d.JSON {
			if err := cli.WriteJSON(term.Stdout, map[string]any{"file": f.name, "tasks": len(f.tasks)}); err != nil {
				return err
			}
		} else {
			term.Printf("%s: %s\n", f.name, term.Plural(len(f.tasks), "task"))
		}
	}
	return nil
}

func existsError(name string) error {
	return program.Exit(program.ExitRefused, fmt.Errorf("%s: already exists: choose another name, or move the file", name))
}

// newFile creates a file. It fails if the file exists.
func newFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, os.ErrExist) {
		return nil, existsError(name)
	}
	return f, err
}

// createFile creates a file with the output of write. It fails if the file exists, and removes the file after an error.
func createFile(name string, write func(io.Writer) error) error {
	f, err := newFile(name)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err := errors.Join(write(w), w.Flush(), f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(name))
	}
	return nil
}
