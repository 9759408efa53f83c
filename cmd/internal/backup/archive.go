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

// Names of entries. Those between are pieces: <stream>/<number from 000001>.
const (
	headName     = "debrief-backup.json"
	manifestName = "manifest.json"
)

const (
	format      = 1
	maxHead     = 4 << 10
	maxManifest = 4 << 20
)

// head is the first entry: what this is.
type head struct {
	Format  string    `json:"format"` // debrief-backup
	Version int       `json:"version"`
	Created time.Time `json:"created"`
}

const formatName = "debrief-backup"

// Manifest is the last entry: what the archive holds.
type Manifest struct {
	Created   time.Time         `json:"created"`
	Took      time.Duration     `json:"took_ns"`
	Program   string            `json:"program"`   // version of debrief that wrote it
	Server    string            `json:"server"`    // version of the server that it is of: an older one may not read it
	Positions map[string]uint64 `json:"positions"` // by role: everything at or under it was settled before the first stream was taken
	Streams   []Stream          `json:"streams"`   // in the order in which they were taken
}

// Stream is one stream of an archive.
type Stream struct {
	Name    string          `json:"name"`
	State   State           `json:"state"`
	Removed uint64          `json:"removed,omitempty"` // so many messages went while it was taken, and may be missing in it
	Pieces  int             `json:"pieces"`
	Size    int64           `json:"size"`   // of the snapshot, in bytes, as the archive holds it
	SHA256  string          `json:"sha256"` // of the same, hex
	Config  json.RawMessage `json:"config"`
	Server  json.RawMessage `json:"server_state"` // State as the server gave it
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

// DamagedError is returned of a file that is no backup, or not the one that was written. Nothing was changed then.
type DamagedError struct{ What string }

func (e *DamagedError) Error() string { return "the backup cannot be used: " + e.What }

func damaged(format string, args ...any) error { return &DamagedError{fmt.Sprintf(format, args...)} }

// walk goes through an archive, which may be anybody's: entries are told by their exact names, nothing is ever written
// under one, and no entry is read that is larger than what we write. It calls fn with each piece, and returns the
// manifest, held against what was read.
func walk(in io.Reader, fn func(stream string, data []byte) error) (*Manifest, error) {
	t := tar.NewReader(in)
	data, name, err := next(t, maxHead)
	var h head
	if err != nil || name != headName || json.Unmarshal(data, &h) != nil || h.Format != formatName {
		return nil, damaged("it is none of 'debrief backup create'")
	}
	if h.Version != format {
		return nil, damaged("it is of format %d, this program knows %d: take a newer program", h.Version, format)
	}
	var found []Stream
	var hashed sum
	settle := func() {
		if n := len(found); n > 0 {
			found[n-1].SHA256 = hashed.String()
		}
	}
	for {
		data, name, err := next(t, maxManifest)
		if errors.Is(err, io.EOF) {
			return nil, damaged("it ends without its manifest: it was cut short")
		}
		if err != nil {
			return nil, err
		}
		if name == manifestName {
			settle()
			m, err := check(data, found)
			if err != nil {
				return nil, err
			}
			if _, _, err := next(t, 0); !errors.Is(err, io.EOF) {
				return nil, damaged("something follows its manifest")
			}
			return m, nil
		}
		stream, number, _ := strings.Cut(name, "/")
		if !slices.Contains(Streams(), stream) || len(data) > chunk {
			return nil, damaged("entry %.60q: is none of a backup's", name)
		}
		if n := len(found); n == 0 || found[n-1].Name != stream {
			settle()
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

// next is the next entry, of at most so many bytes.
func next(t *tar.Reader, most int64) (data []byte, name string, err error) {
	h, err := t.Next()
	switch {
	case errors.Is(err, io.EOF):
		return nil, "", err
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, "", damaged("it was cut short")
	case errors.Is(err, tar.ErrHeader):
		return nil, "", damaged("%v", err)
	case err != nil:
		return nil, "", fmt.Errorf("read: %w", err)
	case h.Typeflag != tar.TypeReg:
		return nil, "", damaged("entry %.60q: is no plain file", h.Name)
	case h.Size > most:
		return nil, "", damaged("entry %.60q: has %d bytes, more than any of a backup's", h.Name, h.Size)
	}
	data = make([]byte, h.Size)
	if _, err := io.ReadFull(t, data); errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) && h.Size > 0 {
		return nil, "", damaged("it was cut short")
	} else if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read: %w", err)
	}
	return data, h.Name, nil
}

// check holds a manifest against what was found.
func check(data []byte, found []Stream) (*Manifest, error) {
	m := new(Manifest)
	if err := json.Unmarshal(data, m); err != nil {
		return nil, damaged("its manifest: %v", err)
	}
	if len(m.Streams) != len(found) {
		return nil, damaged("it holds %d streams, its manifest names %d", len(found), len(m.Streams))
	}
	for i, want := range m.Streams {
		got := found[i]
		switch {
		case got.Name != want.Name:
			return nil, damaged("it holds %s where its manifest names %.60q", got.Name, want.Name)
		case slices.ContainsFunc(found[:i], func(s Stream) bool { return s.Name == got.Name }):
			return nil, damaged("it holds %s twice", got.Name)
		case got.Pieces != want.Pieces, got.Size != want.Size, got.SHA256 != want.SHA256:
			return nil, damaged("%s: its hash is not that of the manifest: it was altered", got.Name)
		}
	}
	return m, nil
}

// sum is a running SHA-256.
type sum struct{ hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) String() string { return hex.EncodeToString(s.Sum(nil)) }
