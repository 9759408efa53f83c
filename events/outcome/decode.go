package outcome

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
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
		return d.object(raw)
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

// ofValue returns the outcome for a value that is not an object.
func ofValue(raw json.RawMessage) (events.Outcome, error) {
	var word string
	switch {
	case string(raw) == "true":
		return ofScore(1), nil
	case string(raw) == "false":
		return ofScore(0), nil
	case json.Unmarshal(raw, &word) == nil:
		return ofWord(word)
	case raw[0] == '[', raw[0] == '{':
		return events.Outcome{}, refuse(raw)
	}
	n, err := strconv.ParseFloat(string(raw), 64)
	return ofNumber(n, err, raw)
}

func ofScore(score float64) events.Outcome {
	return events.Outcome{Score: score, Label: events.LabelOf(score)}
}

// ofNumber returns the outcome for a number without a range: a score from 0 to 1, or -1, which is a thumb down.
func ofNumber(n float64, err error, raw []byte) (events.Outcome, error) {
	switch {
	case err == nil && n == -1:
		return ofScore(0), nil
	case err != nil || math.IsNaN(n):
		return events.Outcome{}, refuse(raw)
	case !(n >= 0 && n <= 1):
		return events.Outcome{}, fmt.Errorf("a score outside 0 to 1 needs its range: %w", refuse(raw))
	}
	return ofScore(n + 0), nil // + 0: -0 is 0
}

// words are the words for the scores 1, 0.5 and 0, as plainWord returns them.
var words = func() map[string]float64 {
	all := map[string]float64{}
	for score, list := range map[float64]string{
		1: "true yes y t success successful succeeded correct right pass passed resolved solved ok okay good great excellent perfect positive pos up +1 👍 ✅ ✔ ✓ " +
			"thumbsup like liked accept accepted approved helpful satisfied happy win won",
		0.5: "partial partially mixed neutral half partiallycorrect partlycorrect",
		0: "false no n f failure failed fail incorrect wrong notok unresolved unsolved bad poor terrible negative neg down -1 👎 ❌ ✗ ✘ " +
			"thumbsdown dislike disliked reject rejected unhelpful unsatisfied dissatisfied unhappy error lose lost loss",
	} {
		for w := range strings.FieldsSeq(list) {
			all[w] = score
		}
	}
	return all
}()

// variants are the characters after an emoji that choose its colour and form.
const variants = "\U0001F3FB\U0001F3FC\U0001F3FD\U0001F3FE\U0001F3FF\uFE0F"

var (
	fraction = text.Pattern(`^(-?[\d.]+) ?(?:/|of|out of) ?([\d.]+)(?: (?:stars?|points?))?$`)
	percent  = text.Pattern(`^([\d.]+) ?%$`)
	stars    = text.Pattern(`^([\d.]+) ?(?:stars?|★|⭐)(?: (?:of|out of) (?:5|five))?$`)
	drawn    = text.Pattern(`^(?:(?:★|⭐\x{FE0F}?)+)[☆✩]*$`)
)

// plainWord returns a word in lower case, without "_", "-", spaces and the variants of an emoji.
func plainWord(word string) string {
	s := strings.ToLower(strings.TrimRight(strings.TrimSpace(word), variants))
	plain := strings.NewReplacer("_", "", " ", "").Replace(s)
	if len(plain) > 2 { // "-1" is a thumb
		plain = strings.ReplaceAll(plain, "-", "")
	}
	return plain
}

