package runs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/spans"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/playbook"
)

// fileReader reads one file.
type fileReader struct {
	book      playbook.Book
	outcomes  *Outcomes
	leading   string               // see Reader.LeadingScore
	known     func(events.ID) bool // nil knows none
	seen      *recordedRuns        // nil keeps none
	base      string               // see source.BaseName
	limit     int                  // maxRun, or less in tests
	fn        func(*events.Execution) error
	openRuns  []*openRun     // in the order of their first parts
	partCount int            // number of parts read so far
	header    modelapi.Value // the members of the current container in front of its list
	doc       modelapi.Document
	sessions  map[*format]func(modelapi.Value) string
	futile    futile
	leftOut   bool // a run was left out as known: the file is not one without runs
	report    Report
}

// Limits of the data in a row without a run or a part of one, relative to the maximum size of a run. Beyond them the rest of the
// file is not read. Such a file is endless, a compression bomb, or not a recording. The limits are 1 GB and a million lines.
const (
	futileRuns         = 64 // bytes = futileRuns × the maximum size of a run
	bytesPerUnreadable = 16 // unreadable lines or elements = the maximum size of a run / bytesPerUnreadable
)

// futile counts the data since the last run or part of a run.
type futile struct{ bytes, problems int }

// boundedReader ends reading after too much futile data.
type boundedReader struct {
	io.Reader
	f *fileReader
}

// Read implements io.Reader.
func (r *boundedReader) Read(p []byte) (int, error) {
	since := &r.f.futile
	switch {
	case since.problems > r.f.limit/bytesPerUnreadable:
		return 0, fmt.Errorf("%d unreadable lines or elements in a row, the rest was not read", since.problems)
	case since.bytes > r.f.limit*futileRuns:
		return 0, fmt.Errorf("no run in %d MB in a row, the rest was not read", since.bytes>>20)
	}
	n, err := r.Reader.Read(p)
	since.bytes += n
	return n, err
}

func (f *fileReader) addProblem(at Problem, err error) {
	if nothing, ok := errors.AsType[*spans.NothingError](err); ok {
		f.omit(source.Omissions{nothing.Kind: nothing.Count})
		f.leftOut = f.leftOut || nothing.Kind == source.HarnessMessages
		return
	}
	f.report.Skipped++
	f.futile.problems++
	if at.Reason = err.Error(); len(f.report.Problems) < maxProblems {
		f.report.Problems = append(f.report.Problems, at)
	}
}

func (f *fileReader) addRepair(at Problem, what string) {
	f.report.Repaired++
	if at.Reason = what; len(f.report.Repairs) < maxProblems {
		f.report.Repairs = append(f.report.Repairs, at)
	}
}

// omit adds to the omissions of the report.
func (f *fileReader) omit(counts source.Omissions) {
	if f.report.Omitted == nil {
		f.report.Omitted = source.Omissions{}
	}
	f.report.Omitted.Merge(counts)
}

// readFile reads a file in any supported compression and encoding.
func (f *fileReader) readFile(ctx context.Context, r io.Reader) error {
	omitted := source.Omissions{}
	text, closeText, err := source.Open(ctx, r, omitted)
	if err != nil {
		return err
	}
	defer closeText()
	err = f.read(ctx, &boundedReader{text, f})
	if len(omitted) > 0 {
		f.omit(omitted)
	}
	return err
}

// read reads a text. The runs before an error are delivered.
func (f *fileReader) read(ctx context.Context, r io.Reader) error {
	values := source.NewValues(r, f.limit)
	values.IsList, values.Columns = f.isList, [][]string{steps.QuestionNames, steps.AnswerNames}
	isEmpty := true
	err := values.Each(func(v *source.Value) error {
		isEmpty = false
		if !v.InList {
			f.header = modelapi.Value{}
		}
		if v.Repair != "" {
			f.addRepair(v.At, v.Repair)
		}
		if err := f.addObject(v); err != nil {
			return err
		}
		if isLine := v.At.Line > 0 && !v.IsRow; isLine && f.report.Source == "" && f.report.Skipped >= maxProblems {
			return fmt.Errorf("no known format (%s), the rest was not read: %w", f.report.Problems[0], ErrFormat)
		}
		return ctx.Err()
	})
	for len(f.openRuns) > 0 {
		if end := f.endRun(0); end != nil {
			return end
		}
	}
	switch {
	case err != nil:
		return err
	case isEmpty:
		return fmt.Errorf("the file is empty: %w", ErrFormat)
	case f.report.Runs > 0, f.leftOut && f.report.Skipped == 0:
		return nil
	case len(f.report.Problems) > 0:
		return fmt.Errorf("no run can be read (%s): %w", f.report.Problems[0], ErrFormat)
	}
	return fmt.Errorf("no run found: %w", ErrFormat)
}

