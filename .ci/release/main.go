package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// allPlatforms are the platforms of the programs. Packages and images are made for those of Linux.
const allPlatforms = "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64,windows/amd64,windows/arm64"

func main() {
	root := flag.String("root", "../..", "the checkout to build, without uncommitted changes")
	out := flag.String("out", "", "the output folder, new or empty; default: dist in the checkout")
	platforms := flag.String("platforms", allPlatforms, "platforms of the programs, separated by commas")
	flag.Usage = func() {
		fmt.Fprint(flag.CommandLine.Output(), "Usage: release [flags]        build a release\n"+
			"       release [flags] chart  write only the chart, with the version 0.0.0, also with uncommitted changes\n"+
			"       release [flags] push   push the images in the output folder to the registry of home.env\n\n")
		flag.PrintDefaults()
	}
	flag.Parse()
	if *out == "" {
		*out = filepath.Join(*root, "dist")
	}
	h, err := readHome(filepath.Join(*root, ".ci/release/home.env"))
	switch {
	case err != nil:
	case flag.NArg() == 0:
		err = release(*root, *out, h, strings.Split(*platforms, ","))
	case flag.NArg() == 1 && flag.Arg(0) == "push":
		err = pushImages(*out, h)
	case flag.NArg() == 1 && flag.Arg(0) == "chart":
		err = onlyChart(*root, *out, h)
	default:
		err = fmt.Errorf("unknown command %q", strings.Join(flag.Args(), " "))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release builds everything into out.
func release(root, out string, h home, platforms []string) (err error) {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is not empty: delete it", out)
	}
	stage, err := os.MkdirTemp("", "debrief-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	b, err := buildPrograms(root, stage, platforms)
	if err != nil {
		return err
	}
	b.home, b.out = h, out
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	for _, step := range []struct {
		name string
		make func(*build) error
	}{
		{"licenses", collectLicenses},
		{"completions", writeCompletions},
		{"archives", makeArchives},
		{"packages", makePackages},
		{"images", makeImages},
		{"chart", makeChart},
		{"clients", makeClients},
		{"bill of materials", makeBOM},
		{"checksums", writeSums},
	} {
		if err := step.make(b); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Println(step.name)
	}
	fmt.Printf("version %s in %s\n", b.version, out)
	return nil
}

// onlyChart writes the chart into out.
func onlyChart(root, out string, h home) (err error) {
	stage, err := os.MkdirTemp("", "debrief-release-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	return makeChart(&build{home: h, root: root, out: out, stage: stage, version: "0.0.0"})
}

// writeSums writes SHA256SUMS for all files of the output folder except the layout of the images, which has hashes as names.
func writeSums(b *build) error {
	entries, err := os.ReadDir(b.out)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, e := range entries {
		if e.IsDir() {
			continue
		}
		f, err := os.Open(filepath.Join(b.out, e.Name()))
		if err != nil {
			return err
		}
		hash := sha256.New()
		_, err = io.Copy(hash, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", hash.Sum(nil), e.Name())
	}
	return os.WriteFile(filepath.Join(b.out, "SHA256SUMS"), []byte(sums.String()), 0o644)
}
