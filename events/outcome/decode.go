package outcome

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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

	depth int // number of objects around the value
}

// maxNested bounds the objects in objects, such as {"score": {"value": 1}}. Each level reads all levels inside it again.
const maxNested = 8

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
	if d.depth > maxNested || !json.Valid(raw) {
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
	return ofNumber(string(raw), raw)
}

func ofScore(score float64) events.Outcome {
	return events.Outcome{Score: score, Label: events.LabelOf(score)}
}

// ofNumber returns the outcome for a number without a range: a score from 0 to 1, or -1, which is a thumb down. raw is the value for an
// error.
func ofNumber(number string, raw []byte) (events.Outcome, error) {
	n, err := strconv.ParseFloat(number, 64)
	switch {
	case err != nil || math.IsNaN(n):
		return events.Outcome{}, refuse(raw)
	case n == -1:
		return ofScore(0), nil
	case n < 0 || n > 1:
		return events.Outcome{}, fmt.Errorf("a score outside 0 to 1 needs its range: %w", refuse(raw))
	}
	return ofScore(n + 0), nil // + 0: -0 is 0
}

// words are the words for the scores 1, 0.5 and 0, as plainWord returns them.
var words = func() map[string]float64 {
	all := map[string]float64{}
	for score, list := range map[float64]string{
		1: "true yes y t success successful succeeded correct right pass passed resolved solved ok okay good great excellent perfect positive pos up +1 👍 ✅ ✔ ✓ " +
			"thumbsup like liked upvote upvoted accept accepted approve approved helpful satisfied happy win won",
		0.5: "partial partially mixed neutral half partiallycorrect partlycorrect",
		0: "false no n f failure failed fail incorrect wrong notok unresolved unsolved bad poor terrible negative neg down -1 👎 ❌ ✗ ✘ " +
			"thumbsdown dislike disliked downvote downvoted reject rejected unhelpful unsatisfied dissatisfied unhappy error lose lost loss",
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
	fraction = text.Pattern(`^(-?[\d.]+) ?(?:/|of|out of) ?([\d.]+)(?: (star|point)s?)?$`)
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
		isFraction := err == nil && errLimit == nil && n >= 0
		if isFraction && m[3] == "star" && limit == 5 {
			return ofStars(n)
		}
		if isFraction {
			return ofRange(n, 0, limit)
		}
	}
	if m := percent().FindStringSubmatch(s); m != nil {
		if n, err := strconv.ParseFloat(m[1], 64); err == nil {
			return ofRange(n, 0, 100)
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
	return ofNumber(s, []byte(strconv.Quote(word)))
}

// ofRange returns the outcome for a number in a range, scaled to a score from 0 to 1.
func ofRange(n, low, high float64) (events.Outcome, error) {
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
	return ofRange(n, 1, 5)
}
