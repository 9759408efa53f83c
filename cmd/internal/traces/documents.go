package traces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
)

// readFile reads a file in any supported compression and encoding.
func (f *fileReader) readFile(ctx context.Context, r io.Reader) error {
	omitted := source.Omissions{}
	text, closeText, err := source.Open(ctx, r, omitted)
	if err != nil {
		return err
	}
	defer closeText()
	err = f.read(ctx, &futileReader{text, &f.since, f.limit})
	if len(omitted) > 0 {
		f.omit(omitted)
	}
	return err
}

// read reads a text, which may consist of several documents. The runs before an error are delivered.
func (f *fileReader) read(ctx context.Context, r io.Reader) error {
	l := source.NewLines(r, f.limit)
	first, err := l.Peek()
	if err == io.EOF {
		return fmt.Errorf("file is empty: %w", ErrFormat)
	}
	for ; err == nil; first, err = l.Peek() {
		if err = f.readDocument(ctx, l, first); err != nil {
			break
		}
	}
	if err == io.EOF {
		err = nil
	}
	if end := f.endAllRuns(); end != nil {
		return end
	}
	if err != nil {
		return err
	}
	return f.checkRuns()
}

// readDocument reads the next list, object over several lines, or sequence of lines. First is its first byte.
func (f *fileReader) readDocument(ctx context.Context, l *source.Lines, first byte) error {
	switch first {
	case '[':
		if err := f.readList(ctx, l.Scanner()); err != nil {
			return err
		}
		return l.NextDocument()
	case '{':
		header, s, err := l.OpenContainer(isRun)
		if err == nil {
			return f.readContainer(ctx, l, header, s)
		}
	}
	line, err := l.Next()
	if err == nil && source.IsPartialObject(line) {
		return f.readObject(ctx, l, l.Unread(line))
	}
	if err == nil && f.report.Runs+f.report.Skipped == 0 && len(f.openRuns) == 0 {
		if t := newTable(line); t != nil {
			return f.readTable(ctx, l, t)
		}
	}
	return f.readLines(ctx, l, line, err)
}

// readContainer reads the runs in a list inside an object. See source.Lines.OpenContainer.
func (f *fileReader) readContainer(ctx context.Context, l *source.Lines, header *source.Object, s *source.Scanner) error {
	f.header = header
	defer func() { f.header = nil }()
	if err := f.readList(ctx, s); err != nil {
		return err
	}
	if err := s.Footer(f.limit); err != nil {
		return err
	}
	return l.NextDocument()
}

// readObject reads an object over several lines: a run, or a part of one. Its first line is the current line of l.
func (f *fileReader) readObject(ctx context.Context, l *source.Lines, s *source.Scanner) error {
	at := position{Line: l.N}
	raw, err := s.Value(f.limit)
	if err != nil && !errors.Is(err, source.ErrTooLarge) {
		return err
	}
	l.N += bytes.Count(raw, []byte("\n")) // raw has no line break after the first line, which was read before
	if err := f.addObject(raw, err, at); err != nil {
		return fmt.Errorf("%s: %w", at.Where(), err)
	}
	return errors.Join(ctx.Err(), l.NextDocument())
}

// readList reads a JSON list. The scanner is at its opening bracket.
func (f *fileReader) readList(ctx context.Context, s *source.Scanner) error {
	s.Skip() // the bracket
	i := 0
	for ; ; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		more, err := s.HasNext(i == 0)
		if err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if !more {
			break
		}
		raw, err := s.Value(f.limit)
		if err != nil && !errors.Is(err, source.ErrTooLarge) {
			return fmt.Errorf("element %d: %w", i, err)
		}
		if err := f.addObject(raw, err, position{Index: i}); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	if i == 0 && f.report.Runs+f.report.Skipped == 0 {
		return fmt.Errorf("the list is empty: %w", ErrFormat)
	}
	return nil
}

