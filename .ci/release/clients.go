package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/mod/semver"
)

// makeClients writes the wheel of the Python client and the npm tarball of the JavaScript client. Both are one file and have no
// dependencies, so neither needs the tools of its language.
func makeClients(b *build) error {
	dir := filepath.Join(b.root, "cmd/internal/api/clients")
	python, err := os.ReadFile(filepath.Join(dir, "debrief.py"))
	if err != nil {
		return err
	}
	javascript, err := os.ReadFile(filepath.Join(dir, "debrief.mjs"))
	if err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(b.root, "LICENSE"))
	if err != nil {
		return err
	}
	if err := b.makeWheel(python, license); err != nil {
		return err
	}
	return b.makeTarball(javascript, license)
}

// summary is the description of both clients.
const summary = "Let an agent learn from its runs with Debrief"

// makeWheel writes a wheel: https://packaging.python.org/specifications/binary-distribution-format.
func (b *build) makeWheel(module, license []byte) error {
	_, doc, _ := strings.Cut(string(module), `"""`)
	doc, _, _ = strings.Cut(doc, `"""`)
	version := pythonVersion(b.version)
	name := strings.ReplaceAll(b.home.python, "-", "_") + "-" + version
	info := name + ".dist-info/"
	metadata := fmt.Sprintf("Metadata-Version: 2.4\nName: %s\nVersion: %s\nSummary: %s\nHome-page: %s\nLicense-Expression: Apache-2.0\n"+
		"License-File: LICENSE\nRequires-Python: >=3.9\nDescription-Content-Type: text/plain\n\n%s", b.home.python, version, summary, b.home.homepage, doc)
	entries := []entry{
		{name: "debrief.py", data: module, mode: 0o644},
		{name: info + "METADATA", data: []byte(metadata), mode: 0o644},
		{name: info + "WHEEL", data: []byte("Wheel-Version: 1.0\nGenerator: debrief\nRoot-Is-Purelib: true\nTag: py3-none-any\n"), mode: 0o644},
		{name: info + "licenses/LICENSE", data: license, mode: 0o644},
	}
	var record strings.Builder
	for _, e := range entries {
		sum := sha256.Sum256(e.data)
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", e.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(e.data))
	}
	fmt.Fprintf(&record, "%sRECORD,,\n", info)
	entries = append(entries, entry{name: info + "RECORD", data: []byte(record.String()), mode: 0o644})
	return writeZip(filepath.Join(b.out, name+"-py3-none-any.whl"), entries, b.time)
}

// pythonVersion returns a semantic version as Python orders it: 1.2.0-rc.1 is 1.2.0rc1, and another pre-release is a development version,
// with the date of a commit without a tag.
func pythonVersion(version string) string {
	pre := strings.TrimPrefix(semver.Prerelease("v"+version), "-")
	release, _, _ := strings.Cut(version, "-")
	release, _, _ = strings.Cut(release, "+")
	if pre == "" {
		return release
	}
	if date := commitDate.FindString(pre); date != "" {
		return release + ".dev" + date
	}
	kind, number, _ := strings.Cut(pre, ".")
	for short, long := range map[string]string{"a": "alpha", "b": "beta", "rc": "rc"} {
		if kind == long {
			return release + short + number
		}
	}
	return release + ".dev0"
}

// commitDate matches the time of a commit in the version that Go gives it.
var commitDate = regexp.MustCompile(`\d{14}`)

// commentMark matches the beginning of a line of a comment.
var commentMark = regexp.MustCompile(`(?m)^// ?`)

// makeTarball writes the tarball that 'npm pack' would, under a name that differs from the one of the chart.
func (b *build) makeTarball(module, license []byte) error {
	doc, _, _ := strings.Cut(string(module), "\n\n/**")
	readme := commentMark.ReplaceAllString(doc, "")
	manifest, err := json.MarshalIndent(struct {
		Name        string            `json:"name"`
		Version     string            `json:"version"`
		Description string            `json:"description"`
		Homepage    string            `json:"homepage"`
		License     string            `json:"license"`
		Type        string            `json:"type"`
		Exports     string            `json:"exports"`
		Files       []string          `json:"files"`
		Engines     map[string]string `json:"engines"`
	}{
		Name: b.home.npm, Version: b.version, Description: summary, Homepage: b.home.homepage, License: "Apache-2.0",
		Type: "module", Exports: "./debrief.mjs", Files: []string{"debrief.mjs"}, Engines: map[string]string{"node": ">=18"},
	}, "", "  ")
	if err != nil {
		return err
	}
	name := strings.ReplaceAll(strings.TrimPrefix(b.home.npm, "@"), "/", "-") + "-npm-" + b.version + ".tgz"
	return writeTar(filepath.Join(b.out, name), []entry{
		{name: "package/package.json", data: append(manifest, '\n'), mode: 0o644},
		{name: "package/debrief.mjs", data: module, mode: 0o644},
		{name: "package/README.md", data: []byte(readme + "\n"), mode: 0o644},
		{name: "package/LICENSE", data: license, mode: 0o644},
	}, b.time)
}
