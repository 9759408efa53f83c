package outcome

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// Accepted lists the accepted forms of an outcome, for errors and help texts.
const Accepted = `true or false, a score from 0 to 1, "4/5" or {"score": 7, "range": [-10, 10]}, success, partial or failure, up or down, ` +
	`positive or negative, {"stars": 4}, or an object of label, score and feedback`

// Decoded is an outcome as it was read.
type Decoded struct {
	events.Outcome
	// Ignored lists the fields of the object that are not part of an outcome.
	Ignored []string
}

// Decoder decodes outcomes. The zero value is ready.
type Decoder struct {
	// Leading returns the name of the score that counts in the playbook, or "" if no person chose one. It is called only for an
	// outcome with named scores. Nil means that no person chose one.
	Leading func() (string, error)
	// Reviews is set if the caller has the scope review. Otherwise the field violation is ErrViolation, and the name of a judge is ErrJudge.
	Reviews bool
	// Recorder is the name of the program that wrote a recording, else empty. In a recording the name of a judge is no error. It is stored after
	// the name of the recorder, so that the outcome does not count as one of the judge.
	Recorder string
}

// ErrViolation is returned for a violation from a caller that may not set it.
var ErrViolation = errors.New("violation: want an evaluator program, or feedback with the scope review, 'debrief feedback --violation'")

// ErrJudge is returned for the name of a judge from a caller that may not use it. The gate corrects the outcomes of a judge by its measured
// error, and would correct those of an agent with that name in the same way.
var ErrJudge = errors.New("by: a name that begins with " + events.JudgePrefix + " belongs to the evaluator judge: send another name, or use a token with the scope review")

// LookupError is returned if the leading score of the playbook could not be read. The outcome may be valid.
type LookupError struct{ Err error }

func (e *LookupError) Error() string {
	return "read the leading score of the playbook: " + e.Err.Error()
}
func (e *LookupError) Unwrap() error { return e.Err }

// Lead returns a function for Decoder.Leading that returns a known name.
func Lead(name string) func() (string, error) { return func() (string, error) { return name, nil } }

// Parse parses a word with the zero Decoder.
func Parse(word string) (events.Outcome, error) { return Decoder{}.Parse(word) }

// Parse returns the outcome for a word of a header, a flag or a table: any form of Accepted, also in JSON. Blank text returns
// the zero outcome.
func (d Decoder) Parse(word string) (events.Outcome, error) {
	word = strings.TrimSpace(word)
	if json.Valid([]byte(word)) && !strings.HasPrefix(word, `"`) {
		decoded, err := d.Decode([]byte(word))
		return decoded.Outcome, err
	}
	var unquoted string
	if json.Unmarshal([]byte(word), &unquoted) == nil {
		word = unquoted
	}
	return ofWord(word)
}

// Decode decodes an outcome in JSON: any form of Accepted. Score and label of the result agree. Null, empty text and no data
// return the zero outcome. An object with only feedback returns an outcome without a label. An error names the accepted
// forms.
func (d Decoder) Decode(raw []byte) (Decoded, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return Decoded{}, nil
	}
	if !json.Valid(raw) {
		return Decoded{}, refuse(raw)
	}
	if raw[0] == '{' {
		return d.decodeObject(raw)
	}
	o, err := ofValue(raw)
	return Decoded{Outcome: o}, err
}

// refuse returns the error for a value that has none of the accepted forms.
func refuse(raw []byte) error {
	return fmt.Errorf("got %s: want %s", text.Clip(string(raw), 60), Accepted)
}

// OfHeaders returns the outcome of a run from the headers with its score and its label, of which either may be empty.
func (d Decoder) OfHeaders(score, label string) (events.Outcome, error) {
	if strings.TrimSpace(score) == "" || strings.TrimSpace(label) == "" {
		return d.Parse(score + label) // one of them is empty
	}
	raw, err := json.Marshal(map[string]string{"score": score, "label": label})
	if err != nil {
		return events.Outcome{}, err
	}
	decoded, err := d.Decode(raw)
	return decoded.Outcome, err
}

// decodeObject decodes an object. It takes the fields that it knows; those that remain are the ignored ones.
func (d Decoder) decodeObject(raw []byte) (out Decoded, err error) {
	fields, err := newFields(raw)
	if err != nil {
		return Decoded{}, err
	}
	limits, err := fields.takeRange()
	if err != nil {
		return Decoded{}, err
	}
	if string(fields.values["label"]) == `""` && string(fields.values["score"]) == "0" { // how an outcome without a verdict is encoded
		delete(fields.values, "score")
	}
	leading := d.Leading
	if own := fields.takeText("leading", "lead"); own != "" {
		leading = Lead(own)
	}
	out.Feedback = fields.takeText(commentNames...)
	out.By = fields.takeText(byNames...)
	fields.takeText(keyNames...) // a single score may have any name
	violation, err := fields.takeViolation()
	if err == nil {
		out.By, err = d.checkRights(out.By, violation)
	}
	if err != nil {
		return Decoded{}, err
	}
	out.Inferred = string(fields.take("inferred")) == "true"
	var readings []reading
	for _, name := range scoreNames {
		v := fields.take(name)
		if v == nil {
			continue
		}
		r, err := d.readField(name, v, limits, &out.Outcome)
		if err != nil {
			return Decoded{}, fmt.Errorf("%s: %w", name, err)
		}
		if r.outcome.Label != "" {
			readings = append(readings, r)
		}
	}
	if len(readings) == 0 {
		readings, out.Scores, err = fields.takeScores(leading)
		if err != nil {
			return Decoded{}, err
		}
	} else {
		out.Scores = fields.takeSideScores()
	}
	out.Ignored = fields.remaining()
	if err := out.combine(readings); err != nil {
		return Decoded{}, err
	}
	out.Violation = out.Violation || violation
	out.Outcome = out.Complete()
	if out.Label == "" && out.Feedback == "" {
		return Decoded{}, refuse(raw)
	}
	return out, nil
}

