package runs

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"debrief/cmd/internal/runs/modelapi"
	"debrief/cmd/internal/runs/source"
	"debrief/cmd/internal/runs/steps"
	"debrief/events"
	"debrief/events/outcome"
)

// inspectSample parses a sample of a log of Inspect. The header of the log has the name of the task and the model.
func inspectSample(v *record) ([]*steps.Run, error) {
	var c steps.Conversation
	items := v.WantMessages("messages")
	if len(items) == 0 { // a sample that ended before its first message
		items = append(v.Get("input").Messages(modelapi.RoleUser), v.Get("output").Messages(modelapi.RoleAssistant)...)
	}
	c.AddItems(items)
	result := inspectOutcome(v)
	if !result.Known() {
		result.Feedback = cmp.Or(v.Text("error", "message"), v.Text("limit", "type"))
	}
	c.Outcome = result
	c.Target = cmp.Or(v.TextOrNumber("target"), v.Get("target").TextOrJSON()) // a text, or a list as JSON
	eval := v.header.Get("eval")
	c.Task = source.Printable(v.TextOrNumber("id"))
	if task := source.Printable(eval.Text("task")); task != "" {
		c.Task = task + "/" + c.Task
	}
	c.Name = c.Task + "/" + cmp.Or(v.TextOrNumber("epoch"), "1")
	c.Model = cmp.Or(v.Text("output", "model"), eval.Text("model"))
	c.Started, c.Duration = v.Time("started_at"), steps.ValidDuration(v.Number("total_time"))
	for _, u := range v.Get("model_usage").Members() {
		c.Usage = c.Usage.Add(steps.Usage(0, u, 0))
	}
	return c.End()
}

// inspectGrades are the grades of Inspect as numbers: correct, partially correct, incorrect, and no answer.
var inspectGrades = map[string]string{"C": "1", "P": "0.5", "I": "0", "N": "0"}

// inspectOutcome returns the outcome of a sample. The score that leads counts, see outcome.Leads. If several lead, none counts. If the user
// named no leading score and the sample has only one score, that one counts.
func inspectOutcome(v *record) events.Outcome {
	scores := map[string]json.RawMessage{}
	comments := map[string]string{}
	add := func(name string, value modelapi.Value, comment string) {
		scores[name], comments[name] = value.Raw(), comment
		if grade := inspectGrades[value.Text()]; grade != "" {
			scores[name] = json.RawMessage(grade)
		}
	}
	for key, score := range v.Want('{', "scores").Members() {
		if !score.WantObject() {
			break
		}
		name, value := key.Text(), score.Get("value")
		for part, inner := range value.Members() { // a score of several values
			add(name+"/"+part.Text(), inner, score.Text("explanation"))
		}
		if value.Kind() != '{' && value.IsSet() {
			add(name, value, score.Text("explanation"))
		}
	}
	out := events.Outcome{Label: events.Unknown}
	onlyOne := len(scores) == 1 && v.leadingScore == ""
	var leading []string
	for name := range scores {
		if onlyOne || outcome.Leads(name, v.leadingScore) {
			leading = append(leading, name)
		}
	}
	if len(leading) != 1 {
		return out
	}
	name := leading[0]
	decoded, err := outcome.Parse(string(scores[name]))
	if err != nil {
		v.Note("scores."+name, "%v", err) // the caller skips the sample
		return out
	}
	decoded.Label = cmp.Or(decoded.Label, events.Unknown)
	if decoded.Known() {
		decoded.By, decoded.Feedback = sourceInspect+":"+name, cmp.Or(decoded.Feedback, comments[name])
	}
	if len(scores) > 1 {
		for _, other := range slices.Sorted(maps.Keys(scores)) {
			decoded.Scores = outcome.AddScore(decoded.Scores, other, string(scores[other]))
		}
	}
	return decoded
}
