package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// entry is a file of an archive: its content is data, or the file source. With a mode of a directory it has no content.
type entry struct {
	name   string // with slashes
	data   []byte
	source string
	mode   fs.FileMode
	user   int // the number of the owner and of its group
}

func (e entry) content() ([]byte, error) {
	if e.source == "" {
		return e.data, nil
	}
	return os.ReadFile(e.source)
}

// writeTar writes a gzipped tar: the same entries make the same bytes.
func writeTar(file string, entries []entry, at time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zw := gzip.NewWriter(out)
	return errors.Join(tarTo(zw, entries, at), zw.Close())
}

// tarTo writes a tar of the entries, sorted by name, with the time at and without names of users.
func tarTo(w io.Writer, entries []entry, at time.Time) error {
	tw := tar.NewWriter(w)
	for _, e := range sorted(entries) {
		header := &tar.Header{Name: e.name, Typeflag: tar.TypeDir, Mode: int64(e.mode.Perm()), Uid: e.user, Gid: e.user, ModTime: at, Format: tar.FormatPAX}
		var data []byte
		if !e.mode.IsDir() {
			var err error
			if data, err = e.content(); err != nil {
				return err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(data))
		}
		if err := tw.WriteHeader(header); err != nil {
			return err
		}
		if _, err := tw.Write(data); err != nil {
			return err
		}
	}
	return tw.Close()
}

// writeZip does the same as a zip file. The entries keep their order: in a wheel the last one lists the others.
func writeZip(file string, entries []entry, at time.Time) (err error) {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	zw := zip.NewWriter(out)
	for _, e := range entries {
		data, err := e.content()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: e.name, Method: zip.Deflate, Modified: at.UTC()}
		header.SetMode(e.mode)
		w, err := zw.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(data); err != nil {
			return err
		}
	}
	return zw.Close()
}

func sorted(entries []entry) []entry {
	return slices.SortedFunc(slices.Values(entries), func(a, b entry) int { return strings.Compare(a.name, b.name) })
}

// directory returns the files below dir as entries below prefix.
func directory(dir, prefix string) (all []entry, err error) {
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		relative, err := filepath.Rel(dir, name)
		all = append(all, entry{name: path.Join(prefix, filepath.ToSlash(relative)), source: name, mode: 0o644})
		return err
	})
	return all, err
}

// makeArchives writes one archive of the programs for each platform, with completions and licenses.
func makeArchives(b *build) error {
	for _, p := range b.platforms {
		name := "debrief_" + b.version + "_" + p.os + "_" + p.arch
		var entries []entry
		for _, program := range programs {
			file := p.program(program)
			entries = append(entries, entry{name: name + "/" + file, source: filepath.Join(b.bin(p), file), mode: 0o755})
		}
		for _, dir := range []string{"completions", "licenses"} {
			files, err := directory(filepath.Join(b.stage, dir), name+"/"+dir)
			if err != nil {
				return err
			}
			entries = append(entries, files...)
		}
		write, suffix := writeTar, ".tar.gz"
		if p.os == "windows" {
			write, suffix = writeZip, ".zip"
		}
		if err := write(filepath.Join(b.out, name+suffix), sorted(entries), b.time); err != nil { // sorted here for writeZip
			return err
		}
	}
	return nil
}
