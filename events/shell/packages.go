package shell

import (
	"path"
	"slices"
	"strings"
)

// packageOptions are the options of package managers that are followed by a value.
var packageOptions = map[string]string{
	"pip": "-r --requirement -c --constraint -i --index-url --extra-index-url -e --editable -t --target -f --find-links --python " +
		"--prefix --root --proxy --timeout --trusted-host --retries --platform --python-version",
	"uv": "-r --requirement -c --constraint -i --index-url --extra-index-url --index -e --editable -f --find-links -p --python --group " +
		"--extra --package --optional --prefix --target",
	"pipx":     "--python --pip-args --suffix -i --index-url --preinstall",
	"poetry":   "-G --group -E --extras --source --python --with --without --only",
	"pipenv":   "-r --requirements -i --index -e --editable --python --categories",
	"npm":      "--prefix --registry -w --workspace --tag --cache --loglevel",
	"yarn":     "--cwd --registry --modules-folder",
	"pnpm":     "-C --dir --filter -F --registry",
	"bun":      "--cwd --registry",
	"apt":      "-t --target-release -o -c",
	"apt-get":  "-t --target-release -o -c",
	"apk":      "-X --repository -t --virtual -p --root",
	"dnf":      "--enablerepo --disablerepo --repo --installroot --releasever -x --exclude",
	"yum":      "--enablerepo --disablerepo --installroot --releasever -x --exclude",
	"conda":    "-n --name -p --prefix -c --channel --file",
	"mamba":    "-n --name -p --prefix -c --channel --file",
	"gem":      "-v --version -i --install-dir -s --source -n --bindir -P",
	"cargo":    "--version --vers --git --branch --tag --rev --path --root --features -F --bin --example --registry --target --target-dir -j --jobs --profile",
	"go":       "-tags -ldflags -o -C -modfile -gcflags",
	"brew":     "--appdir",
	"composer": "-d --working-dir",
	"dotnet":   "-v --version -f --framework -s --source",
	"make":     "-C -f -j --directory --file",
}

// packages returns the names of the packages of an installation, without versions. Local paths, requirement files and
// the values of options are not packages.
func packages(manager, subcommand string, args []string) []string {
	if manager == "make" {
		return nil
	}
	switch manager + " " + subcommand {
	case "go mod", "uv sync", "apt update", "apt-get update", "apk update", "cargo fetch", "dotnet restore", "npm ci":
		return nil
	}
	options := strings.Fields(packageOptions[manager])
	var names []string
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case strings.HasPrefix(a, "-"):
			if slices.Contains(options, a) {
				i++
			}
		default:
			if name := packageName(manager, a); name != "" && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// packageName returns an argument without its version, "" for a local path or an expansion.
func packageName(manager, arg string) string {
	if arg == "" || arg[0] == '.' || arg[0] == '/' || arg[0] == '~' || strings.ContainsAny(arg, "$`*") || isArchive(arg) {
		return ""
	}
	if strings.Contains(arg, "://") {
		return arg
	}
	if i := strings.IndexAny(arg, "=<>!~;[ \t\n"); i >= 0 {
		arg = arg[:i]
	}
	if i := strings.LastIndexByte(arg, '@'); i > 0 && manager != "brew" && manager != "apt" && manager != "apt-get" { // brew: python@3.12
		arg = arg[:i]
	}
	return arg
}

// isArchive reports whether an argument is a package file, which is a local path.
func isArchive(arg string) bool {
	switch path.Ext(arg) {
	case ".whl", ".deb", ".rpm", ".gz", ".tgz", ".zip", ".apk", ".txt":
		return !strings.Contains(arg, "://")
	}
	return false
}