// containers lists the fields that hold a list of runs or of parts of runs. An object with such a list is read element by
// element, so that it can have any size. If the value is true, the other fields of the object must match no format.
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

// isList reports whether a list in an object holds runs, and keeps the members before it. A list inside a run does not.
func (f *fileReader) isList(name string, header []byte) bool {
	strict, known := containers[name]
	if !known {
		return false
	}
	v := modelapi.ParseValue(header)
	if strict && (matchFormat(v) != nil || v.HasAny(steps.QuestionNames...)) {
		return false
	}
	f.header = v
	return true
}

// addObject adds an object, which is a run, a part of a run, or several of them. If it is invalid, addObject reports a problem. A
// returned error ends the reading.
func (f *fileReader) addObject(o *source.Value) error {
	v, known, err := f.parse(o)
	switch {
	case err != nil:
		f.addProblem(o.At, err)
		return nil
	case known == nil:
		f.omit(source.Omissions{source.LogEvents: 1})
		return nil
	case f.report.Source == "":
		f.report.Source = known.source
	}
	switch {
	case known.split != nil:
		var parts [][]byte
		parts, err = known.split(v)
		for _, raw := range parts {
			if end := f.addObject(&source.Value{Raw: raw, At: o.At}); end != nil {
				return end
			}
		}
	case known.newBuilder != nil:
		return f.addPart(known, v, o.At)
	default:
		var runs []*steps.Run
		runs, err = known.parse(&record{Value: v, header: f.header, leading: f.leading})
		if problem := v.Problem(); problem != nil {
			runs, err = nil, problem
		}
		if end := f.emitAll(known, runs, o.At); end != nil {
			return end
		}
	}
	if err != nil {
		f.addProblem(o.At, err)
	}
	return nil
}

// parse returns an object and its format, which is nil for an event that is not a turn.
func (f *fileReader) parse(o *source.Value) (modelapi.Value, *format, error) {
	if o.Err != nil {
		return modelapi.Value{}, nil, o.Err
	}
	v, err := f.doc.Parse(o.Raw)
	if err != nil {
		v, err = f.doc.Parse(source.WithoutNaN(o.Raw))
	}
	if err != nil || o.IsRow {
		return v, answerFormat, err
	}
	known, err := findFormat(v)
	return v, known, err
}

// emitAll delivers runs. A returned error ends the reading.
func (f *fileReader) emitAll(known *format, runs []*steps.Run, at Problem) error {
	for _, r := range runs {
		problem, end := f.emit(known, r, at)
		if end != nil {
			return end
		}
		if problem != nil {
			f.addProblem(at, problem)
		}
	}
	return nil
}

// emit sets the ids of a run and calls fn. The error problem reports an invalid run; the error end is that of fn.
func (f *fileReader) emit(known *format, r *steps.Run, at Problem) (problem, end error) {
	e := &r.Execution
	e.Book = f.book
	chain := stepChain(e, r.IDs)
	switch {
	case r.HasRunID:
	case chain != nil:
		if e.RunID = chain.runID(known, len(chain)-1); f.leaveOut(known, r, chain) {
			return nil, nil
		}
	default:
		id, tail := known.source, contentSum(e)
		if r.Name != "" {
			id += "/" + r.Name
		}
		e.RunID = source.Shorten(id, 256-1-len(tail)) + "/" + tail
	}
	if r.Task != "" {
		e.Origin.Task = source.Shorten(known.source+"/"+r.Task, 256)
	}
	e.Session = source.Shorten(e.Session, 256)
	e.ID = events.ExecutionID(f.book, "", e.RunID, e.Origin.Round)
	e.Origin.Source = SourceFile + "/" + known.source
	e.Origin.Index = max(at.Index, at.Line)
	if f.outcomes != nil {
		file := ""
		if known.byFile && r.Name == "" {
			file = f.base
		}
		f.outcomes.apply(e, file, r.Name)
	}
	if err := e.Validate(); err != nil {
		return errors.New(strings.ReplaceAll(err.Error(), "\n", "; ")), nil
	}
	if err := f.fn(e); err != nil {
		return nil, err
	}
	f.seen.add(chain)
	f.futile = futile{}
	f.report.Runs++
	if len(r.Omitted) > 0 {
		f.omit(r.Omitted)
	}
	return nil, nil
}

// contentSum returns the hash of the texts and calls of a run. A copy in another file, or with other white space or fields, has the same one.
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
