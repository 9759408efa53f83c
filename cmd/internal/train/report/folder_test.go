package report

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func config() Config {
	return Config{
		Run: "a", Model: "m", Debrief: "v1", Go: "go1",
		Settings: []Setting{{"epochs", "5"}, {"seed", "1"}},
		Data:     []Data{{Set: "train", File: "t.jsonl", SHA256: "aa", Samples: 3}},
	}
}

func open(t *testing.T, dir string) *Folder {
	t.Helper()
	f, err := Open(dir, config())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// tree returns all files of a folder with their contents.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func values[T any](all ...T) iter.Seq[T] { return slices.Values(all) }

func noPage(io.Writer, *Report) error { return nil }

func TestArtefactsCanBeWrittenAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "runs", "a")
	for range 2 {
		f, err := Open(dir, config())
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(
			f.WriteReport(example(), noPage),
			f.WriteFile("playbooks/epoch-1.json", []byte("{}")),
			f.WriteFile("playbooks/best.json", []byte("{}")),
			WriteLines(f, SamplesFile, values(Sample{ID: "1", Question: "a < b\nc"}, Sample{ID: "2"})),
			WriteLines(f, OperationsFile, values[Operation]()),
			f.Close(),
		); err != nil {
			t.Fatal(err)
		}
	}
	got := tree(t, dir)
	want := []string{configFile, OperationsFile, "playbooks/best.json", "playbooks/epoch-1.json", pageFile, reportFile, SamplesFile}
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, want) {
		t.Errorf("got files %q, want %q", names, want)
	}
	if lines := strings.Split(got[SamplesFile], "\n"); len(lines) != 3 || !strings.Contains(lines[0], `"question":"a < b\nc"`) || lines[2] != "" {
		t.Errorf("got %q, want two lines of JSON, each with its end", got[SamplesFile])
	}
	var c Config
	if err := json.Unmarshal([]byte(got[configFile]), &c); err != nil || c.Format != Format || c.Run != "a" || len(c.Settings) != 2 {
		t.Errorf("got config %+v (%v), want that of the run", c, err)
	}
}

func TestForeignFolderIsRefusedAndUnchanged(t *testing.T) {
	t.Parallel()
	begun := func(change func(*Config)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			c := config()
			change(&c)
			f, err := Open(dir, c)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.WriteReport(example(), noPage), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	}
	holds := func(name, data string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct {
		name  string
		holds func(*testing.T, string)
		want  string
	}{
		{"another run", begun(func(c *Config) { c.Run = "b" }), `run "b"`},
		{"another value", begun(func(c *Config) { c.Settings[0].Value = "3" }), "epochs"},
		{"a setting more", begun(func(c *Config) { c.Settings = append(c.Settings, Setting{"batch", "8"}) }), "batch"},
		{"a setting less", begun(func(c *Config) { c.Settings = c.Settings[:1] }), "seed"},
		{"other data", begun(func(c *Config) { c.Data[0].SHA256 = "bb" }), "data"},
		{"a config.json of another program", holds(configFile, `{"name":"x"}`), configFile},
		{"half a config.json", holds(configFile, `{"run":"a","sett`), configFile},
		{"an empty config.json", holds(configFile, ""), configFile},
		{"a report without its config", holds(reportFile, "{}"), reportFile},
		{"other files", holds("thesis.tex", "mine"), "thesis.tex"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			tt.holds(t, dir)
			before := tree(t, dir)
			_, err := Open(dir, config())
			var taken *FolderInUseError
			if !errors.As(err, &taken) || !strings.Contains(taken.Contents, tt.want) || taken.Dir != dir {
				t.Errorf("got %v, want a FolderInUseError that names %q", err, tt.want)
			}
			if after := tree(t, dir); !maps.Equal(before, after) {
				t.Errorf("got %d files, want the %d that were there, as they were", len(after), len(before))
			}
		})
	}
}

func TestNewerProgramReopensFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := open(t, dir).Close(); err != nil {
		t.Fatal(err)
	}
	c := config()
	c.Debrief, c.Go = "v2", "go9"
	f, err := Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := tree(t, dir)[configFile]; !strings.Contains(got, `"v1"`) {
		t.Errorf("got %s, want the version that the run began with", got)
	}
}

func TestNoFileIsWrittenOutsideTheFolder(t *testing.T) {
	t.Parallel()
	out := t.TempDir()
	dir := filepath.Join(out, "run")
	f := open(t, dir)
	if err := os.Symlink(out, filepath.Join(dir, "playbooks")); err != nil {
		t.Skip("no symbolic links here")
	}
	for _, name := range []string{"../x.json", "playbooks/../../x.json", filepath.Join(out, "x.json"), "playbooks/x.json", "", "."} {
		if err := f.WriteFile(name, []byte("x")); err == nil {
			t.Errorf("%q: got no error", name)
		}
	}
	if got := slices.Sorted(maps.Keys(tree(t, out))); !slices.Equal(got, []string{"run/" + configFile}) {
		t.Errorf("got files %q", got)
	}
}

// TestErrorsNameTheFile checks that the error of a file that cannot be replaced has its name, and not that of the temporary file.
func TestErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	if err := os.MkdirAll(filepath.Join(dir, SamplesFile, "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	err := f.WriteFile(SamplesFile, []byte("x"))
	if err == nil || strings.Contains(err.Error(), ".tmp") || !strings.Contains(err.Error(), "write "+filepath.Join(dir, SamplesFile)+": ") {
		t.Errorf("got error %v, want one with the name of the file only", err)
	}
}

func TestFailedLinesKeepEarlierFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	if err := WriteLines(f, SamplesFile, values(Sample{ID: "1"})); err != nil {
		t.Fatal(err)
	}
	before := tree(t, dir)
	many := slices.Repeat([]Sample{{ID: "2"}}, 10_000) // more than a buffer
	if err := WriteLines(f, SamplesFile, values(append(many, Sample{Score: math.NaN()})...)); err == nil {
		t.Error("got no error for a number that JSON does not have")
	}
	if after := tree(t, dir); !maps.Equal(before, after) {
		t.Errorf("got %q, want what was there before", slices.Sorted(maps.Keys(after)))
	}
}
