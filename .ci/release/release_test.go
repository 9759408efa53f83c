package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// checkout copies the files of the repository, also those that are not committed, to a new repository with one tagged commit.
func checkout(t *testing.T, version string) string {
	t.Helper()
	dir := t.TempDir()
	const script = `git -c safe.directory=* -C ../.. ls-files -z --cached --others --exclude-standard | tar -C ../.. --null -T - --ignore-failed-read -cf - 2>/dev/null | tar -C "$1" -xf -
cd "$1" && git init -q && git add -A && git commit -q -m release && git tag "v$2"`
	cmd := exec.Command("bash", "-c", script, "-", dir, version)
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@example.org",
		"GIT_AUTHOR_DATE=2026-01-02T03:04:05Z", "GIT_COMMITTER_DATE=2026-01-02T03:04:05Z")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// long skips a test that takes minutes.
func long(t *testing.T) {
	t.Helper()
	if os.Getenv("DEBRIEF_LONG") == "" {
		t.Skip("builds the programs, for minutes: run with DEBRIEF_LONG=1")
	}
	if runtime.GOOS != "linux" {
		t.Skip("installs packages for Linux")
	}
}

// built builds the release of a version for this machine once, and returns its folder.
func built(t *testing.T, version string) string {
	t.Helper()
	buildMutex.Lock()
	defer buildMutex.Unlock()
	if dir := releases[version]; dir != "" {
		return dir
	}
	dir, err := os.MkdirTemp(scratch, "")
	if err == nil {
		err = makeRelease(checkout(t, version), filepath.Join(dir, "dist"))
	}
	if err != nil {
		t.Fatal(err)
	}
	releases[version] = filepath.Join(dir, "dist")
	return releases[version]
}

var (
	buildMutex sync.Mutex
	releases   = map[string]string{}
	scratch    string
)

func makeRelease(root, out string) error {
	h, err := readHome("home.env")
	if err != nil {
		return err
	}
	return release(root, out, h, []string{"linux/" + runtime.GOARCH})
}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "debrief-release-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	scratch = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // best effort: it is in the temporary directory
	os.Exit(code)
}

// TestReleaseIsReproducible builds the same commit twice, in two directories, and compares each byte.
func TestReleaseIsReproducible(t *testing.T) {
	long(t)
	first := built(t, "0.1.0")
	second := filepath.Join(t.TempDir(), "dist")
	if err := makeRelease(checkout(t, "0.1.0"), second); err != nil {
		t.Fatal(err)
	}
	got, want := tree(t, second), tree(t, first)
	if len(want) < 30 { // eight files, six indexes with their image, configuration and layers
		t.Errorf("got %d files: %q", len(want), want)
	}
	for name, data := range want {
		if !bytes.Equal(got[name], data) {
			t.Errorf("%s: the second build differs", name)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s: only in the second build", name)
	}
}

func tree(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all[name], err = os.ReadFile(filepath.Join(dir, name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// one returns the only file of a folder that matches a pattern.
func one(t *testing.T, dir, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: got %q, %v, want one file", pattern, all, err)
	}
	return all[0]
}

// TestArchive checks the files of the archive, the version in each program, and the sums.
func TestArchive(t *testing.T) {
	long(t)
	dist := built(t, "0.1.0")
	dir := t.TempDir()
	command(t, dir, "tar", "-xzf", one(t, dist, "debrief_0.1.0_linux_*.tar.gz"), "--strip-components=1")
	for _, program := range programs {
		if out := command(t, dir, "./"+program, "--version"); !strings.HasPrefix(out, "v0.1.0, commit ") {
			t.Errorf("%s: got the version %q", program, out)
		}
	}
	for _, file := range []string{"completions/debrief.bash", "completions/_debrief", "completions/debrief.fish", "licenses/LICENSE", "licenses/THIRD_PARTY"} {
		if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
			t.Error(err)
		}
	}
	licenses, err := os.ReadFile(filepath.Join(dir, "licenses/THIRD_PARTY"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"github.com/nats-io/nats-server/v2 v", "\nstd go", "Copyright 2009 The Go Authors"} {
		if !bytes.Contains(licenses, []byte(want)) {
			t.Errorf("licenses without %q", want)
		}
	}
	if out := command(t, dist, "sha256sum", "--check", "SHA256SUMS"); strings.Count(out, ": OK") != 8 {
		t.Errorf("got the sums\n%s", out)
	}
}

func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, out)
	}
	return string(out)
}