// ofWord returns the outcome for a word. Blank text returns the zero outcome.
func ofWord(word string) (events.Outcome, error) {
	s := strings.ToLower(strings.TrimRight(strings.TrimSpace(word), variants))
	plain := plainWord(word)
	if score, ok := words[plain]; ok {
		return ofScore(score), nil
	}
	switch plain {
	case "":
		return events.Outcome{}, nil
	case "unknown", "none", "n/a", "na", "unrated":
		return events.Outcome{Label: events.Unknown}, nil
	}
	if m := fraction().FindStringSubmatch(s); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		limit, errLimit := strconv.ParseFloat(m[2], 64)
		if err == nil && errLimit == nil && n >= 0 {
			return within(n, 0, limit)
		}
	}
	if m := percent().FindStringSubmatch(s); m != nil {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			return within(n, 0, 100)
		}
	}
	if m := stars().FindStringSubmatch(s); m != nil {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			return ofStars(n)
		}
	}
	if drawn().MatchString(s) {
		return ofStars(float64(strings.Count(s, "★") + strings.Count(s, "⭐")))
	}
	n, err := strconv.ParseFloat(s, 64)
	return ofNumber(n, err, []byte(strconv.Quote(word)))
}

// within returns the outcome for a number in a range, scaled to a score from 0 to 1.
func within(n, low, high float64) (events.Outcome, error) {
	isRange := low < high && !math.IsInf(high-low, 0)
	isWithin := n >= low && n <= high // false for NaN
	if !isRange || !isWithin {
		return events.Outcome{}, fmt.Errorf("score: %v is not within the range from %v to %v", n, low, high)
	}
	return ofScore((n - low) / (high - low)), nil
}

// ofStars returns the outcome for stars of five. One star is the worst.
func ofStars(n float64) (events.Outcome, error) {
	if n == 0 {
		n = 1
	}
	return within(n, 1, 5)
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
	// leaders are the names of the scores that measure if a run succeeded. Others measure tone, cost or hallucinations.
	leaders = []string{
		"correctness", "correct", "iscorrect", "accuracy", "success", "tasksuccess", "reward", "score", "overall", "resolved", "pass", "passed",
		"goalcompletion", "userfeedback", "userscore", "thumbs", "total", "final",
	}
)

// Leads reports whether the score with this name counts. leading is the leading score of the playbook. If it is empty, each score
// that measures if a run succeeded counts.
func Leads(name, leading string) bool {
	if leading != "" {
		return plainName(name) == plainName(leading)
	}
	return slices.Contains(leaders, plainName(name))
}

func plainName(name string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(name))
}

