package program

import (
	"runtime"
	"runtime/debug"
	"testing"
)

func TestBuildNamesAVersionOrACommit(t *testing.T) {
	t.Parallel()
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "d5ad0b4"}, {Key: "vcs.time", Value: "2026-11-23T15:40:00Z"}, {Key: "vcs.modified", Value: "true"}}
	for _, c := range []struct {
		version  string
		settings []debug.BuildSetting
		want     string
	}{
		{"v2.1.0", nil, "v2.1.0"},
		{"v2.1.0", vcs, "v2.1.0, commit d5ad0b4+ of 2026-11-23T15:40:00Z"},
		{"(devel)", vcs, "unversioned, commit d5ad0b4+ of 2026-11-23T15:40:00Z"},
		{"(devel)", nil, "unversioned, built without version control information"},
	} {
		info := &debug.BuildInfo{Main: debug.Module{Version: c.version}, Settings: c.settings}
		if got, want := newBuild(info).String(), c.want+", "+runtime.Version(); got != want {
			t.Errorf("%s: got %q, want %q", c.version, got, want)
		}
	}
}
