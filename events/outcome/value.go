package outcome

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

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
