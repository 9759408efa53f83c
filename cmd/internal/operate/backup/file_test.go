package backup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"debrief/events"
	"debrief/events/bus"
	"debrief/events/bus/bustest"
)

func TestNewFile(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 20, 15, 4, 5, 0, time.FixedZone("", 3600))
	const named = "debrief-20261120T140405Z.tar"
	for _, test := range []struct {
		name, to, want string
		exists, fails  bool
	}{
		{name: "file", to: "monday.tar", want: "monday.tar"},
		{name: "directory", to: "backups", want: "backups/" + named},
		{name: "existing file", to: "old.tar", exists: true},
		{name: "existing file in a directory", to: "full", exists: true},
		{name: "dangling link", to: "link", exists: true},
		{name: "missing directory", to: "nowhere/monday.tar", fails: true},
	} {
		dir := t.TempDir()
		in := func(name string) string { return filepath.Join(dir, name) }
		err := errors.Join(
			os.Mkdir(in("backups"), 0o700), os.Mkdir(in("full"), 0o700), os.WriteFile(in("old.tar"), nil, 0o600),
			os.WriteFile(in("full/"+named), nil, 0o600), os.Symlink(in("missing"), in("link")),
		)
		if err != nil {
			t.Fatal(err)
		}
		f, err := NewFile(in(test.to), now)
		if errors.Is(err, fs.ErrExist) != test.exists || (err != nil) != (test.exists || test.fails) {
			t.Errorf("%s: got error %v", test.name, err)
		}
		if err != nil {
			continue
		}
		if f.Name != in(test.want) {
			t.Errorf("%s: got %s, want %s", test.name, f.Name, test.want)
		}
		f.Close()
		if left, err := filepath.Glob(filepath.Join(filepath.Dir(f.Name), ".debrief*")); err != nil || len(left) > 0 {
			t.Errorf("%s: files %v are left, error %v", test.name, left, err)
		}
		if _, err := os.Lstat(f.Name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: an incomplete file has its name: %v", test.name, err)
		}
	}
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	conn, _ := bustest.Open(t, bus.Policy{})
	f, err := NewFile(filepath.Join(t.TempDir(), "monday.tar"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.Write(t.Context(), conn, []string{events.StreamTasks}, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	data, err := os.Open(f.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	m, err := Verify(data)
	if err != nil || len(m.Streams) != 1 || m.Streams[0].Name != events.StreamTasks {
		t.Fatalf("got %+v, error %v", m, err)
	}
	info, err := data.Stat()
	if err != nil || out.File != f.Name || out.Bytes != info.Size() || out.Messages != 0 || out.Program != "test" {
		t.Errorf("got %+v, error %v", out, err)
	}
}

func TestInvalidFileGetsNoName(t *testing.T) {
	t.Parallel()
	f, err := NewFile(filepath.Join(t.TempDir(), "monday.tar"), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.tmp.WriteString("not a backup"); err != nil {
		t.Fatal(err)
	}
	if err := f.publish(); !errors.As(err, new(*InvalidError)) {
		t.Errorf("got %v, want an *InvalidError", err)
	}
	if _, err := os.Lstat(f.Name); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file has its name: %v", err)
	}
}
