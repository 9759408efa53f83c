package text

import (
	"encoding/json"
	"strconv"
	"strings"
)

// CanonicalJSON returns JSON in a form that ignores its white space and the order of its names, and whether a text is JSON.
func CanonicalJSON(text string) (canonical string, ok bool) {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if !json.Valid([]byte(text)) || d.Decode(&v) != nil {
		return "", false
	}
	raw, err := json.Marshal(v)
	return string(raw), err == nil
}

// Leaf is a JSON value without children.
type Leaf struct {
	Name     string // "" in a list
	Value    string
	IsString bool
}

// Leaves returns the leaves of a JSON value in order, of invalid or incomplete JSON those before the error.
func Leaves(text string) (list []Leaf) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var open []json.Delim      // the objects and lists around the next token
	name, hasName := "", false // of the next value, if it is in an object
	for {
		token, err := d.Token()
		if err != nil {
			return list
		}
		l := Leaf{Name: name}
		switch t := token.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				open = append(open, t)
			} else {
				open = open[:len(open)-1]
			}
			name, hasName = "", false
			continue
		case string:
			if len(open) > 0 && open[len(open)-1] == '{' && !hasName {
				name, hasName = t, true
				continue
			}
			l.Value, l.IsString = t, true
		case json.Number:
			l.Value = t.String()
		case bool:
			l.Value = strconv.FormatBool(t)
		default:
			l.Value = "null"
		}
		list = append(list, l)
		name, hasName = "", false
	}
}
