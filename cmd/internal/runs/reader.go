package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
)

// fileReader reads one file.
type fileReader struct {
	*Reader
	base  string                        // see source.BaseName
	limit int                           // maxRun, or less in tests
	fn    func(*events.Execution) error // of Read

	doc       modelapi.Document // the current object
	header    modelapi.Value    // the members of the current container in front of its list
	openRuns  []*openRun        // in the order of their first parts
	partCount int               // number of parts read so far
	chains    agentChains       // of the events of the file
	unused    unusedData
	leftOut   bool // a run was read and left out: it is known, or it is not a task
	report    Report
}

// unusedData counts the data since the last run or part of a run.
type unusedData struct{ bytes, problems int }

// Limits of the unused data, relative to the maximum size of a run: for maxRun they are 1 GB and a million lines. A file beyond them is
// endless, a compression bomb, or not a recording: its rest is not read.
const (
	unusedRuns         = 64 // maximum number of unused bytes, as a multiple of the maximum size of a run
	bytesPerUnreadable = 16 // the maximum size of a run, divided by the maximum number of unreadable lines or elements
)

// boundedReader returns an error after too much unused data.
type boundedReader struct {
	io.Reader
	f *fileReader
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	unused := &r.f.unused
	switch {
	case unused.problems > r.f.limit/bytesPerUnreadable:
		return 0, fmt.Errorf("%d unreadable lines or elements in a row, the rest was not read", unused.problems)
	case unused.bytes > r.f.limit*unusedRuns:
		return 0, fmt.Errorf("no run in %d MB in a row, the rest was not read", unused.bytes>>20)
	}
	n, err := r.Reader.Read(p)
	unused.bytes += n
	return n, err
}

// addProblem adds a problem to the report. A part of a recording without a run does not count.
func (f *fileReader) addProblem(at source.Place, err error) {
	if nothing, ok := errors.AsType[*NothingError](err); ok {
		f.leftOut = f.leftOut || nothing.ofHarness
		return
	}
	f.report.Skipped++
	f.unused.problems++
	if len(f.report.Problems) < maxProblems {
		reason := strings.ReplaceAll(err.Error(), "\n", "; ") // an error may join several
		f.report.Problems = append(f.report.Problems, Problem{Place: at, Reason: reason})
	}
}

// readFile reads a file in any supported compression and encoding.
func (f *fileReader) readFile(ctx context.Context, r io.Reader) error {
	text, closeText, err := source.Open(ctx, r)
	if err != nil {
		return err
	}
	defer closeText()
	return f.read(ctx, &boundedReader{text, f})
}

// read reads a text. If it returns an error, it has delivered the runs before the error.
func (f *fileReader) read(ctx context.Context, r io.Reader) error {
	f.chains = agentChains{}
	values := source.NewValues(r, f.limit)
	values.IsList, values.Columns = f.isList, [][]string{steps.QuestionNames, steps.AnswerNames}
	isEmpty := true
	readErr := values.Each(func(v *source.Value) error {
		isEmpty = false
		if err := f.addValue(v); err != nil {
			return err
		}
		return ctx.Err()
	})
	for len(f.openRuns) > 0 {
		if err := f.endRun(0); err != nil {
			return err
		}
	}
	switch {
	case readErr != nil:
		return readErr
	case isEmpty:
		return fmt.Errorf("the file is empty: %w", ErrFormat)
	case f.report.Runs > 0:
		return nil
	case f.leftOut && f.report.Skipped == 0: // the file has runs, and none of them is new
		return nil
	case len(f.report.Problems) > 0:
		return fmt.Errorf("no run can be read (%s): %w", f.report.Problems[0], ErrFormat)
	}
	return fmt.Errorf("no run found: %w", ErrFormat)
}

// addValue adds a value of the file. A returned error ends the reading.
func (f *fileReader) addValue(v *source.Value) error {
	if !v.InList {
		f.header = modelapi.Value{}
	}
	f.report.Invalid += v.Invalid
	if err := f.addObject(v); err != nil {
		return err
	}
	isLine := v.At.Line > 0 && !v.IsRow
	hasNoFormat := f.report.Source == "" && f.report.Skipped >= maxProblems
	if isLine && hasNoFormat {
		return fmt.Errorf("no known format (%s), the rest was not read: %w", f.report.Problems[0], ErrFormat)
	}
	return nil
}

// containers lists the fields that hold a list of runs or of parts of runs. An object with such a list is read element by
// element, so that it can have any size. The value is true if a run can also have a list with this name: then the object is a container only
// if the fields before the list match no format and have no question.
var containers = map[string]bool{
	"simulations":   false, // tau2
	"resourceSpans": false, // OTLP
	"samples":       true,  // Inspect
	"data":          true,  // pages of the Langfuse and LangSmith APIs
	"items":         true,
	"runs":          true,
	"traces":        true,
	"spans":         true,
}

