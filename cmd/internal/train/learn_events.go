package train

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"regexp"
)

// eventName matches the file of an event. The OpenHands SDK stores a conversation as <id>/base_state.json and one file for each event,
// such as <id>/events/event-00007-<id of the event>.json.
var eventName = regexp.MustCompile(`^event-\d+-.*\.json$`)

const maxEvent = 16 << 20 // bytes of the file of an event

// groupEvents replaces the files of the events in a directory by the directory, which is read as one file. It leaves out the file of the
// state beside that directory.
func groupEvents(files []string) (grouped []string) {
	isListed := map[string]bool{} // by directory with events: whether it is in the result
	for _, name := range files {
		if eventName.MatchString(filepath.Base(name)) {
			isListed[filepath.Dir(name)] = false
		}
	}
	for _, name := range files {
		dir, base := filepath.Dir(name), filepath.Base(name)
		_, hasEvents := isListed[filepath.Join(dir, "events")]
		switch {
		case hasEvents && base == "base_state.json": // left out
		case !eventName.MatchString(base):
			grouped = append(grouped, name)
		case !isListed[dir]: // the first event of the directory
			isListed[dir] = true
			grouped = append(grouped, dir)
		}
	}
	return grouped
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

// eventReader reads the events of a directory, each as a line. An unreadable file becomes an invalid line: the reader of the lines skips and
// reports it.
type eventReader struct {
	paths []string     // of the files that were not opened yet
	line  bytes.Reader // the current event
}

// newEventReader returns the reader of a directory.
func newEventReader(dir string) *eventReader {
	r := new(eventReader)
	entries, _ := os.ReadDir(dir) // sorted by name
	for _, entry := range entries {
		if eventName.MatchString(entry.Name()) {
			r.paths = append(r.paths, filepath.Join(dir, entry.Name()))
		}
	}
	return r
}

// Read implements io.Reader.
func (r *eventReader) Read(p []byte) (int, error) {
	for r.line.Len() == 0 && len(r.paths) > 0 {
		r.line.Reset(readEvent(r.paths[0]))
		r.paths = r.paths[1:]
	}
	return r.line.Read(p)
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