// readLines reads JSON Lines. The arguments line and err are the result of reading the first line.
func (f *fileReader) readLines(ctx context.Context, l *source.Lines, line []byte, err error) error {
	for ; err != io.EOF; line, err = l.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err != nil && !errors.Is(err, source.ErrTooLarge) {
			return err
		}
		if err == nil && len(line) == 0 {
			continue
		}
		if err := f.addLine(line, err, position{Line: l.N}); err != nil {
			return fmt.Errorf("line %d: %w", l.N, err)
		}
		if f.report.Source == "" && f.report.Skipped >= maxProblems {
			return fmt.Errorf("no known format in %d lines (%s), the rest was not read: %w", l.N, f.report.Problems[0], ErrFormat)
		}
	}
	return nil
}

// addLine adds the objects of a line. It repairs a line with other bytes before its object, and a line with several objects.
func (f *fileReader) addLine(line []byte, err error, at position) error {
	if err != nil {
		return f.addObject(nil, err, at)
	}
	if clean := source.TrimJunk(line); clean != nil {
		junk := line[:len(line)-len(clean)]
		f.addRepair(at, fmt.Sprintf("was read without the %d bytes before its first brace: %.40q", len(junk), junk))
		line = clean
	}
	several := source.SplitObjects(line)
	if names := source.ColumnNames(line); at.Line == 1 && names != "" {
		return f.addObject(nil, fmt.Errorf("unknown format: a table needs columns for question and answer, found %s", names), at)
	}
	if several == nil {
		return f.addObject(line, nil, at)
	}
	f.addRepair(at, fmt.Sprintf("was read as %d objects: a line break is missing", len(several)))
	for _, raw := range several {
		if err := f.addObject(raw, nil, at); err != nil {
			return err
		}
	}
	return nil
}

// checkRuns returns an error if the file had no run, not even one that is left out.
func (f *fileReader) checkRuns() error {
	switch {
	case f.report.Runs > 0, f.leftOut && f.report.Skipped == 0:
		return nil
	case len(f.report.Problems) > 0:
		return fmt.Errorf("no run can be read (%s): %w", f.report.Problems[0], ErrFormat)
	}
	return fmt.Errorf("no run found: %w", ErrFormat)
}

// addObject adds an object, which is a run, a part of a run, or several of them. The argument err is the result of reading
// its bytes. If the object is invalid, addObject reports a problem. A returned error ends the reading.
func (f *fileReader) addObject(raw []byte, err error, at position) error {
	var o *source.Object
	var format *format
	if err == nil {
		o, format, err = detectFormat(raw)
	}
	if err == nil && format == nil {
		f.omit(source.Omissions{source.LogEvents: 1})
		return nil
	}
	if err == nil {
		var end error
		if err, end = f.addKnown(o, format, at); end != nil {
			return end
		}
	}
	if err != nil {
		f.addProblem(at, err)
	}
	return nil
}

// addKnown adds an object of a known format. The error problem reports an invalid object; the error end ends the reading.
func (f *fileReader) addKnown(o *source.Object, format *format, at position) (problem, end error) {
	if f.report.Source == "" {
		f.report.Source = format.source
	}
	o.Header = f.header
	if format.lazy && !source.Valid(o.Raw) {
		if err := source.Decode(o.Raw, &struct{}{}); err != nil {
			return err, nil
		}
	}
	switch {
	case format.split != nil:
		return f.addSplit(o, format, at)
	case format.parse == nil:
		return nil, f.addPart(format, o, at)
	}
	runs, err := format.parse(o)
	if err != nil {
		return err, nil
	}
	sum := source.Digest(o.Raw)
	var problems []error
	for _, r := range runs {
		problem, end := f.emit(format, r, sum, at)
		if end != nil {
			return nil, end
		}
		problems = append(problems, problem)
	}
	return errors.Join(problems...), nil
}

// addSplit adds the objects inside an object.
func (f *fileReader) addSplit(o *source.Object, format *format, at position) (problem, end error) {
	parts, err := format.split(o)
	if err != nil {
		return err, nil
	}
	for _, raw := range parts {
		if err := f.addObject(raw, nil, at); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// omit adds to the omissions of the report.
func (f *fileReader) omit(counts source.Omissions) {
	if f.report.Omitted == nil {
		f.report.Omitted = source.Omissions{}
	}
	f.report.Omitted.Merge(counts)
}

// isRun reports whether the fields so far are those of a run, so that a list in it is a part of the run.
func isRun(o *source.Object) bool {
	return matchFormat(o) != nil || o.HasAny(steps.QuestionNames...)
}
