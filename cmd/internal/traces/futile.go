package traces

import (
	"fmt"
	"io"
)

// Limits of the data in a row without a run or a part of one, relative to the maximum size of a run. Beyond them the rest of the
// file is not read. Such a file is endless, a compression bomb, or not a recording. The limits are 1 GB and a million lines.
const (
	futileRuns         = 64 // bytes = futileRuns × the maximum size of a run
	bytesPerUnreadable = 16 // unreadable lines or elements = the maximum size of a run / bytesPerUnreadable
)

// futile counts the data since the last run or part of a run.
type futile struct{ bytes, problems int }

// futileReader ends reading after too much futile data.
type futileReader struct {
	io.Reader
	since *futile
	limit int // maximum size of a run
}

// Read implements io.Reader.
func (r *futileReader) Read(p []byte) (int, error) {
	switch {
	case r.since.problems > r.limit/bytesPerUnreadable:
		return 0, fmt.Errorf("%d unreadable lines or elements in a row, the rest was not read", r.since.problems)
	case r.since.bytes > r.limit*futileRuns:
		return 0, fmt.Errorf("no run in %d MB in a row, the rest was not read", r.since.bytes>>20)
	}
	n, err := r.Reader.Read(p)
	r.since.bytes += n
	return n, err
}
