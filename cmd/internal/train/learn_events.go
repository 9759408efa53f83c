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

// newEventReader returns a reader of the events of a directory, each as a line. An unreadable file becomes an invalid line, so that it
// costs only itself.
func newEventReader(dir string) io.Reader {
	var events []io.Reader
	entries, _ := os.ReadDir(dir) // sorted by name
	for _, entry := range entries {
		if eventName.MatchString(entry.Name()) {
			events = append(events, &eventFile{path: filepath.Join(dir, entry.Name())})
		}
	}
	return io.MultiReader(events...)
}

// eventFile reads the event in a file as a line. It reads the file when it is needed.
type eventFile struct {
	path string
	line *bytes.Reader
}

// Read implements io.Reader.
func (e *eventFile) Read(p []byte) (int, error) {
	if e.line == nil {
		e.line = bytes.NewReader(readEvent(e.path))
	}
	return e.line.Read(p)
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
