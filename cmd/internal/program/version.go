package program

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

const unversioned = "unversioned" // version of a build that is not a release

// Build describes the build of the program.
type Build struct {
	Version string `json:"version"`          // module version; "unversioned" if the build is not a release
	Commit  string `json:"commit,omitempty"` // with a + if files were changed since; empty without version control information
	Time    string `json:"time,omitempty"`   // time of the commit, RFC 3339
	Go      string `json:"go"`
}

// CurrentBuild returns the build of this program.
func CurrentBuild() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = new(debug.BuildInfo)
	}
	return newBuild(info)
}

// newBuild reads the module version and the version control information that the compiler stores.
func newBuild(info *debug.BuildInfo) Build {
	settings := make(map[string]string, len(info.Settings))
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	b := Build{Version: info.Main.Version, Commit: settings["vcs.revision"], Time: settings["vcs.time"], Go: runtime.Version()}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = unversioned
	}
	if b.Commit != "" && settings["vcs.modified"] == "true" {
		b.Commit += "+"
	}
	return b
}

// String returns the build in one line.
func (b Build) String() string {
	parts := []string{b.Version}
	switch {
	case b.Commit != "":
		parts = append(parts, fmt.Sprintf("commit %s of %s", b.Commit, cmp.Or(b.Time, "unknown time")))
	case b.Version == unversioned:
		parts = append(parts, "built without version control information")
	}
	return strings.Join(append(parts, b.Go), ", ")
}

// Version returns the module's version, or the commit of an unreleased build, or "unknown".
func Version() string {
	b := CurrentBuild()
	if b.Version == unversioned {
		return cmp.Or(b.Commit, "unknown")
	}
	return b.Version
}
