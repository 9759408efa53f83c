package scoring

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"debrief/events"
	"debrief/events/chat"
)

// scoreJSON is the method of ByJSON.
func scoreJSON(target string, a Answer) (events.Outcome, error) {
	want, err := parseJSON(target)
	if err != nil {
		return events.Outcome{}, err
	}
	got, err := parseJSON(stripFence(a.Final))
	if err != nil {
		// An answer from a field of a JSON reply is the text of its value, for example without the quotes of a string.
		isField := a.Final != "" && strings.TrimSpace(a.Final) == chat.FieldText(json.RawMessage(target))
		if isField {
			return correct(), nil
		}
		return incorrect("The answer is not valid JSON: %s. Expected %s, got %s.", err, shortText(target), shortText(a.Final)), nil
	}
	return decide(equalJSON(want, got), target, a)
}

// parseJSON parses exactly one value.
func parseJSON(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	err = dec.Decode(&v)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("empty")
	}
	if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected data after the value")
	}
	return v, nil
}

// fence matches a fenced text and its language. The only word in a fence, such as the true of ```true```, is the text.
var fence = regexp.MustCompile("(?s)\\A```(?:[A-Za-z][A-Za-z0-9]*\\b)?\\s*([^\\s`].*?)\\s*```\\z")

// stripFence removes the Markdown fence around text.
func stripFence(text string) string {
	text = strings.TrimSpace(text)
	if m := fence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// equalJSON compares two decoded JSON values.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	case json.Number:
		b, ok := b.(json.Number)
		return ok && equalJSONNumber(a.String(), b.String())
	}
	return a == b
}

// equalJSONNumber compares two JSON numbers exactly. Numbers with an exponent beyond a million are equal only if they are written the same.
func equalJSONNumber(a, b string) bool {
	if a == b {
		return true
	}
	x, okX := new(big.Rat).SetString(a)
	y, okY := new(big.Rat).SetString(b)
	return okX && okY && x.Cmp(y) == 0
}
