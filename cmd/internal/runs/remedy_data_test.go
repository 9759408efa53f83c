package runs_test

import (
	"bytes"
	"cmp"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"debrief/cmd/internal/runs"
	"debrief/events"
)

// contentsOf returns the lessons that the runs teach.
func contentsOf(runs []*events.Execution) (all []string) {
	r, _ := analysed(runs)
	for _, l := range r.Lessons {
		all = append(all, l.Content)
	}
	return all
}

// TestServiceRunsTeachNothing checks that the errors of 150 real runs are a report and no lesson: the texts of their errors name what to do.
func TestServiceRunsTeachNothing(t *testing.T) {
	t.Parallel()
	r, _ := analysed(read(t, tauFile, dataFile(t, tauFile)))
	if len(r.Lessons) > 0 || r.ToolErrors == 0 || len(r.Known) == 0 {
		t.Errorf("got lessons %+v, %d errors, %d known errors; want no lesson, and errors", r.Lessons, r.ToolErrors, len(r.Known))
	}
}

// TestRemediesInCodingRuns checks that single coding runs teach nothing, because an error needs two tasks, and that a copy
// of each under another name of its task is no second task.
func TestRemediesInCodingRuns(t *testing.T) {
	t.Parallel()
	var runs, twice []*events.Execution
	for _, name := range []string{"ctf-crypto-katy", "ctf-web-i-got-id", "function-calling-simple", "marshmallow-1867-function-calling", "pydicom-1458"} {
		e := read(t, name+".traj", dataFile(t, "swe-agent/"+name+".traj"))[0]
		second := *e
		second.Origin.Task = "another task"
		runs, twice = append(runs, e), append(twice, e, &second)
	}
	runs = append(runs, read(t, "full-session-two.jsonl", dataFile(t, "claude-code/full-session-two.jsonl"))...)
	if got := contentsOf(runs); len(got) > 0 {
		t.Errorf("got %q, want nothing", got)
	}
	if got := contentsOf(twice); len(got) > 0 {
		t.Errorf("copies under another name of the task: got %q, want nothing", got)
	}
}

// TestRealFilesTeachNothing reads every recorded file, alone and then all of them as one playbook.
func TestRealFilesTeachNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes long: run without -short")
	}
	t.Parallel()
	dir := cmp.Or(os.Getenv("DEBRIEF_DATA"), "../../../../shared/data")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no recorded data: %v (DEBRIEF_DATA names its folder)", err)
	}
	var all []*events.Execution
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var read []*events.Execution
		_, _ = runs.Read(t.Context(), "book", filepath.Base(path), bytes.NewReader(raw), func(e *events.Execution) error {
			read = append(read, e)
			return nil
		})
		if len(read) == 0 {
			return nil // no recording: a playbook, tasks, expected messages
		}
		files++
		all = append(all, read...)
		if got := contentsOf(read); len(got) > 0 {
			t.Errorf("%s teaches %q", path, got)
		}
		return nil
	})
	if err != nil || files < 24 {
		t.Errorf("got %d files, error %v, want 24 files or more", files, err)
	}
	if got := contentsOf(all); len(got) > 0 {
		t.Errorf("all files together teach %q", got)
	}
}
