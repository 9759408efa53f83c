package records

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// Arguments beyond these limits are compared as raw text.
const (
	maxArguments = 8 << 10 // bytes
	maxLeaves    = 100
	maxDepth     = 8
)

// leaf is a JSON value without children.
type leaf struct {
	path  string // names and list indices, each followed by a NUL
	name  string // last name of the path, "" in a list
	value string
	text  bool // the value is a string
	empty bool // the value is an empty object or list
}

// arguments are the arguments of a tool call: the leaves if they are JSON, else raw text.
type arguments struct {
	raw    string
	leaves []leaf // in order; nil if the arguments are not JSON
}

func argumentsOf(raw string) arguments {
	a := arguments{raw: strings.TrimSpace(raw)}
	if len(a.raw) <= maxArguments {
		if list, complete := leaves(a.raw, maxLeaves); complete {
			a.leaves = list
		}
	}
	return a
}

func argumentsOfAll(calls []events.ToolCall) []arguments {
	list := make([]arguments, len(calls))
	for i := range calls {
		list[i] = argumentsOf(calls[i].Arguments)
	}
	return list
}

// key returns equal strings for equivalent arguments. The order of names and white space do not matter.
func (a arguments) key() string {
	if a.leaves == nil {
		return a.raw
	}
	sorted := slices.Clone(a.leaves)
	slices.SortStableFunc(sorted, func(x, y leaf) int { return strings.Compare(x.path, y.path) })
	var b strings.Builder
	for _, l := range sorted {
		b.WriteString(l.path)
		if l.text {
			b.WriteByte('"')
		}
		b.WriteString(l.value)
		b.WriteByte(0)
	}
	return b.String()
}

// action returns the argument that selects the operation of a general tool: the command of a shell or an editor.
func (a arguments) action() string {
	if a.leaves == nil {
		return a.raw
	}
	for _, l := range a.leaves {
		switch l.name {
		case "command", "cmd", "action", "operation":
			return l.value
		}
	}
	return ""
}

// summary describes the arguments in at most maxSummary characters. It prefers strings of one line, then the
// beginnings of longer strings, then numbers with their names. A word that only repeats the verb is omitted.
func (a arguments) summary(v verb) string {
	if a.leaves == nil {
		line := clean(firstLine(a.raw), maxSummary)
		if strings.ContainsRune(a.raw, '\n') && line != "" && !strings.HasSuffix(line, text.Ellipsis) {
			line = clean(line, maxSummary-1) + text.Ellipsis
		}
		return line
	}
	var short, long, numbers []string
	action := a.action()
	for _, l := range a.leaves {
		value := clean(firstLine(l.value), maxValue)
		switch {
		case value == "" || l.empty:
		case !l.text:
			numbers = append(numbers, strings.TrimSpace(clean(l.name, maxName)+" "+value))
		case strings.ContainsRune(strings.TrimSpace(l.value), '\n'):
			long = append(long, value)
		case l.value == action && v != called && verbFromName(value) == v && !strings.Contains(value, " "):
		case !slices.Contains(short, value):
			short = append(short, value)
		}
	}
	for _, list := range [][]string{short, long} {
		if len(list) > 0 {
			return clean(strings.Join(list, ", "), maxSummary)
		}
	}
	return clean(strings.Join(numbers, ", "), maxSummary)
}

// leaves returns the leaves of a JSON object or list, at most limit. complete reports whether these are all leaves
// and nothing follows the value.
func leaves(text string, limit int) (list []leaf, complete bool) {
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	r := jsonReader{d: json.NewDecoder(strings.NewReader(text)), limit: limit}
	r.d.UseNumber()
	if r.value("", "", 0) != nil {
		return r.list, false
	}
	_, err := r.d.Token()
	return r.list, err == io.EOF
}

type jsonReader struct {
	d     *json.Decoder
	list  []leaf
	limit int
}

var errTooLarge = errors.New("arguments exceed the limits")

// value reads the next value with its children.
func (r *jsonReader) value(path, name string, depth int) error {
	if len(r.list) == r.limit || depth > maxDepth {
		return errTooLarge
	}
	token, err := r.d.Token()
	if err != nil {
		return err
	}
	l := leaf{path: path, name: name}
	switch t := token.(type) {
	case json.Delim:
		n := 0
		for ; r.d.More(); n++ {
			name, place := "", strconv.Itoa(n)
			if t == '{' {
				key, err := r.d.Token()
				if err != nil {
					return err
				}
				name, _ = key.(string)
				place = name
			}
			if err := r.value(path+place+"\x00", name, depth+1); err != nil {
				return err
			}
		}
		if _, err := r.d.Token(); err != nil || n > 0 {
			return err
		}
		l.value, l.empty = t.String(), true
	case string:
		l.value, l.text = t, true
	case json.Number:
		l.value = t.String()
	case bool:
		l.value = strconv.FormatBool(t)
	default:
		l.value = "null"
	}
	r.list = append(r.list, l)
	return nil
}