// checkRights returns an error if the caller may not set a violation, or may not use the name of a judge. It returns the author to store.
func (d Decoder) checkRights(by string, violation bool) (string, error) {
	isJudge := strings.HasPrefix(strings.ToLower(by), events.JudgePrefix)
	switch {
	case d.Reviews:
	case violation:
		return "", ErrViolation
	case isJudge && d.Recorder == "":
		return "", ErrJudge
	case isJudge:
		return d.Recorder + ":" + by, nil
	}
	return by, nil
}

// reading is the outcome in one field.
type reading struct {
	name    string
	isWord  bool // a label, without a score of its own
	outcome events.Outcome
}

// readField reads a field with a score or a label. A field that is an object has its own score, label and feedback; readField
// adds feedback, author and violation to out.
func (d Decoder) readField(name string, v json.RawMessage, limits scoreRange, out *events.Outcome) (reading, error) {
	r := reading{name: name}
	var n float64
	var word string
	var err error
	isNumber := json.Unmarshal(v, &n) == nil
	isWord := json.Unmarshal(v, &word) == nil
	switch {
	case v[0] == '{':
		inner, err := d.Decode(v)
		if err == nil {
			out.Feedback = cmp.Or(out.Feedback, inner.Feedback)
			out.By = cmp.Or(out.By, inner.By)
			out.Violation = out.Violation || inner.Violation
		}
		r.outcome = inner.Outcome
		return r, err
	case isNumber && limits.given:
		r.outcome, err = ofRange(n, limits.low, limits.high)
	case isNumber && name == "stars":
		r.outcome, err = ofStars(n)
	case isNumber && limits.low != 0:
		err = fmt.Errorf("the lower bound %v needs an upper one", limits.low)
	default:
		r.outcome, err = ofValue(v)
		_, known := words[plainWord(word)]
		r.isWord = isWord && (known || name == "label")
	}
	return r, err
}

// combine sets score and label from the readings. A number has priority over a word. It returns an error if two of them
// contradict each other.
func (out *Decoded) combine(readings []reading) error {
	slices.SortStableFunc(readings, func(a, b reading) int { // words last
		switch {
		case a.isWord == b.isWord:
			return 0
		case b.isWord:
			return -1
		}
		return 1
	})
	for i, r := range readings {
		if i == 0 {
			out.Score, out.Label = r.outcome.Score, r.outcome.Label
			continue
		}
		if !agree(out.Score, out.Label, r) {
			return fmt.Errorf("%s contradicts %s: send one of them", r.name, readings[0].name)
		}
		if r.isWord {
			out.Label = r.outcome.Label
		}
	}
	return nil
}

// agree reports whether a reading is compatible with a score. A label is compatible with the scores on its side, because
// evaluators have thresholds of their own.
func agree(score float64, label events.Label, r reading) bool {
	switch {
	case r.outcome.Label == events.Unknown:
		return label == events.Unknown || score == 0 // how an unknown outcome is encoded
	case label == events.Unknown:
		return false
	case !r.isWord:
		return math.Abs(r.outcome.Score-score) < 1e-9
	case r.outcome.Label == events.Success:
		return score >= 0.5
	case r.outcome.Label == events.Failure:
		return score <= 0.5
	}
	return score > 0 && score < 1 // a partial success
}

// The names of the fields of an object, as plainName returns them.
var (
	scoreNames = []string{
		"score", "label", "value", "rating", "reward", "result", "outcome", "verdict", "sentiment", "stars", "thumb", "thumbs", "vote",
		"success", "correct", "iscorrect", "passed", "pass", "resolved", "ok", "accepted", "helpful",
	}
	commentNames = []string{"feedback", "comment", "comments", "text", "explanation", "reason", "note", "message"}
	byNames      = []string{"by", "author", "evaluator", "rater", "reviewer"}
	rangeNames   = []string{"range", "scale"}
	// keyNames are the fields with the name of the one score of the object.
	keyNames = []string{"name", "key", "metric", "criterion"}
	// successNames are the names of the scores that measure if a run succeeded. Others measure tone, cost or hallucinations.
	successNames = []string{
		"correctness", "correct", "iscorrect", "accuracy", "success", "tasksuccess", "reward", "score", "overall", "resolved", "pass", "passed",
		"goalcompletion", "userfeedback", "userscore", "thumbs", "total", "final",
	}
)

func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}
