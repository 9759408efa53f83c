package train

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// eventName matches the file of an event. The OpenHands SDK stores a conversation as <id>/base_state.json and one file for each event,
// such as <id>/events/event-00007-<id of the event>.json.
var eventName = regexp.MustCompile(`^event-\d+-.*\.json$`)

const maxEvent = 16 << 20 // bytes of the file of an event

// groupEvents replaces the files of events by their directory, which is read as one file, and leaves out the state beside it.
func groupEvents(files []string) []string {
	conversations := map[string]bool{} // by directory; true once the directory is in the list
	for _, name := range files {
		if eventName.MatchString(filepath.Base(name)) {
			conversations[filepath.Dir(name)] = false
		}
	}
	return slices.Collect(func(yield func(string) bool) {
		for _, name := range files {
			dir, base := filepath.Dir(name), filepath.Base(name)
			_, hasEvents := conversations[filepath.Join(dir, "events")]
			switch {
			case hasEvents && base == "base_state.json":
				continue
			case !eventName.MatchString(base):
			case conversations[dir]:
				continue
			default: // the first event of a conversation
				conversations[dir] = true
				name = dir
			}
			if !yield(name) {
				return
			}
		}
	})
}

// baseName returns the name of a file for the ids of its runs. The events of a conversation are in the directory <id>/events: the name
// is <id>.events.
func baseName(name string) string {
	base := filepath.Base(name)
	if info, err := os.Stat(name); err == nil && info.IsDir() && base == "events" {
		return filepath.Base(filepath.Dir(name)) + ".events"
	}
	return base
}

// eventReader reads the events of a directory, each as a line. An unreadable file becomes an invalid line, so that it costs only
// itself.
type eventReader struct {
	dir   string
	names []string // not read yet
	line  []byte   // the rest of the current line
}

func newEventReader(dir string) *eventReader {
	r := &eventReader{dir: dir}
	entries, _ := os.ReadDir(dir) // sorted by name
	for _, entry := range entries {
		if eventName.MatchString(entry.Name()) {
			r.names = append(r.names, entry.Name())
		}
	}
	return r
}

// Read implements io.Reader.
func (r *eventReader) Read(p []byte) (int, error) {
	if len(r.line) == 0 {
		if len(r.names) == 0 {
			return 0, io.EOF
		}
		r.line, r.names = readEvent(filepath.Join(r.dir, r.names[0])), r.names[1:]
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}

// readEvent returns the event in a file as a line.
func readEvent(path string) []byte {
	f, err := openFile(path)
	if err != nil {
		return []byte("unreadable event\n")
	}
	defer f.Close()
	event, err := io.ReadAll(io.LimitReader(f, maxEvent+1))
	if err != nil || len(event) > maxEvent || !json.Valid(event) {
		return []byte("unreadable event\n")
	}
	return append(bytes.ReplaceAll(bytes.TrimSpace(event), []byte("\n"), []byte(" ")), '\n') // JSON has line breaks only between its tokens
}