// TestBOM checks the bill of materials against the programs: each linked module is listed, and each program leads to it.
func TestBOM(t *testing.T) {
	long(t)
	dist := built(t, "0.1.0")
	text, err := os.ReadFile(one(t, dist, "*_bom.cdx.json"))
	var bom cdx.BOM
	if err := errors.Join(err, cdx.NewBOMDecoder(bytes.NewReader(text), cdx.BOMFileFormatJSON).Decode(&bom)); err != nil {
		t.Fatal(err)
	}
	components := map[string]bool{"debrief": true}
	for _, c := range *bom.Components {
		components[c.BOMRef] = true
	}
	dependencies := map[string][]string{}
	for _, d := range *bom.Dependencies {
		dependencies[d.Ref] = *d.Dependencies
		for _, ref := range append(*d.Dependencies, d.Ref) {
			if !components[ref] {
				t.Errorf("%s is no component", ref)
			}
		}
	}
	dir := t.TempDir()
	command(t, dir, "tar", "-xzf", one(t, dist, "debrief_0.1.0_linux_*.tar.gz"), "--strip-components=1")
	for _, program := range programs {
		for line := range strings.Lines(command(t, dir, "go", "version", "-m", program)) {
			if f := strings.Fields(line); f[0] == "dep" && !slices.Contains(dependencies["program/"+program], "pkg:golang/"+strings.ToLower(f[1])+"@"+f[2]) {
				t.Errorf("%s: %s is missing", program, f[1])
			}
		}
	}
}

// TestImages checks the layout, and pushes it to a registry.
func TestImages(t *testing.T) {
	long(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	dist := built(t, "0.1.0")
	h, err := readHome("home.env")
	if err != nil {
		t.Fatal(err)
	}
	if err := pushImages(dist, home{registry: "elsewhere.example"}); err == nil {
		t.Error("pushed images with names of another registry")
	}
	// The names in the layout are those of home.env, so the test gives them the address of the registry.
	address := strings.TrimPrefix(server.URL, "http://")
	local := t.TempDir()
	if err := os.CopyFS(local, os.DirFS(dist)); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(local, "images/index.json")
	text, err := os.ReadFile(index)
	if err := errors.Join(err, os.WriteFile(index, bytes.ReplaceAll(text, []byte(h.registry+"/"), []byte(address+"/d/")), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := pushImages(local, home{registry: address + "/d"}); err != nil {
		t.Fatal(err)
	}
	for _, target := range append([]string{"nats"}, programs...) {
		ref, err := name.NewTag(address + "/d/" + target + ":0.1.0")
		if err != nil {
			t.Fatal(err)
		}
		image, err := remote.Image(ref, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: runtime.GOARCH}))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		program := map[string]string{"nats": "nats-server"}[target] + map[bool]string{true: target}[target != "nats"]
		if config.Config.User != "65532:65532" || !slices.Equal(config.Config.Entrypoint, []string{"/" + program}) {
			t.Errorf("%s: got user %s and entry point %q", target, config.Config.User, config.Config.Entrypoint)
		}
		if checked := config.Config.Healthcheck != nil; checked != (target != "nats" && target != "debrief") {
			t.Errorf("%s: health check: got %t", target, checked)
		}
		files := map[string]*tar.Header{}
		for r := tar.NewReader(mutate.Extract(image)); ; {
			header, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			files[header.Name] = header
		}
		if f := files[program]; f == nil || f.Uid != 65532 || f.Mode != 0o755 || files["licenses/THIRD_PARTY"] == nil {
			t.Errorf("%s: got the files %v", target, files)
		}
	}
}

// TestHome checks that a missing, an unknown and a repeated key are errors.
func TestHome(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("home.env")
	if err != nil {
		t.Fatal(err)
	}
	for change, replaced := range map[string]string{
		"unknown":  string(text) + "REGSTRY=x\n",
		"repeated": string(text) + "REGISTRY=x\n",
		"missing":  regexp.MustCompile(`(?m)^REGISTRY=.*\n`).ReplaceAllString(string(text), ""),
		"empty":    regexp.MustCompile(`(?m)^REGISTRY=.*$`).ReplaceAllString(string(text), "REGISTRY="),
	} {
		file := filepath.Join(t.TempDir(), "home.env")
		if err := os.WriteFile(file, []byte(replaced), 0o600); err != nil {
			t.Fatal(err)
		}
		if h, err := readHome(file); err == nil {
			t.Errorf("%s key: got %+v, want an error", change, h)
		}
	}
}

func TestCommentMarkKeepsURLs(t *testing.T) {
	t.Parallel()
	if got := commentMark.ReplaceAllString("// a\n//\n//     http://b\n", ""); got != "a\n\n    http://b\n" {
		t.Errorf("got %q", got)
	}
}

func TestPythonVersion(t *testing.T) {
	t.Parallel()
	for version, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.4": "1.2.3rc4", "1.2.3-alpha.1": "1.2.3a1", "0.0.0-20261128111138-7e45f23da255": "0.0.0.dev20261128111138",
		"1.2.4-0.20261128111138-7e45f23da255": "1.2.4.dev20261128111138", "1.2.4-rc.1.0.20261128111138-7e45f23da255": "1.2.4.dev20261128111138",
		"1.2.3-next": "1.2.3.dev0",
	} {
		if got := pythonVersion(version); got != want {
			t.Errorf("%s: got %s, want %s", version, got, want)
		}
	}
}

