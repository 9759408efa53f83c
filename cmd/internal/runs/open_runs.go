package runs

import (
	"fmt"
	"slices"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
)

// openRun is a run that has not ended yet.
type openRun struct {
	format  *fileFormat
	session string
	builder runBuilder   // nil once the run is too large
	size    int          // estimated memory in bytes
	last    int          // the value of fileReader.partCount at its last part
	start   source.Place // of its first part
}

// isEmpty reports whether the run has no message yet. It returns false if the builder has no method IsEmpty.
func (run *openRun) isEmpty() bool {
	c, ok := run.builder.(interface{ IsEmpty() bool })
	return ok && c.IsEmpty()
}

// partCost is the estimated memory of a part in addition to its bytes.
const partCost = 256

// addPart adds a part to its run, or begins a run with it. It delivers the run if this is its last part. It ends and delivers other runs if the
// open runs need too much memory.
func (f *fileReader) addPart(format *fileFormat, v modelapi.Value, at source.Place) error {
	run, err := f.runOf(format, v, at)
	if err != nil {
		return err
	}
	f.partCount++
	run.last = f.partCount
	run.size += len(v.Raw()) + partCost
	if run.size > f.limit {
		run.builder = nil
	}
	if run.builder != nil {
		if format.check != nil {
			format.check(v)
		}
		if err := v.Problem(); err != nil {
			f.addProblem(at, err)
		} else {
			run.builder.Add(v, f.LeadingScore)
			f.unused = unusedData{} // the limit is for the data since the last useful part
		}
	}
	freesMemory := func(other *openRun) bool { return other != run && other.builder != nil }
	for f.bufferedBytes() > f.limit+f.limit/2 { // then another run has memory: this one has at most f.limit
		if err := f.endRun(f.leastRecent(freesMemory)); err != nil {
			return err
		}
	}
	if format.isLast != nil && format.isLast(v) {
		return f.endRun(slices.Index(f.openRuns, run))
	}
	return nil
}

// runOf returns the open run of a part. If there is none, it begins a run. It ends and delivers the run that the part does not continue, and the
// least recent one if there are maxOpen.
func (f *fileReader) runOf(format *fileFormat, v modelapi.Value, at source.Place) (*openRun, error) {
	session := "" // also of a format without ids of runs
	if format.session != nil {
		session = format.session(v, f.chains)
	}
	i := slices.IndexFunc(f.openRuns, func(run *openRun) bool { return run.format == format && run.session == session })
	if i >= 0 {
		run := f.openRuns[i]
		isFirst := format.isFirst != nil && format.isFirst(v)
		if !isFirst || run.isEmpty() { // a forked session has two first parts in a row: its own, and that of the other session
			return run, nil
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
	run := &openRun{format: format, session: session, builder: format.newBuilder(), start: at}
	f.openRuns = append(f.openRuns, run)
	return run, nil
}

// bufferedBytes returns the estimated memory of all open runs.
func (f *fileReader) bufferedBytes() (size int) {
	for _, run := range f.openRuns {
		if run.builder != nil {
			size += run.size
		}
	}
	return size
}

// leastRecent returns the index of the run that has had no part for longest, among those that match. It returns -1 if none matches.
func (f *fileReader) leastRecent(matches func(*openRun) bool) int {
	oldest := -1
	for i, run := range f.openRuns {
		if !matches(run) {
			continue
		}
		if oldest < 0 || run.last < f.openRuns[oldest].last {
			oldest = i
		}
	}
	return oldest
}

// endRun ends and delivers the i-th open run.
func (f *fileReader) endRun(i int) error {
	run := f.openRuns[i]
	f.openRuns = slices.Delete(f.openRuns, i, i+1)
	if run.builder == nil {
		f.addProblem(run.start, fmt.Errorf("the run that starts here is %w: %d bytes, limit %d", source.ErrTooLarge, run.size, f.limit))
		return nil
	}
	runs, err := run.builder.End()
	if err != nil {
		f.addProblem(run.start, err)
		return nil
	}
	return f.emitAll(run.format, runs, run.start)
}
