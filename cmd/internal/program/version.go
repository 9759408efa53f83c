package program

import (
	"runtime"
	"runtime/debug"
)

// Build describes the build of the program.
type Build struct {
	Version string `json:"version"` // see Version
	Go      string `json:"go"`
}

// CurrentBuild returns the build of this program.
func CurrentBuild() Build { return Build{Version: Version(), Go: runtime.Version()} }

// String returns the build in one line.
func (b Build) String() string { return b.Version + ", " + b.Go }

// Version returns the module's version: of a release its tag, of another build the time and the commit, with +dirty if files were changed
// since. It is "unversioned" for a build without version control information, as from an archive.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "unversioned"
	}
	return info.Main.Version
}
