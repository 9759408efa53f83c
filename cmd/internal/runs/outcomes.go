package runs

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/events"
	"debrief/events/outcome"
)

// maxOutcomes is the maximum number of outcomes in a file.
const maxOutcomes = 2_000_000

// Outcomes holds the outcomes of runs by the id of the run. It is not safe for concurrent use.
type Outcomes struct {
	byID map[string]recordedOutcome
	doc  modelapi.Document
	// leadingScore is the name of the score that counts if an outcome has several.
	leadingScore string
	Applied      int // runs that received an outcome
	Kept         int // runs that were recorded with an outcome, which is not replaced
	// Examples are the ids of the first runs in the files, to show how ids look.
	Examples []string
}

// recordedOutcome is an outcome of the file.
type recordedOutcome struct {
	events.Outcome
	used bool // a run has the id
}

// outcomeIDs are the names of the field and the column with the id of a run.
var outcomeIDs = []string{"id", "run_id", "run", "task_id", "trace_id", "session_id", "instance_id", "name"}

// ReadOutcomes reads the outcomes of runs. The file is a table with the columns id and score, or JSON: objects with the fields
// id and score, one per line or in a list; one object with the ids as fields; or a report of SWE-bench with the fields
// resolved_ids and unresolved_ids. A score is a number from 0 to 1, a label, true or false, or an object with several
// named scores, of which the one named by leadingScore counts. A line without a valid id and score is an error.
func ReadOutcomes(ctx context.Context, name string, r io.Reader, leadingScore string) (*Outcomes, error) {
	text, closeText, err := source.Open(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	defer closeText()
	o := &Outcomes{byID: map[string]recordedOutcome{}, leadingScore: leadingScore}
	values := source.NewValues(text, maxRun)
	values.Columns = [][]string{outcomeIDs, scoreNames}
	if err := values.Each(o.add); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(o.byID) == 0 {
		return nil, fmt.Errorf(`read %s: no outcome found: want lines such as {"id": "run-7", "score": 1}, or a table with the columns id and score`, name)
	}
	return o, nil
}

// add adds the outcomes of an object. The fields of an object that is not in a list or table may be ids.
func (o *Outcomes) add(value *source.Value) error {
	if value.Err != nil {
		return value.Err
	}
	v, err := o.doc.Parse(value.Raw)
	if err != nil {
		isFirst := len(o.byID) == 0
		if isFirst && !bytes.HasPrefix(value.Raw, []byte("{")) {
			return errors.New("unknown format: want JSON, or a table with the columns id and score")
		}
		return err
	}
	if !v.WantObject() {
		return v.Problem()
	}
	if v.HasAny("resolved_ids", "unresolved_ids") {
		err = errors.Join(o.addAll(v, "resolved_ids", "1"), o.addAll(v, "unresolved_ids", "0"))
		return cmp.Or(err, v.Problem())
	}
	if score := v.First(scoreNames...); score.IsSet() && v.HasAny(outcomeIDs...) {
		id := v.TextOrNumber(outcomeIDs...)
		if trial := v.TextOrNumber("trial"); trial != "" {
			id += "/" + trial
		}
		return o.addScore(id, score.TextOrJSON(), v.TextOrNumber(commentNames...))
	}
	isElement := value.At.Line == 0 // of a list
	if isElement || value.IsRow {
		return fmt.Errorf("fields id, score: required, got %s", v.Names())
	}
	for name, score := range v.Members() {
		if err := o.addScore(name.Text(), score.TextOrJSON(), ""); err != nil {
			return fmt.Errorf("field %.80q: %w", name.Text(), err)
		}
	}
	return nil
}

// addAll adds the same score for a list of ids.
func (o *Outcomes) addAll(v modelapi.Value, field, score string) error {
	for id := range v.Want('[', field).Elements() {
		if err := o.addScore(id.Text(), score, ""); err != nil {
			return fmt.Errorf("field %s: want a list of ids: %w", field, err)
		}
	}
	return nil
}

// addScore adds the outcome of an id.
func (o *Outcomes) addScore(id, score, feedback string) error {
	id = source.Printable(strings.TrimSpace(id))
	if id == "" {
		return errors.New("field id: is missing")
	}
	out, err := outcome.Decoder{Leading: outcome.Lead(o.leadingScore), Recorder: "file"}.Parse(score)
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
	o.byID[id] = recordedOutcome{Outcome: out}
	return nil
}

// apply sets the outcome of a run that has none. The id of the outcome may be the run id, the recorder's name of the run, its session, or
// the name of its file. An empty name or file is not searched.
func (o *Outcomes) apply(e *events.Execution, file, name string) {
	if example := cmp.Or(name, e.Session, file); example != "" && len(o.Examples) < 3 {
		o.Examples = append(o.Examples, example)
	}
	for _, id := range []string{e.RunID, name, e.Session, file} {
		id = source.Printable(id)
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

// Unused returns the number of ids that belong to no run, and the first three of them in alphabetical order.
func (o *Outcomes) Unused() (n int, first []string) {
	var unused []string
	for id, r := range o.byID {
		if !r.used {
			unused = append(unused, id)
		}
	}
	slices.Sort(unused)
	return len(unused), unused[:min(3, len(unused))]
}
