package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/console"
	"debrief/cmd/internal/dataset"
	"debrief/cmd/internal/simulated"
	"debrief/events"
)

// The files that 'debrief demo --tasks' writes.
const (
	trainFile   = "train.jsonl"
	heldOutFile = "held-out.jsonl"
)

// writeTasks writes the demo's tasks as data sets, and overwrites nothing.
func (d *demo) writeTasks() error {
	train, heldOut := simulated.Draw(d.Seed, d.Train, d.HeldOut)
	files := []struct {
		name  string
		tasks []events.Task
	}{
		{filepath.Join(d.Tasks, trainFile), train},
		{filepath.Join(d.Tasks, heldOutFile), heldOut},
	}
	for _, f := range files {
		if _, err := os.Lstat(f.name); err == nil {
			return exists(f.name)
		}
	}
	if err := os.MkdirAll(d.Tasks, 0o755); err != nil {
		return app.Exit(app.ExitUsage, fmt.Errorf("--tasks: %w", err))
	}
	for _, f := range files {
		if err := createFile(f.name, func(w io.Writer) error { return dataset.Write(w, f.tasks) }); err != nil {
			return err
		}
		if d.JSON {
			if err := writeJSON(console.Stdout, map[string]any{"file": f.name, "tasks": len(f.tasks)}); err != nil {
				return err
			}
		} else {
			console.Printf("%s: %s\n", f.name, plural(len(f.tasks), "task"))
		}
	}
	return nil
}

func exists(name string) error {
	return app.Exit(app.ExitRefused, fmt.Errorf("%s: is there already; name another place, or move it away", name))
}

// createFile writes a file that is not there yet. Of one that could not be written whole nothing is left.
func createFile(name string, write func(io.Writer) error) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return exists(name)
	} else if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", name, err), os.Remove(name))
	}
	return nil
}
