package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jsm.go"

	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestNewDir(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 15, 4, 5, 0, time.FixedZone("", 3600))
	const named = "debrief-20261120T140405Z"
	for _, test := range []struct {
		name, to, want string
		exists, fails  bool
	}{
		{name: "new directory", to: "monday", want: "monday"},
		{name: "directory", to: "backups", want: "backups/" + named},
		{name: "file", to: "old.tar", exists: true},
		{name: "backup", to: "full/" + named, exists: true},
		{name: "existing backup in a directory", to: "full", exists: true},
		{name: "dangling link", to: "link", exists: true},
		{name: "missing directory", to: "nowhere/monday", fails: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			in := func(name string) string { return filepath.Join(dir, name) }
			err := errors.Join(
				os.Mkdir(in("backups"), 0o700), os.MkdirAll(in("full/"+named), 0o700), os.WriteFile(in("old.tar"), nil, 0o600),
				os.WriteFile(in("full/"+named+"/"+manifestName), nil, 0o600), os.Symlink(in("missing"), in("link")),
			)
			if err != nil {
				t.Fatal(err)
			}
			d, err := NewDir(in(test.to), now)
			if errors.Is(err, fs.ErrExist) != test.exists || (err != nil) != (test.exists || test.fails) {
				t.Errorf("got error %v", err)
			}
			if err != nil {
				return
			}
			if d.Name != in(test.want) {
				t.Errorf("got %s, want %s", d.Name, test.want)
			}
			d.Close()
			if left, err := filepath.Glob(filepath.Join(filepath.Dir(d.Name), ".debrief*")); err != nil || len(left) > 0 {
				t.Errorf("directories %v are left, error %v", left, err)
			}
			if _, err := os.Lstat(d.Name); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("an incomplete backup has its name: %v", err)
			}
		})
	}
}

// TestCreate: the manifest describes the files, and only their owner can read them.
func TestCreate(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	dir := create(t, conn)
	m, err := Verify(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Streams) != len(Streams()) || m.Replicas() != 1 || m.Program != "test" {
		t.Errorf("got %+v", m)
	}
	var size int64
	err = filepath.WalkDir(dir, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %s", name, info.Mode())
		}
		if err == nil && !entry.IsDir() && entry.Name() != manifestName {
			size += info.Size()
		}
		return err
	})
	if err != nil || m.Bytes() != size {
		t.Errorf("got %d bytes, want %d, error %v", m.Bytes(), size, err)
	}
}

// TestVerifyNamesDamagedFile: the error for a damaged or foreign directory names the file.
func TestVerifyNamesDamagedFile(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	original := create(t, conn)
	const data, meta = "TASKS/" + jsm.SnapshotDataFile, "TASKS/" + jsm.SnapshotMetaFile
	write := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	replace := func(name, from, to string) func(dir string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				return err
			}
			return write(name, strings.ReplaceAll(string(text), from, to))(dir)
		}
	}
	for name, test := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"truncated":       {func(dir string) error { return os.Truncate(filepath.Join(dir, data), 20) }, data + ": hash differs"},
		"changed":         {replace(meta, "workqueue", "limits"), meta + ": hash differs"},
		"file missing":    {func(dir string) error { return os.Remove(filepath.Join(dir, data)) }, data + ": missing"},
		"stream missing":  {func(dir string) error { return os.RemoveAll(filepath.Join(dir, "TASKS")) }, "TASKS: no such file"},
		"second snapshot": {write("TASKS/"+jsm.SnapshotLegacyDataFile, ""), "TASKS/" + jsm.SnapshotLegacyDataFile + ": not in the manifest"},
		"a link":          {func(dir string) error { return link(filepath.Join(dir, data)) }, data + ": not a regular file"},
		"no manifest":     {func(dir string) error { return os.Remove(filepath.Join(dir, manifestName)) }, manifestName + ": no such file"},
		"other manifest":  {write(manifestName, "{}"), manifestName + ": not written by"},
		"no JSON":         {write(manifestName, "Dear diary."), manifestName + ": invalid character"},
		"later format":    {replace(manifestName, `"version": 2`, `"version": 3`), manifestName + ": format 3"},
		"outside name":    {replace(manifestName, `"TASKS"`, `"../../evil"`), manifestName + `: stream "../../evil": unknown`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "backup")
			if err := errors.Join(os.CopyFS(dir, os.DirFS(original)), test.damage(dir)); err != nil {
				t.Fatal(err)
			}
			_, err := Verify(dir)
			if !errors.As(err, new(*InvalidError)) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// link replaces a file with a symbolic link to it. A link can also lead to a device, which has no end.
func link(name string) error {
	moved := filepath.Join(filepath.Dir(filepath.Dir(name)), "moved")
	return errors.Join(os.Rename(name, moved), os.Symlink(moved, name))
}
