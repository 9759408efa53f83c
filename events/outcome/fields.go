package outcome

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"debrief/playbook/text"
)

// fields are the fields of an object by their plain name. The methods that begin with take remove the fields that they return.
type fields struct {
	values map[string]json.RawMessage
	sent   map[string]string // the names as they were sent
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
	takeBound := func(into *float64, names ...string) (found bool) {
		for _, name := range names {
			if v := f.take(name); v != nil && json.Unmarshal(v, into) == nil {
				found = true
			}
		}
		return found
	}
	takeBound(&limits.low, "min", "minscore", "worstrating")
	if takeBound(&limits.high, "max", "maxscore", "outof", "bestrating") {
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

var rangeText = text.Pattern(`^(-?[\d.]+) ?(?:-|–|\.\.+|to|,|:) ?(-?[\d.]+)$`)
