package ops

import (
	"runtime"

	"debrief/cmd/internal/app"
	"debrief/cmd/internal/cli"
	"debrief/cmd/internal/console"
)

// Version prints the build of the program.
type Version struct {
	JSON bool `help:"Print JSON."`
}

// Help implements kong.HelpProvider.
func (*Version) Help() string {
	return `Print the version, the commit and the Go version of this build. The commit is "unknown" without version control
information, as in a build from an archive; a "+" after it says that files were changed.

Examples:

  debrief version
  debrief version --json`
}

// Run implements the command.
func (v *Version) Run() error {
	version, commit := app.Build()
	if v.JSON {
		return cli.WriteJSON(console.Stdout, struct {
			Version string `json:"version"`
			Commit  string `json:"commit"`
			Go      string `json:"go"`
		}{version, commit, runtime.Version()})
	}
	console.Printf("debrief %s, commit %s, %s\n", version, commit, runtime.Version())
	return nil
}