var testTime = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// TestSameEntriesMakeSameBytes writes entries in two orders, with two times of their source.
func TestSameEntriesMakeSameBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entries := []entry{{name: "b", data: []byte("2"), mode: 0o644}, {name: "a", data: []byte("1"), mode: 0o755}, {name: "d/", mode: fs.ModeDir | 0o755}}
	var all [][]byte
	for i := range 2 {
		file := filepath.Join(dir, fmt.Sprint(i))
		slices.Reverse(entries)
		if err := writeTar(file, entries, testTime); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, data)
	}
	if !bytes.Equal(all[0], all[1]) {
		t.Error("the order of the entries changes the archive")
	}
	zr, err := gzip.NewReader(bytes.NewReader(all[0]))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(zr); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprintf("%s %o %v", h.Name, h.Mode, h.ModTime.Equal(testTime)))
	}
	if want := []string{"a 755 true", "b 644 true", "d/ 755 true"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// TestLoadableTarsAreEqual writes the tar for 'docker load' of many images again and again: the order of the images may not change the bytes.
func TestLoadableTarsAreEqual(t *testing.T) {
	var images []namedImage
	for i := range 6 {
		image, err := random.Image(100, 2)
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.NewTag(fmt.Sprintf("registry.example.org/image-%d:1", i))
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, namedImage{ref, image})
	}
	var first []byte
	for i := range 5 {
		file := filepath.Join(t.TempDir(), "images.tar")
		if err := writeLoadable(file, images, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = data
		}
		if !bytes.Equal(data, first) {
			t.Fatalf("tar %d differs from the first", i)
		}
	}
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(first)), nil }
	manifest, err := tarball.LoadManifest(opener)
	if err != nil || len(manifest) != len(images) {
		t.Fatalf("got the manifest %v and error %v, want %d images", manifest, err, len(images))
	}
	for _, image := range images {
		tag, want := image.Reference.(name.Tag), image.Image
		got, err := tarball.Image(opener, &tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(validate.Image(got), sameConfig(got, want)); err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
}

func sameConfig(a, b v1.Image) error {
	x, errA := a.ConfigName()
	y, errB := b.ConfigName()
	if x != y {
		return fmt.Errorf("got the configuration %s, want %s", x, y)
	}
	return errors.Join(errA, errB)
}