// object decodes an object.
func (d Decoder) object(raw []byte) (out Decoded, err error) {
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
		out.Scores = fields.takeOthers()
	}
	out.Ignored = fields.names()
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
		r.outcome, err = within(n, limits.low, limits.high)
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
	slices.SortStableFunc(readings, func(a, b reading) int {
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

// fields are the fields of an object by their plain name, with the names as they were sent.
type fields struct {
	values map[string]json.RawMessage
	sent   map[string]string
}

func newFields(raw []byte) (*fields, error) {
	f := &fields{values: map[string]json.RawMessage{}, sent: map[string]string{}}
	dec := json.NewDecoder(bytes.NewReader(raw))
	_, _ = dec.Token()
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

// names returns the names of the remaining fields, sorted.
func (f *fields) names() (all []string) {
	for plain := range f.values {
		all = append(all, f.sent[plain])
	}
	slices.Sort(all)
	return all
}

var rangeText = text.Pattern(`^(-?[\d.]+) ?(?:-|–|\.\.+|to|,|:) ?(-?[\d.]+)$`)

// scoreRange is the range of a score.
type scoreRange struct {
	low, high float64
	given     bool // the object has a range, or an upper bound; a lower one is 0 by default
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
	bound := func(into *float64, names ...string) (found bool) {
		for _, name := range names {
			if v := f.take(name); v != nil && json.Unmarshal(v, into) == nil {
				found = true
			}
		}
		return found
	}
	bound(&limits.low, "min", "minscore", "worstrating")
	if bound(&limits.high, "max", "maxscore", "outof", "bestrating") {
		limits.given = true
	}
	return limits, nil
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

// AddScore adds a named score to a list. It ignores a score without a name, one that is not a score, one whose name is in the list, and
// those after the first events.MaxScores. It is for recordings: a score beside the one that counts is no reason to refuse a run.
func AddScore(list []events.NamedScore, name, score string) []events.NamedScore {
	o, err := Parse(score)
	if err != nil || !o.Known() {
		return list
	}
	return addScore(list, name, o.Score)
}

func addScore(list []events.NamedScore, name string, score float64) []events.NamedScore {
	name = events.FitName(strings.TrimSpace(name))
	isNew := !slices.ContainsFunc(list, func(s events.NamedScore) bool { return s.Name == name })
	if name == "" || !isNew || len(list) == events.MaxScores {
		return list
	}
	return append(list, events.NamedScore{Name: name, Score: score})
}

// takeOthers removes the field "scores" beside a score that counts. A field in another form stays.
func (f *fields) takeOthers() (scores []events.NamedScore) {
	v := f.values["scores"]
	if v == nil {
		return nil
	}
	all, err := namedScores(v)
	if err != nil {
		return nil
	}
	delete(f.values, "scores")
	for _, r := range all {
		scores = addScore(scores, r.name, r.outcome.Score)
	}
	return scores
}

// takeScores removes the named scores: the field "scores", else all other fields with a score. Several scores need a leading
// one: the one that the playbook or the object names, or the only one that measures if the run succeeded. takeScores returns the leading
// score, and all scores if there are several.
func (f *fields) takeScores(lookup func() (string, error)) (lead []reading, scores []events.NamedScore, err error) {
	all, err := f.named()
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	if len(all) > events.MaxScores {
		return nil, nil, fmt.Errorf("scores: at most %d, got %d", events.MaxScores, len(all))
	}
	leading := ""
	if lookup != nil {
		leading, err = lookup()
		if err != nil {
			return nil, nil, &LookupError{err}
		}
	}
	if len(all) == 1 && leading == "" {
		return all, nil, nil
	}
	for _, r := range all {
		if len(all) > 1 {
			scores = addScore(scores, r.name, r.outcome.Score)
		}
		if Leads(r.name, leading) {
			lead = append(lead, r)
		}
	}
	if len(lead) == 1 {
		return lead, scores, nil
	}
	var names []string
	for _, r := range all {
		names = append(names, text.Clip(r.name, 40))
	}
	if leading != "" {
		return nil, nil, fmt.Errorf("scores: the leading score %q is missing among %s", leading, strings.Join(names, ", "))
	}
	return nil, nil, fmt.Errorf(`scores: several of them (%s): name the one that counts, such as "leading": %q`, strings.Join(names, ", "), names[0])
}

// named removes the scores with a name and returns them, sorted by name.
func (f *fields) named() (all []reading, err error) {
	if v := f.take("scores"); v != nil {
		return namedScores(v)
	}
	for plain, v := range f.values {
		if o, err := ofValue(v); err == nil && o.Label != "" && v[0] != '"' {
			all = append(all, reading{name: f.sent[plain], outcome: o})
		}
	}
	for _, r := range all {
		delete(f.values, plainName(r.name))
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}

// namedScores decodes {"name": score, …} or [{"name": …, "score": …}, …].
func namedScores(v json.RawMessage) (all []reading, err error) {
	add := func(name string, raw json.RawMessage) error {
		d, err := Decoder{Recorder: "scores"}.Decode(raw) // a Recorder permits the name of a judge, which is not kept
		if err != nil {
			return fmt.Errorf("scores.%s: %w", text.Clip(name, 40), err)
		}
		if d.Label != "" {
			all = append(all, reading{name: name, outcome: d.Outcome})
		}
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil {
		for _, raw := range list {
			item, err := newFields(raw)
			if err != nil {
				return nil, refuse(v)
			}
			if err := add(item.takeText(keyNames...), raw); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	var byName map[string]json.RawMessage
	if json.Unmarshal(v, &byName) != nil {
		return nil, refuse(v)
	}
	for name, raw := range byName {
		if err := add(name, raw); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(all, func(a, b reading) int { return cmp.Compare(a.name, b.name) })
	return all, nil
}
