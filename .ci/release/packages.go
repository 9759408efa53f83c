package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

// workerDir is the directory of the workers and the server in a package: their names are too general for /usr/bin.
const workerDir = "/usr/libexec/debrief/"

// makePackages writes a .deb and an .rpm for each platform of Linux.
func makePackages(b *build) error {
	contents, err := b.commonContents()
	if err != nil {
		return err
	}
	for _, p := range b.linux() {
		all := contents
		for _, name := range append([]string{"nats-server"}, programs...) {
			dir := workerDir
			if name == "debrief" {
				dir = "/usr/bin/"
			}
			all = append(all, packageFile(filepath.Join(b.bin(p), name), dir+name, 0o755))
		}
		for _, format := range []string{"deb", "rpm"} {
			if err := b.pack(p, format, all); err != nil {
				return fmt.Errorf("%s for %s: %w", format, p.arch, err)
			}
		}
	}
	return nil
}

func packageFile(source, destination string, mode os.FileMode) *files.Content {
	return &files.Content{Source: source, Destination: destination, FileInfo: &files.ContentFileInfo{Mode: mode, Owner: "root", Group: "root"}}
}

// commonContents returns the files that packages of all platforms share. The units are those of deploy/systemd with the
// directories of a package.
func (b *build) commonContents() (files.Contents, error) {
	deploy := filepath.Join(b.root, "deploy")
	units, err := filepath.Glob(filepath.Join(deploy, "systemd/*.service"))
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(b.stage, "units")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	moved := strings.NewReplacer("/usr/local/bin/debrief ", "/usr/bin/debrief ", "/usr/local/bin/", workerDir,
		"README.md in the parent directory", "/usr/share/doc/debrief/README.md")
	var all files.Contents
	for _, unit := range units {
		text, err := os.ReadFile(unit)
		if err != nil {
			return nil, err
		}
		file := filepath.Join(dir, filepath.Base(unit))
		if err := os.WriteFile(file, []byte(moved.Replace(string(text))), 0o644); err != nil {
			return nil, err
		}
		all = append(all, packageFile(file, "/usr/lib/systemd/system/"+filepath.Base(unit), 0o644))
	}
	for _, name := range []string{"debrief.yaml", "server.env", "workers.env"} {
		config := packageFile(filepath.Join(deploy, "systemd", name), "/etc/debrief/"+name, 0o644)
		config.Type = files.TypeConfigNoReplace // a changed file stays in an upgrade
		all = append(all, config)
	}
	for source, destination := range map[string]string{
		filepath.Join(deploy, "nats/server.conf"):          "/usr/share/debrief/nats/server.conf",
		filepath.Join(deploy, "nats/limits.conf"):          "/usr/share/debrief/nats/limits.conf",
		filepath.Join(deploy, "README.md"):                 "/usr/share/doc/debrief/README.md",
		filepath.Join(b.stage, "licenses/LICENSE"):         "/usr/share/doc/debrief/copyright",
		filepath.Join(b.stage, "licenses/THIRD_PARTY"):     "/usr/share/doc/debrief/THIRD_PARTY",
		filepath.Join(b.stage, "completions/debrief.bash"): "/usr/share/bash-completion/completions/debrief",
		filepath.Join(b.stage, "completions/_debrief"):     "/usr/share/zsh/vendor-completions/_debrief",
		filepath.Join(b.stage, "completions/debrief.fish"): "/usr/share/fish/vendor_completions.d/debrief.fish",
	} {
		all = append(all, packageFile(source, destination, 0o644))
	}
	return all, nil
}

// pack writes one package.
func (b *build) pack(p platform, format string, contents files.Contents) error {
	scripts := filepath.Join(b.root, ".ci/release/package")
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "debrief", Arch: p.arch, Platform: "linux", Version: b.version, Release: "1",
		Section: "net", Priority: "optional", Maintainer: b.home.maintainer, Homepage: b.home.homepage, License: "Apache-2.0",
		Description: "Let LLM agents learn from their runs\nDebrief turns the outcomes of runs into short rules for the next prompts.",
		MTime:       b.time,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: filepath.Join(scripts, "postinstall.sh"),
				PreRemove:   filepath.Join(scripts, "preremove.sh"),
				PostRemove:  filepath.Join(scripts, "postremove.sh"),
			},
			RPM: nfpm.RPM{BuildHost: "localhost", Summary: "Let LLM agents learn from their runs"},
		},
	})
	if format == "deb" {
		info.Depends = []string{"passwd"} // useradd; on other systems rpm finds it as a file
	} else {
		info.Depends = []string{"/usr/sbin/useradd"}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	out, err := os.Create(filepath.Join(b.out, packager.ConventionalFileName(info)))
	if err != nil {
		return err
	}
	return errors.Join(packager.Package(info, out), out.Close())
}
