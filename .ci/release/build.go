package main

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// goVersion is the version of Go for releases: another version makes other bytes. The go command downloads it if the installed Go is not this version.
const goVersion = "go1.26.8"

// natsServer is the package of the server that packages and images for Linux contain, in the version of go.mod.
const natsServer = "github.com/nats-io/nats-server/v2"

// programs are the programs of a release, without the benchmarks.
var programs = []string{"debrief", "generator", "reflector", "curator", "gateway"}

// platform is a pair of GOOS and GOARCH.
type platform struct{ os, arch string }

// build is a release that is being made.
type build struct {
	home      home
	root      string // the checkout
	out       string // the output folder
	stage     string // a directory for intermediate files
	platforms []platform
	version   string    // the version without the v, a semantic version
	revision  string    // the commit
	time      time.Time // the time of the commit, for all files
	modules   []module  // linked modules, sorted by path
}

// bin returns the directory with the programs of a platform.
func (b *build) bin(p platform) string { return filepath.Join(b.stage, "bin", p.os+"_"+p.arch) }

// linux returns the platforms of packages and images.
func (b *build) linux() []platform {
	return slices.DeleteFunc(slices.Clone(b.platforms), func(p platform) bool { return p.os != "linux" })
}

// program returns the file name of a program.
func (p platform) program(name string) string {
	if p.os == "windows" {
		return name + ".exe"
	}
	return name
}

// module is a Go module in a program, or the standard library with the path "std".
type module struct {
	path, version, sum string
	programs           []string // the programs that contain it
}

// buildPrograms builds the programs of all platforms. The version is the one that the go command stores in the programs, from
// the tag of the commit.
func buildPrograms(root, stage string, platforms []string) (*build, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	b := &build{root: root, stage: stage}
	for _, text := range platforms {
		system, arch, ok := strings.Cut(text, "/")
		if !ok {
			return nil, fmt.Errorf("platform %q: want GOOS/GOARCH", text)
		}
		p := platform{system, arch}
		b.platforms = append(b.platforms, p)
		packages := []string{natsServer}
		if p.os != "linux" {
			packages = nil
		}
		for _, name := range programs {
			packages = append(packages, "./cmd/"+name)
		}
		if err := os.MkdirAll(b.bin(p), 0o755); err != nil {
			return nil, err
		}
		args := []string{"build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", b.bin(p) + string(filepath.Separator)}
		if _, err := b.goCommand(p, append(args, packages...)...); err != nil {
			return nil, err
		}
		if err := b.inspect(p); err != nil {
			return nil, err
		}
		fmt.Println("programs for", text)
	}
	slices.SortFunc(b.modules, func(a, c module) int { return strings.Compare(a.path, c.path) })
	return b, nil
}

// goCommand runs the go command in the checkout, and returns its output. Settings of the user that would change programs have no effect.
func (b *build) goCommand(p platform, args ...string) ([]byte, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = b.root
	cmd.Env = append(os.Environ(), "GOOS="+p.os, "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off", "GOEXPERIMENT=",
		"GOAMD64=v1", "GOARM64=v8.0", "GOTOOLCHAIN="+goVersion)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("%s: %w\n%s", cmd, err, exit.Stderr)
	}
	return out, err
}

// inspect reads version, commit and modules from the programs of a platform. It returns an error if they are not from a clean
// commit, or not from the same one.
func (b *build) inspect(p platform) error {
	entries, err := os.ReadDir(b.bin(p))
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := buildinfo.ReadFile(filepath.Join(b.bin(p), e.Name()))
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(e.Name(), ".exe")
		b.addModule(module{path: "std", version: info.GoVersion}, name)
		modules := info.Deps
		if info.Path == natsServer { // a program of another module, without our version
			modules = append(modules, &info.Main)
		}
		for _, m := range modules {
			if m.Replace != nil {
				m = m.Replace
			}
			b.addModule(module{path: m.Path, version: m.Version, sum: m.Sum}, name)
		}
		if info.Path == natsServer {
			continue
		}
		settings := map[string]string{}
		for _, s := range info.Settings {
			settings[s.Key] = s.Value
		}
		version, ok := strings.CutPrefix(info.Main.Version, "v")
		switch {
		case settings["vcs.revision"] == "":
			return fmt.Errorf("%s: not a git checkout with a commit (the go command stamps no worktrees: use a clone)", b.root)
		case settings["vcs.modified"] != "false" || !ok:
			return fmt.Errorf("%s: version %s: the checkout has changes: commit them", b.root, info.Main.Version)
		case b.version != "" && b.version != version:
			return fmt.Errorf("%s has version %s, another program %s", name, version, b.version)
		}
		b.version, b.revision = version, settings["vcs.revision"]
		if b.time, err = time.Parse(time.RFC3339, settings["vcs.time"]); err != nil {
			return err
		}
	}
	return nil
}

func (b *build) addModule(m module, program string) {
	i := slices.IndexFunc(b.modules, func(x module) bool { return x.path == m.path })
	if i < 0 {
		i = len(b.modules)
		b.modules = append(b.modules, m)
	}
	if !slices.Contains(b.modules[i].programs, program) {
		b.modules[i].programs = append(b.modules[i].programs, program)
		slices.Sort(b.modules[i].programs)
	}
}

// host returns the platform of this machine, for commands of the release itself.
func host() platform { return platform{runtime.GOOS, runtime.GOARCH} }

// writeCompletions stores the completion scripts that debrief prints.
func writeCompletions(b *build) error {
	if err := os.Mkdir(filepath.Join(b.stage, "completions"), 0o755); err != nil {
		return err
	}
	for shell, file := range map[string]string{"bash": "debrief.bash", "zsh": "_debrief", "fish": "debrief.fish"} {
		script, err := b.goCommand(host(), "run", "-trimpath", "./cmd/debrief", "completion", shell)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(b.stage, "completions", file), script, 0o644); err != nil {
			return err
		}
	}
	return nil
}
