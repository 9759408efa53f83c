package backup

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"
)

// Names of entries. The entries between them are pieces: <stream>/<number from 000001>.
const (
	headName     = "debrief-backup.json"
	manifestName = "manifest.json"
)

const (
	format      = 1
	maxHead     = 4 << 10
	maxManifest = 4 << 20
)

// head is the first entry. It identifies the format.
type head struct {
	Format  string    `json:"format"` // debrief-backup
	Version int       `json:"version"`
	Created time.Time `json:"created"`
}

const formatName = "debrief-backup"

// Manifest is the last entry. It describes the contents of the archive.
type Manifest struct {
	Created   time.Time         `json:"created"`
	Duration  time.Duration     `json:"duration_ns"`
	Program   string            `json:"program"`   // version of debrief that wrote the archive
	Server    string            `json:"server"`    // version of the server that made the snapshots; an older one may not read them
	Positions map[string]uint64 `json:"positions"` // by role: everything up to it was acknowledged before the first snapshot
	Streams   []Stream          `json:"streams"`   // in the order of their snapshots
}

// Stream is one stream of an archive.
type Stream struct {
	Name    string          `json:"name"`
	State   State           `json:"state"`
	Removed uint64          `json:"removed,omitempty"` // messages removed during the snapshot, which may be missing in it
	Pieces  int             `json:"chunks"`
	Size    int64           `json:"size"`   // bytes of the snapshot in the archive
	SHA256  string          `json:"sha256"` // of the snapshot; hexadecimal
	Config  json.RawMessage `json:"config"`
	Server  json.RawMessage `json:"server_state"` // State in the server's encoding
}

// writer writes an archive.
type writer struct {
	tar *tar.Writer
	now time.Time
}

func newWriter(out io.Writer, now time.Time) (*writer, error) {
	w := &writer{tar.NewWriter(out), now}
	data, err := json.Marshal(head{formatName, format, now})
	if err != nil {
		return nil, err
	}
	return w, w.entry(headName, data)
}

func (w *writer) entry(name string, data []byte) error {
	err := w.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(data)), ModTime: w.now, Format: tar.FormatPAX})
	if err != nil {
		return err
	}
	_, err = w.tar.Write(data)
	return err
}

func (w *writer) piece(stream string, n int, data []byte) error {
	return w.entry(fmt.Sprintf("%s/%06d", stream, n), data)
}

func (w *writer) close(m *Manifest) error {
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	if err := w.entry(manifestName, data); err != nil {
		return err
	}
	return w.tar.Close()
}

// InvalidError is returned for a file that is not a backup, or that was changed since it was written. Nothing was
// restored.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "invalid backup: " + e.Reason }

func damaged(format string, args ...any) error { return &InvalidError{fmt.Sprintf(format, args...)} }

// walk reads an archive and calls fn with each piece, unless fn is nil. It verifies the manifest against the pieces and returns
// it. The archive may come from an untrusted source, so an entry with another name, or larger than those of our archives, is an
// error.
func walk(in io.Reader, fn func(stream string, data []byte) error) (*Manifest, error) {
	t := tar.NewReader(in)
	data, name, err := next(t, maxHead)
	var h head
	hasHead := err == nil && name == headName && json.Unmarshal(data, &h) == nil
	if !hasHead || h.Format != formatName {
		return nil, damaged("not written by 'debrief backup create'")
	}
	if h.Version != format {
		return nil, damaged("format %d, this program supports %d: use a newer program", h.Version, format)
	}
	var found []Stream
	var hashed sum // of the last stream
	setHash := func() {
		if n := len(found); n > 0 {
			found[n-1].SHA256 = hashed.String()
		}
	}
	for {
		data, name, err := next(t, maxManifest)
		if errors.Is(err, io.EOF) {
			return nil, damaged("truncated: manifest missing")
		}
		if err != nil {
			return nil, err
		}
		if name == manifestName {
			setHash()
			m, err := check(data, found)
			if err != nil {
				return nil, err
			}
			if _, _, err := next(t, 0); !errors.Is(err, io.EOF) {
				return nil, damaged("unexpected data after the manifest")
			}
			return m, nil
		}
		stream, number, _ := strings.Cut(name, "/")
		if !slices.Contains(Streams(), stream) || len(data) > chunk {
			return nil, damaged("entry %.60q: unknown", name)
		}
		if n := len(found); n == 0 || found[n-1].Name != stream {
			setHash()
			hashed = newSum()
			found = append(found, Stream{Name: stream})
		}
		s := &found[len(found)-1]
		s.Pieces++
		if number != fmt.Sprintf("%06d", s.Pieces) {
			return nil, damaged("entry %.60q: want piece %d of %s", name, s.Pieces, stream)
		}
		s.Size += int64(len(data))
		hashed.Write(data)
		if fn != nil {
			if err := fn(stream, data); err != nil {
				return nil, err
			}
		}
	}
}

// next returns the next entry. An entry larger than limit is an error.
func next(t *tar.Reader, limit int64) (data []byte, name string, err error) {
	h, err := t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, "", err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, "", damaged("truncated")
	case errors.Is(err, tar.ErrHeader):
		return nil, "", damaged("%v", err)
	case err != nil:
		return nil, "", fmt.Errorf("read: %w", err)
	case h.Typeflag != tar.TypeReg:
		return nil, "", damaged("entry %.60q: not a regular file", h.Name)
	case h.Size > limit:
		return nil, "", damaged("entry %.60q: too large: %d bytes", h.Name, h.Size)
	}
	data = make([]byte, h.Size) // ReadFull returns no error for size 0
	_, err = io.ReadFull(t, data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "", damaged("truncated")
	}
	if err != nil {
		return nil, "", fmt.Errorf("read: %w", err)
	}
	return data, h.Name, nil
}

// check verifies a manifest against the streams that were read.
func check(data []byte, found []Stream) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, damaged("manifest: %v", err)
	}
	if len(m.Streams) != len(found) {
		return nil, damaged("%d streams found, the manifest lists %d", len(found), len(m.Streams))
	}
	for i, want := range m.Streams {
		got := found[i]
		switch {
		case got.Name != want.Name:
			return nil, damaged("stream %s found, the manifest lists %.60q", got.Name, want.Name)
		case slices.ContainsFunc(found[:i], func(s Stream) bool { return s.Name == got.Name }):
			return nil, damaged("duplicate stream %s", got.Name)
		case got.Pieces != want.Pieces, got.Size != want.Size, got.SHA256 != want.SHA256:
			return nil, damaged("%s: hash differs from the manifest", got.Name)
		}
	}
	return m, nil
}

// sum is a running SHA-256.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) String() string { return hex.EncodeToString(s.Sum(nil)) }
