package outcome

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// decodeObject decodes an object. It takes the fields that it knows; those that remain are the ignored ones.
func (d Decoder) decodeObject(raw []byte) (out Decoded, err error) {
	fields, err := newFields(raw)
	if err != nil {
		return Decoded{}, err
	}
	fields.depth = d.depth + 1
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
		d.depth++ // of a copy
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

// fields are the fields of an object by their plain name. The methods that begin with take remove the fields that they return.
type fields struct {
	values map[string]json.RawMessage
	sent   map[string]string // the names as they were sent
	depth  int               // number of objects around their values
}

func newFields(raw []byte) (*fields, error) {
	f := &fields{values: map[string]json.RawMessage{}, sent: map[string]string{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token() // the opening brace
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, refuse(raw)
		}
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return nil, refuse(raw)
		}
		name, _ := token.(string)
		plain := plainName(name)
		if _, twice := f.values[plain]; twice {
			return nil, fmt.Errorf("duplicate field %q", text.Clip(name, 60))
		}
		f.values[plain] = v
		f.sent[plain] = name
	}
	return f, nil
}

// take returns a field and removes it. It returns nil for null, for an empty text and for a missing field.
func (f *fields) take(name string) json.RawMessage {
	v := f.values[name]
	delete(f.values, name)
	if string(v) == "null" || string(v) == `""` {
		return nil
	}
	return v
}

// takeViolation removes the field violation, which is false if it is missing.
func (f *fields) takeViolation() (yes bool, err error) {
	if v := f.take("violation"); v != nil && json.Unmarshal(v, &yes) != nil {
		return false, fmt.Errorf("violation: want true or false, got %s", text.Clip(string(v), 60))
	}
	return yes, nil
}

// takeText removes the first of the fields that is a text and returns it, without surrounding space.
func (f *fields) takeText(names ...string) string {
	for _, name := range names {
		var s string
		if v := f.values[name]; v != nil && json.Unmarshal(v, &s) == nil {
			delete(f.values, name)
			if s = strings.TrimSpace(s); s != "" {
				return s
			}
		}
	}
	return ""
}

// remaining returns the names of the remaining fields, sorted.
func (f *fields) remaining() (all []string) {
	for plain := range f.values {
		all = append(all, f.sent[plain])
	}
	slices.Sort(all)
	return all
}

// scoreRange is the range of a score.
type scoreRange struct {
	low, high float64
	given     bool // the object has a range or an upper bound; without a lower one, low is 0
}

// takeRange removes the fields with the range of the score.
func (f *fields) takeRange() (scoreRange, error) {
	var limits scoreRange
	for _, name := range rangeNames {
		v := f.take(name)
		if v == nil {
			continue
		}
		if err := limits.parse(v); err != nil {
			return scoreRange{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	takeBound := func(into *float64, names ...string) (found bool, err error) {
		for _, name := range names {
			if v := f.take(name); v != nil {
				if json.Unmarshal(v, into) != nil {
					return false, fmt.Errorf("%s: must be a number", name)
				}
				found = true
			}
		}
		return found, nil
	}
	if _, err := takeBound(&limits.low, "min", "minscore", "worstrating"); err != nil {
		return scoreRange{}, err
	}
	found, err := takeBound(&limits.high, "max", "maxscore", "outof", "bestrating")
	limits.given = limits.given || found
	return limits, err
}

// parse parses [-10, 10], "-10 to 10", or only the upper limit.
func (r *scoreRange) parse(v json.RawMessage) error {
	r.given = true
	var list []float64
	if json.Unmarshal(v, &list) == nil && len(list) == 2 {
		r.low, r.high = list[0], list[1]
		return nil
	}
	if json.Unmarshal(v, &r.high) == nil {
		return nil
	}
	var s string
	if json.Unmarshal(v, &s) == nil {
		if m := rangeText().FindStringSubmatch(strings.TrimSpace(s)); m != nil {
			r.low, _ = strconv.ParseFloat(m[1], 64)
			r.high, _ = strconv.ParseFloat(m[2], 64)
			return nil
		}
	}
	return fmt.Errorf("got %s, want two numbers such as [-10, 10]", text.Clip(string(v), 60))
}

var rangeText = text.Pattern(`^(-?[\d.]+) ?(?:-|–|\.\.+|to|,|:) ?(-?[\d.]+)$`)