// isList reports whether an object with a list is a container, see source.Values.IsList. If so, isList keeps the members before the list.
func (f *fileReader) isList(name string, header []byte) bool {
	mayBeRun, ok := containers[name]
	if !ok {
		return false
	}
	v := modelapi.ParseValue(header)
	if mayBeRun && (matchFormat(v) != nil || v.HasAny(steps.QuestionNames...)) {
		return false
	}
	f.header = v
	return true
}

// addObject adds an object, which is a run, a part of a run, or several of them. If it is invalid, addObject reports a problem. A
// returned error ends the reading.
func (f *fileReader) addObject(o *source.Value) error {
	v, format, err := f.parse(o)
	switch {
	case err != nil:
		f.addProblem(o.At, err)
		return nil
	case format == nil:
		return nil
	}
	f.report.Source = cmp.Or(f.report.Source, format.source)
	switch {
	case format.newBuilder != nil:
		return f.addPart(format, v, o.At)
	case format.split != nil:
		parts, err := format.split(v)
		for _, raw := range parts {
			if err := f.addObject(&source.Value{Raw: raw, At: o.At}); err != nil {
				return err
			}
		}
		if err != nil {
			f.addProblem(o.At, err)
		}
		return nil
	}
	runs, err := format.parse(&record{Value: v, header: f.header, leadingScore: f.LeadingScore})
	if problem := v.Problem(); problem != nil { // the object is damaged: its runs are not complete
		runs, err = nil, problem
	}
	if err != nil {
		f.addProblem(o.At, err)
	}
	return f.emitAll(format, runs, o.At)
}

// parse returns an object and its format, which is nil for an event that is not a turn.
func (f *fileReader) parse(o *source.Value) (modelapi.Value, *fileFormat, error) {
	if o.Err != nil {
		return modelapi.Value{}, nil, o.Err
	}
	v, err := f.doc.Parse(o.Raw)
	if err != nil {
		v, err = f.doc.Parse(source.WithoutNaN(o.Raw))
	}
	if err != nil {
		return v, nil, err
	}
	if o.IsRow {
		return v, answerFormat, nil
	}
	format, err := findFormat(v)
	return v, format, err
}

// emitAll delivers runs. A returned error ends the reading.
func (f *fileReader) emitAll(format *fileFormat, runs []*steps.Run, at source.Place) error {
	for _, r := range runs {
		if err := f.emit(format, r, at); err != nil {
			return err
		}
	}
	return nil
}

// emit completes a run and calls fn with it. It leaves out what other recordings have already. An invalid run is a problem. A returned error
// is that of fn.
func (f *fileReader) emit(format *fileFormat, r *steps.Run, at source.Place) error {
	e := &r.Execution
	e.Book = f.Book
	chain := newPrefixChain(e, r.IDs)
	switch {
	case r.HasRunID:
	case chain != nil:
		e.RunID = chain.runID(format, len(chain)-1)
		if f.leaveOut(format, r, chain) {
			return nil
		}
	default:
		id, sum := format.source, contentSum(e)
		if r.Name != "" {
			id += "/" + r.Name
		}
		e.RunID = source.Shorten(id, source.MaxID-len("/")-len(sum)) + "/" + sum
	}
	if r.Task != "" {
		e.Origin.Task = format.source + "/" + r.Task
	}
	e.Origin.Task = events.FitName(e.Origin.Task)
	e.Session, e.User = events.FitName(e.Session), events.FitName(e.User)
	e.ID = events.ExecutionID(f.Book, "", e.RunID, e.Origin.Round)
	e.Origin.Source = SourceFile + "/" + format.source
	e.Origin.Index = max(at.Index, at.Line)
	if f.Outcomes != nil {
		file := ""
		if format.byFile && r.Name == "" {
			file = f.base
		}
		f.Outcomes.apply(e, file, r.Name)
	}
	if err := e.Validate(); err != nil {
		f.addProblem(at, err)
		return nil
	}
	if err := f.fn(e); err != nil {
		return err
	}
	f.seen.add(chain)
	f.unused = unusedData{}
	f.report.Runs++
	f.report.Invalid += r.Invalid
	return nil
}

// contentSum returns the hash of the texts and calls of a run. It is the same for a copy in another file, and for one whose JSON has
// other white space or further fields.
func contentSum(e *events.Execution) string {
	h := sha256.New()
	writeParts(h, e.Question, e.Context, e.Session, e.Answer)
	for i := range e.Steps {
		step := &e.Steps[i]
		writeParts(h, "step", step.Speaker, step.Text)
		for j := range step.Calls {
			c := &step.Calls[j]
			writeParts(h, "call", c.Tool, c.Arguments, c.Output)
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}
