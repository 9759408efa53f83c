package traces

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/traces/source"
	"debrief/events"
	"debrief/events/outcome"
)

// maxOutcomes is the maximum number of outcomes in a file.
const maxOutcomes = 2_000_000

// Outcomes holds the outcomes of runs by the id of the run. It is not safe for concurrent use.
type Outcomes struct {
	byID map[string]recordedResult
	// Applied counts the runs that received an outcome, and Kept the runs that were recorded with one, which is not replaced.
	Applied, Kept int
	// Examples are the ids of the first runs in the files, to show how ids look.
	Examples []string
}

type recordedResult struct {
	events.Outcome
	used bool
}

// outcomeIDs are the names of the field and the column with the id of a run.
var outcomeIDs = []string{"id", "run_id", "run", "task_id", "trace_id", "session_id", "instance_id", "name"}

// ReadOutcomes reads the outcomes of runs. The file is a table with the columns id and score, or JSON: objects with the fields
// id and score, one per line or in a list; one object with the ids as fields; or a report of SWE-bench with the fields
// resolved_ids and unresolved_ids. A score is a number from 0 to 1, a label, or true or false. A line without a valid id and
// score is an error.
func ReadOutcomes(ctx context.Context, name string, r io.Reader) (*Outcomes, error) {
	text, closeText, err := source.Open(ctx, r, source.Omissions{})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer closeText()
	o := &Outcomes{byID: map[string]recordedResult{}}
	if err := o.read(source.NewLines(text, maxRun)); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(o.byID) == 0 {
		return nil, fmt.Errorf(`read %s: no outcome found: want lines such as {"id": "run-7", "score": 1}, or a table with the columns id and score`, name)
	}
	return o, nil
}

func (o *Outcomes) read(l *source.Lines) error {
	first, err := l.Peek()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	switch first {
	case '[':
		s := l.Scanner()
		s.Skip()
		for i := 0; ; i++ {
			more, err := s.HasNext(i == 0)
			if err != nil || !more {
				return err
			}
			raw, err := s.Value(maxRun)
			if err == nil {
				err = o.addJSON(raw, false)
			}
			if err != nil {
				return fmt.Errorf("element %d: %w", i, err)
			}
		}
	case '{':
		return o.readObjects(l)
	}
	line, err := l.Next()
	if err != nil {
		return err
	}
	t := source.FindTable(line, outcomeIDs, scoreNames)
	if t == nil {
		return errors.New("unknown format: want JSON, or a table with the columns id and score")
	}
	return o.readTable(l, t)
}

// readObjects reads objects: one on each line, or over several lines.
func (o *Outcomes) readObjects(l *source.Lines) error {
	s := l.Scanner()
	for n := 1; ; n++ {
		c, err := s.Peek()
		if err == io.EOF {
			return nil
		}
		if err == nil && c != '{' {
			err = fmt.Errorf("got %q, want an object", c)
		}
		var raw []byte
		if err == nil {
			raw, err = s.Value(maxRun)
		}
		if err == nil {
			err = o.addJSON(raw, true)
		}
		if err != nil {
			return fmt.Errorf("object %d: %w", n, err)
		}
	}
}

func (o *Outcomes) readTable(l *source.Lines, t *source.Table) error {
	l.KeepSpace = true
	for {
		record, line, err := t.Next(l)
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = o.add(t.Value(record, outcomeIDs), t.Value(record, scoreNames), t.Value(record, []string{"feedback", "comment"}))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// addJSON adds the outcomes of an object. If idFields is true, its fields may be ids.
func (o *Outcomes) addJSON(raw []byte, idFields bool) error {
	obj, err := source.NewObject(raw)
	if err != nil {
		return err
	}
	if obj.HasAny("resolved_ids", "unresolved_ids") {
		return errors.Join(o.addAll(obj, "resolved_ids", "1"), o.addAll(obj, "unresolved_ids", "0"))
	}
	if score := obj.First(scoreNames...); score != nil && obj.HasAny(outcomeIDs...) {
		id, err := source.ParseID("id", obj.First(outcomeIDs...))
		if err != nil {
			return err
		}
		if trial, err := source.ParseID("trial", obj.Get("trial")); err == nil {
			id += "/" + trial
		}
		return o.add(id, string(score), source.TextField(obj, []string{"feedback", "comment"}))
	}
	if !idFields {
		return fmt.Errorf("fields id, score: required, got %s", obj.Names())
	}
	for _, f := range obj.Fields {
		if err := o.add(f.Name, string(f.Value), ""); err != nil {
			return fmt.Errorf("field %.80q: %w", f.Name, err)
		}
	}
	return nil
}

// addAll adds the same score for a list of ids.
func (o *Outcomes) addAll(obj *source.Object, field, score string) error {
	var ids []string
	if v := obj.Get(field); v != nil && json.Unmarshal(v, &ids) != nil {
		return fmt.Errorf("field %s: want a list of ids", field)
	}
	for _, id := range ids {
		if err := o.add(id, score, ""); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outcomes) add(id, score, feedback string) error {
	id = printableID(id)
	if id == "" {
		return errors.New("field id: is missing")
	}
	out, err := outcome.Parse(score)
	if err != nil {
		return fmt.Errorf("field score: %w", err)
	}
	if !out.Known() {
		return errors.New("field score: is missing")
	}
	if old, ok := o.byID[id]; ok && old.Score != out.Score {
		return fmt.Errorf("id %.80q: has two scores, %v and %v", id, old.Score, out.Score)
	}
	if len(o.byID) == maxOutcomes {
		return fmt.Errorf("more than %d outcomes: split the file", maxOutcomes)
	}
	out.By, out.Feedback = cmp.Or(out.By, "outcomes file"), cmp.Or(out.Feedback, feedback)
	o.byID[id] = recordedResult{Outcome: out}
	return nil
}

// printableID returns an id with printable parts, for comparison.
func printableID(id string) string {
	parts := strings.Split(strings.TrimSpace(id), "/")
	for i := range parts {
		parts[i] = source.Printable(parts[i])
	}
	return strings.Join(parts, "/")
}

// apply sets the outcome of a run that has none. The run is found by its task id, by its name, by its session, or by the name
// of its file if the file has one run.
func (o *Outcomes) apply(e *events.Execution, file, name string) {
	ids := []string{e.RunID, name, source.Printable(e.Session), file}
	if len(o.Examples) < 3 {
		if i := slices.IndexFunc(ids[1:], func(id string) bool { return id != "" }); i >= 0 {
			o.Examples = append(o.Examples, ids[i+1])
		}
	}
	for _, id := range ids {
		r, ok := o.byID[id]
		if id == "" || !ok {
			continue
		}
		r.used = true
		o.byID[id] = r
		if e.Outcome.Known() {
			o.Kept++
			return
		}
		o.Applied++
		e.Outcome = r.Outcome
		return
	}
}

// Unused returns the number of ids that belong to no run, and the first of them in alphabetical order.
func (o *Outcomes) Unused() (n int, first []string) {
	const most = 3
	for id, r := range o.byID {
		if r.used {
			continue
		}
		n++
		first = append(first, id)
		slices.Sort(first)
		first = first[:min(most, len(first))]
	}
	return n, first
}
