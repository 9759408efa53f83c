package scoring

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"debrief/events"
)

func judgeJSON(target string, a Answer) (events.Outcome, error) {
	want, err := parseJSON(target)
	if err != nil {
		return events.Outcome{}, err
	}
	got, err := parseJSON(unfenced(a.Final))
	if err != nil {
		return wrong("The answer is no JSON value: %s. Expected %s, got %s.", err, briefly(target), briefly(a.Final)), nil
	}
	path, w, g, differ := firstDifference("", want, got)
	if !differ {
		return right(), nil
	}
	if path = strings.TrimPrefix(path, "."); path == "" {
		path = "the value as a whole"
	}
	return wrong("The answer is wrong. The first difference is %s: expected %s, got %s.", briefly(path), told(w), told(g)), nil
}

// parseJSON reads one value and nothing else.
func parseJSON(text string) (v any, err error) {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); errors.Is(err, io.EOF) {
		return nil, errors.New("it is empty")
	} else if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something stands behind it")
	}
	return v, nil
}

var fence = regexp.MustCompile("(?s)\\A```[A-Za-z0-9]*[ \t]*\r?\n?(.*?)\\s*```\\z")

// unfenced is text without the Markdown fence around it.
func unfenced(text string) string {
	text = strings.TrimSpace(text)
	if m := fence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// absent stands for a value that is not there.
type absent struct{}

// firstDifference is the path to the first value that is not the same, keys in alphabetical order.
func firstDifference(path string, want, got any) (at string, w, g any, differ bool) {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return path, want, got, true
		}
		keys := slices.Sorted(maps.Keys(w))
		for k := range g {
			if _, known := w[k]; !known {
				keys = append(keys, k)
			}
		}
		slices.Sort(keys)
		for _, k := range keys {
			if at, x, y, differ := firstDifference(path+"."+k, member(w, k), member(g, k)); differ {
				return at, x, y, true
			}
		}
		return "", nil, nil, false
	case []any:
		g, ok := got.([]any)
		if !ok {
			return path, want, got, true
		}
		for i := range max(len(w), len(g)) {
			if at, x, y, differ := firstDifference(path+"["+strconv.Itoa(i)+"]", element(w, i), element(g, i)); differ {
				return at, x, y, true
			}
		}
		return "", nil, nil, false
	case json.Number:
		if g, ok := got.(json.Number); ok && sameDecimal(w.String(), g.String()) {
			return "", nil, nil, false
		}
		return path, want, got, true
	}
	switch got.(type) {
	case map[string]any, []any: // which cannot be compared, and are not the same
		return path, want, got, true
	}
	return path, want, got, want != got
}

func member(m map[string]any, k string) any {
	if v, ok := m[k]; ok {
		return v
	}
	return absent{}
}

func element(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return absent{}
}

// told is a value for a line of feedback.
func told(v any) string {
	if v == any(absent{}) {
		return "nothing"
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // it was JSON, and the builder does not fail
	return briefly(out.String())
}

// sameDecimal compares two JSON numbers by value, whatever their size.
func sameDecimal(a, b string) bool {
	if a == b {
		return true
	}
	x, okx := parseDecimal(a)
	y, oky := parseDecimal(b)
	return okx && oky && x == y
}

// decimal is 0.digits times a power of ten. Zero has no digits, no sign and no power.
type decimal struct {
	negative bool
	digits   string // neither begins nor ends with a zero
	power    int
}

// parseDecimal reads a JSON number. A power that no int32 holds is one it does not read.
func parseDecimal(s string) (d decimal, ok bool) {
	s, d.negative = strings.CutPrefix(s, "-")
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		power, err := strconv.ParseInt(s[i+1:], 10, 32)
		if err != nil {
			return decimal{}, false
		}
		d.power, s = int(power), s[:i]
	}
	whole, part, _ := strings.Cut(s, ".")
	d.power += len(whole)
	d.digits = strings.TrimLeft(whole+part, "0")
	d.power -= len(whole) + len(part) - len(d.digits)
	if d.digits = strings.TrimRight(d.digits, "0"); d.digits == "" {
		return decimal{}, true
	}
	return d, true
}
