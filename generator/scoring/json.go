package scoring

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strconv"
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
	// An answer from a field of a JSON reply is the text of its value, for example without the quotes of a string.
	isField := a.Final != "" && strings.TrimSpace(a.Final) == chat.FieldText(json.RawMessage(target))
	if err != nil && isField {
		return correct(), nil
	}
	if err != nil {
		return incorrect("The answer is not valid JSON: %s. Expected %s, got %s.", err, shortText(target), shortText(a.Final)), nil
	}
	d := firstDifference("", want, got)
	if d == nil {
		return correct(), nil
	}
	place := cmp.Or(strings.TrimPrefix(d.path, "."), "the value as a whole")
	return incorrect("The answer is wrong. The first difference is %s: expected %s, got %s.", shortText(place), formatValue(d.want), formatValue(d.got)), nil
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

// missingValue stands for a value that an object or a list does not have.
type missingValue struct{}

// difference is a place where two JSON values differ.
type difference struct {
	path      string // such as .items[2].price, or "" for the whole value
	want, got any    // the values at the path
}

// firstDifference compares two decoded JSON values at a path. It returns their first difference, or nil if they are equal. Keys are
// compared in alphabetical order.
func firstDifference(path string, want, got any) *difference {
	here := &difference{path, want, got}
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return here
		}
		keys := slices.AppendSeq(slices.Collect(maps.Keys(w)), maps.Keys(g))
		slices.Sort(keys)
		for _, k := range slices.Compact(keys) {
			if d := firstDifference(path+"."+k, member(w, k), member(g, k)); d != nil {
				return d
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok {
			return here
		}
		for i := range max(len(w), len(g)) {
			if d := firstDifference(path+"["+strconv.Itoa(i)+"]", element(w, i), element(g, i)); d != nil {
				return d
			}
		}
		return nil
	case json.Number:
		if g, ok := got.(json.Number); ok && equalJSONNumber(w.String(), g.String()) {
			return nil
		}
		return here
	}
	switch got.(type) {
	case map[string]any, []any: // want is of another type; == would panic
		return here
	}
	if want == got {
		return nil
	}
	return here
}

// member returns a value of an object, or missingValue.
func member(m map[string]any, k string) any {
	if v, ok := m[k]; ok {
		return v
	}
	return missingValue{}
}

// element returns a value of a list, or missingValue.
func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return missingValue{}
}

// formatValue formats a value for a line of feedback.
func formatValue(v any) string {
	if v == any(missingValue{}) {
		return "nothing"
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // cannot fail
	return shortText(out.String())
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
