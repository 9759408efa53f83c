package text

import (
	"encoding/json"
	"strconv"
	"strings"
)

// CanonicalJSON returns a JSON text without white space and with sorted names. ok is false if the text is not JSON.
func CanonicalJSON(text string) (canonical string, ok bool) {
	if !json.Valid([]byte(text)) { // Decode ignores text after the value
		return "", false
	}
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "", false
	}
	raw, err := json.Marshal(v)
	return string(raw), err == nil
}

// Leaf is a JSON value that is not an object or a list.
type Leaf struct {
	Name     string // "" in a list
	Value    string
	IsString bool
}

// Leaves returns the leaves of a JSON text in order. Of invalid or incomplete JSON it returns the leaves before the error.
func Leaves(text string) (list []Leaf) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var open []json.Delim      // the beginnings of the objects and lists around the next token
	name, hasName := "", false // of the next value; hasName is false in a list and before a name
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
