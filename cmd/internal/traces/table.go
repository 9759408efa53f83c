package traces

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/cmd/internal/traces/steps"
)

// newTable returns a table if the line is a header with columns for a question and an answer, else nil.
func newTable(header []byte) *source.Table {
	return source.FindTable(header, steps.QuestionNames, steps.AnswerNames)
}

// readTable reads a CSV file of questions and answers.
func (f *fileReader) readTable(ctx context.Context, l *source.Lines, t *source.Table) error {
	l.KeepSpace = true
	f.report.Source = sourceQA
	format := &format{source: sourceQA}
	for {
		record, line, err := t.Next(l)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == io.EOF:
			return nil
		case errors.Is(err, source.ErrRecord):
			f.addProblem(position{Line: line}, err)
			continue
		case err != nil:
			return err
		}
		at := position{Line: line}
		r, err := tableRow(t, record).run()
		if err != nil {
			f.addProblem(at, err)
			continue
		}
		sum := sha256.Sum256([]byte(strings.Join(record, "\x00")))
		problem, end := f.emit(format, r, sum[:16], at)
		if end != nil {
			return fmt.Errorf("line %d: %w", line, end)
		}
		if problem != nil {
			f.addProblem(at, problem)
		}
	}
}

// tableRow returns the fields of a record by the names of their columns.
func tableRow(t *source.Table, record []string) *row {
	for i, s := range record {
		record[i] = strings.ToValidUTF8(s, "\uFFFD")
	}
	return &row{
		id: t.Value(record, idNames), question: t.Value(record, steps.QuestionNames), context: t.Value(record, []string{"context"}),
		answer: t.Value(record, steps.AnswerNames), score: t.Value(record, scoreNames), model: t.Value(record, []string{"model"}),
		feedback: t.Value(record, []string{"feedback", "comment"}), hasTarget: t.Value(record, targetNames) != "",
	}
}
