package runs

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
)

// openRun is a run that has not ended yet.
type openRun struct {
	format  *format
	session string
	builder runBuilder // nil once the run is too large
	size    int        // estimated memory in bytes
	last    int        // the value of fileReader.partCount at its last part
	start   Problem
}

// isEmpty reports whether the run has no message yet. A builder without the method IsEmpty is never empty.
func (u *openRun) isEmpty() bool {
	c, ok := u.builder.(interface{ IsEmpty() bool })
	return ok && c.IsEmpty()
}

// partCost is the estimated memory of a part in addition to its bytes.
const partCost = 256

// addPart adds a part to its run, which it begins if necessary. It delivers the run if this is the last part. It ends other runs to keep
// the limits of open runs and memory.
func (f *fileReader) addPart(known *format, v modelapi.Value, at Problem) error {
	u, err := f.runOf(known, v, at)
	if err != nil {
		return err
	}
	f.partCount++
	u.last = f.partCount
	u.size += len(v.Raw()) + partCost
	if u.size > f.limit {
		u.builder = nil
	}
	if u.builder != nil {
		if known.check != nil {
			known.check(v)
		}
		if err := v.Problem(); err != nil {
			f.addProblem(at, err)
		} else {
			u.builder.Add(v, f.LeadingScore)
			f.futile = futile{}
		}
	}
	freesMemory := func(other *openRun) bool { return other != u && other.builder != nil }
	for f.bufferedBytes() > f.limit+f.limit/2 {
		if err := f.endRun(f.leastRecent(freesMemory)); err != nil {
			return err
		}
	}
	if known.isLast != nil && known.isLast(v) {
		return f.endRun(slices.Index(f.openRuns, u))
	}
	return nil
}

// runOf returns the open run of a part. If there is none, it begins a run.
func (f *fileReader) runOf(known *format, v modelapi.Value, at Problem) (*openRun, error) {
	session := f.sessionOf(known, v)
	i := slices.IndexFunc(f.openRuns, func(u *openRun) bool { return u.format == known && u.session == session })
	if i >= 0 {
		u := f.openRuns[i]
		isFirst := known.isFirst != nil && known.isFirst(v)
		if !isFirst || u.isEmpty() { // a forked session begins with several headers: its own, and that of the other session
			return u, nil
		}
		if err := f.endRun(i); err != nil {
			return nil, err
		}
	}
	if len(f.openRuns) == maxOpen {
		isAny := func(*openRun) bool { return true }
		if err := f.endRun(f.leastRecent(isAny)); err != nil {
			return nil, err
		}
	}
	u := &openRun{format: known, session: session, builder: known.newBuilder(), start: at}
	f.openRuns = append(f.openRuns, u)
	return u, nil
}

// sessionOf returns the id of the run to which a part belongs, or "" if the format has no such ids.
func (f *fileReader) sessionOf(known *format, v modelapi.Value) string {
	if known.session != nil {
		return known.session(v)
	}
	if known.sessions == nil {
		return ""
	}
	if f.sessions == nil {
		f.sessions = map[*format]func(modelapi.Value) string{}
	}
	if f.sessions[known] == nil {
		f.sessions[known] = known.sessions()
	}
	return f.sessions[known](v)
}

// bufferedBytes returns the estimated memory of all open runs.
func (f *fileReader) bufferedBytes() (size int) {
	for _, u := range f.openRuns {
		if u.builder != nil {
			size += u.size
		}
	}
	return size
}

// leastRecent returns the index of the run that has had no part for longest, among those that match. It returns -1 if none matches.
func (f *fileReader) leastRecent(matches func(*openRun) bool) int {
	oldest := -1
	for i, u := range f.openRuns {
		if !matches(u) {
			continue
		}
		if oldest < 0 || u.last < f.openRuns[oldest].last {
			oldest = i
		}
	}
	return oldest
}

// endRun ends and delivers the i-th open run.
func (f *fileReader) endRun(i int) error {
	u := f.openRuns[i]
	f.openRuns = slices.Delete(f.openRuns, i, i+1)
	if u.builder == nil {
		f.addProblem(u.start, fmt.Errorf("the run that starts here is %w: %d bytes, limit %d", source.ErrTooLarge, u.size, f.limit))
		return nil
	}
	runs, err := u.builder.End()
	if err != nil {
		f.addProblem(u.start, err)
		return nil
	}
	return f.emitAll(u.format, runs, u.start)
}
