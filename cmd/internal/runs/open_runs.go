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

// isEmpty reports whether the run has no message yet: the headers of a fork and of the session it was forked from stand at its begin.
func (u *openRun) isEmpty() bool {
	c, ok := u.builder.(interface{ IsEmpty() bool })
	return ok && c.IsEmpty()
}

// partCost is the estimated memory of a part in addition to its bytes.
const partCost = 256

// addPart adds a part to its run. It delivers the run if this is the last part. It ends other runs to keep the limits of
// open runs and memory.
func (f *fileReader) addPart(known *format, v modelapi.Value, at Problem) error {
	session := f.sessionOf(known, v)
	i := slices.IndexFunc(f.openRuns, func(u *openRun) bool { return u.format == known && u.session == session })
	if i >= 0 && known.isFirst != nil && known.isFirst(v) && !f.openRuns[i].isEmpty() {
		if err := f.endRun(i); err != nil {
			return err
		}
		i = -1
	}
	if i < 0 {
		if len(f.openRuns) == maxOpen {
			if err := f.endRun(f.leastRecent(nil)); err != nil {
				return err
			}
		}
		f.openRuns = append(f.openRuns, &openRun{format: known, session: session, builder: known.newBuilder(), start: at})
		i = len(f.openRuns) - 1
	}
	u := f.openRuns[i]
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
			u.builder.Add(v, f.leading)
			f.futile = futile{}
		}
	}
	for f.bufferedBytes() > f.limit+f.limit/2 {
		if err := f.endRun(f.leastRecent(u)); err != nil {
			return err
		}
	}
	if known.isLast != nil && known.isLast(v) {
		return f.endRun(slices.Index(f.openRuns, u))
	}
	return nil
}

// sessionOf returns the id of the run to which a part belongs.
func (f *fileReader) sessionOf(known *format, v modelapi.Value) string {
	switch {
	case known.session != nil:
		return known.session(v)
	case known.sessions == nil:
		return ""
	case f.sessions[known] == nil:
		f.sessions = map[*format]func(modelapi.Value) string{known: known.sessions()}
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

// leastRecent returns the index of the run that has had no part for longest. If except is not nil, it ignores that run and
// runs without a builder, which hold no memory.
func (f *fileReader) leastRecent(except *openRun) int {
	oldest := -1
	for i, u := range f.openRuns {
		if u != except && (u.builder != nil || except == nil) && (oldest < 0 || u.last < f.openRuns[oldest].last) {
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
