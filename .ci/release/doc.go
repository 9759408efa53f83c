// Command release builds everything that a release publishes into one folder, dist, from a clean clone:
//
//	go -C .ci/release run .
//
// The folder has archives of the programs for six platforms, .deb and .rpm for Linux, an OCI layout of the images with a tar for
// 'docker load' for each platform, a Helm chart, a wheel and an npm tarball of the clients, a bill of materials (CycloneDX) and
// SHA256SUMS. Nothing is uploaded; 'go -C .ci/release run . push' pushes the images. .github/workflows/release.yml does both on a
// tag, and signs.
//
// # Version
//
// The version is the tag of the commit, such as v0.1.0, which the go command stores in each program. Everything else reads it from
// the programs, so it is written nowhere. Without a tag it is a version such as 0.0.0-20261128111138-7e45f23da255. Changes that
// are not committed are an error, and so is a git worktree, which the go command does not read.
//
// # Reproducible
//
// The same commit is meant to make the same bytes: build.go fixes the version of Go and all settings that change a program, and each
// file has the time of the commit. TestReleaseIsReproducible compares two builds; it takes long and runs by hand. Or compare them with
//
//	go -C .ci/release run . -out /tmp/a && go -C .ci/release run . -out /tmp/b && diff -r /tmp/a /tmp/b
//
// # Names of the owner
//
// home.env has the names that the owner of a published release chooses: registry, home page, maintainer, and the names of the
// clients. The path of the Go module is not in home.env: it is in go.mod and in each import. Other modules can import the packages
// only when this path is an address; to change it, replace "debrief/ in all imports and the line module in go.mod.
//
// # Why a program
//
// goreleaser does most of this, but its configuration would be a second description of the images, which deploy/Dockerfile has,
// and of the chart, which deploy/kubernetes has. Its part for SBOM and images needs further programs. This program reads the two,
// and uses the libraries nfpm (as goreleaser does), kustomize and go-containerregistry. It is a separate module, so that none of
// them is in the go.mod of the programs.
//
// # Tests
//
// 'go test .' checks the parts. DEBRIEF_LONG=1 builds releases for this machine, compares two, installs packages, archive and
// images on a clean system, and the clients without a network. They need docker and debootstrap, as root, and skip without them.
package main
