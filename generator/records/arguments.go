package records

import (
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"debrief/events"
)

// Arguments larger than this are compared as they stand.
const (
	maxArguments = 8 << 10 // bytes
	maxLeaves    = 100
	maxDepth     = 8
)

// leaf is a value within JSON that holds no others.
type leaf struct {
	path  string // of names and places, with a NUL behind each
	name  string // its own, "" in a list
	value string
	text  bool // it is a string
	empty bool // it is an object or a list with nothing in it
}

// arguments are what a tool was called with: the leaves of JSON, else the text.
type arguments struct {
	raw    string
	leaves []leaf // in their order; nil where they are not JSON
}

func argumentsOf(raw string) arguments {
	a := arguments{raw: strings.TrimSpace(raw)}
	if len(a.raw) <= maxArguments {
		if list, whole := leaves(a.raw, maxLeaves); whole {
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

// key is the same for arguments that mean the same: names may be in another order, white space does not count.
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

// action is the argument that says what a tool that can do many things is to do: a shell's command, an editor's.
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

// telling is what the arguments say of a call, in at most maxAbout characters: the strings of one line; where there is
// none, how the longer ones begin; else the numbers with their names. A word that says no more than the verb does is
// left out.
func (a arguments) telling(v verb) string {
	if a.leaves == nil {
		said := clean(firstLine(a.raw), maxAbout)
		if strings.ContainsRune(a.raw, '\n') && said != "" && !strings.HasSuffix(said, ellipsis) {
			said = clean(said, maxAbout-1) + ellipsis
		}
		return said
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
		case l.value == action && v != called && wordVerb(value) == v && !strings.Contains(value, " "):
		case !slices.Contains(short, value):
			short = append(short, value)
		}
	}
	for _, list := range [][]string{short, long} {
		if len(list) > 0 {
			return clean(strings.Join(list, ", "), maxAbout)
		}
	}
	return clean(strings.Join(numbers, ", "), maxAbout)
}

// leaves are the first values, at most most of them, of a JSON object or list. whole says that they are all there are,
// and that there is nothing else in the text.
func leaves(text string, most int) (list []leaf, whole bool) {
	if text == "" || text[0] != '{' && text[0] != '[' {
		return nil, false
	}
	w := walk{d: json.NewDecoder(strings.NewReader(text)), most: most}
	w.d.UseNumber()
	if w.value("", "", 0) != nil {
		return w.list, false
	}
	_, err := w.d.Token()
	return w.list, err == io.EOF
}

type walk struct {
	d    *json.Decoder
	list []leaf
	most int
}

var errEnough = errors.New("there is more of it than is looked at")

// value takes the next value with what is in it.
func (w *walk) value(path, name string, depth int) error {
	if len(w.list) == w.most || depth > maxDepth {
		return errEnough
	}
	token, err := w.d.Token()
	if err != nil {
		return err
	}
	l := leaf{path: path, name: name}
	switch t := token.(type) {
	case json.Delim:
		n := 0
		for ; w.d.More(); n++ {
			name, place := "", strconv.Itoa(n)
			if t == '{' {
				key, err := w.d.Token()
				if err != nil {
					return err
				}
				name, _ = key.(string)
				place = name
			}
			if err := w.value(path+place+"\x00", name, depth+1); err != nil {
				return err
			}
		}
		if _, err := w.d.Token(); err != nil || n > 0 {
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
	w.list = append(w.list, l)
	return nil
}
