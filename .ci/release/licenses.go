package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// licenseFile matches the files at the top of a module that must accompany its programs.
var licenseFile = regexp.MustCompile(`(?i)^(un)?(licen[cs]e|copying|notice|patents)`)

// collectLicenses writes our license, and the licenses and notices of all linked modules in one file, to the directory
// licenses. A module without a license is an error.
func collectLicenses(b *build) error {
	dirs, err := b.moduleDirs()
	if err != nil {
		return err
	}
	var all bytes.Buffer
	fmt.Fprintf(&all, "The programs of Debrief %s contain the following modules.\n", b.version)
	for _, m := range b.modules {
		entries, err := os.ReadDir(dirs[m.path])
		if err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !licenseFile.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(dirs[m.path], e.Name()))
			if err != nil {
				return err
			}
			found = true
			fmt.Fprintf(&all, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 80), m.path, m.version, e.Name(), bytes.TrimSpace(text))
		}
		if !found {
			return fmt.Errorf("%s %s has no license file", m.path, m.version)
		}
	}
	ours, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	dir := filepath.Join(b.stage, "licenses")
	return errors.Join(err, os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(dir, "LICENSE"), ours, 0o644),
		os.WriteFile(filepath.Join(dir, "THIRD_PARTY"), all.Bytes(), 0o644))
}

// moduleDirs returns the directory of each linked module in the module cache.
func (b *build) moduleDirs() (map[string]string, error) {
	goroot, err := b.goCommand(host(), "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{"std": strings.TrimSpace(string(goroot))}
	args := []string{"mod", "download", "-json"}
	for _, m := range b.modules {
		if m.path != "std" {
			args = append(args, m.path+"@"+m.version)
		}
	}
	list, err := b.goCommand(host(), args...)
	if err != nil {
		return nil, err
	}
	for d := json.NewDecoder(bytes.NewReader(list)); ; {
		var m struct{ Path, Dir string }
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return dirs, nil
		} else if err != nil {
			return nil, err
		}
		dirs[m.Path] = m.Dir
	}
}
