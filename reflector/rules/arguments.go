package rules

import (
	"encoding/json"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
)

const (
	maxArguments = 64 << 10 // bytes of arguments that are compared by name; larger ones are compared as text
	maxPath      = 1 << 10  // bytes of a path
)

// arguments are the arguments of an act.
type arguments struct {
	fields  map[string]any // of a JSON object, flat
	program string         // of a command: "python3" for the act python
	words   []string       // of a command
	dir     string         // of a command
	text    string         // here-documents and here-strings of a command, or all arguments of another call without fields
}

// parseArguments decodes a JSON object. Numbers stay text, so that large ones are compared exactly. Other arguments are a text.
func parseArguments(s string) arguments {
	if len(s) > maxArguments || !strings.HasPrefix(strings.TrimLeft(s, " \t\r\n"), "{") {
		return arguments{text: s}
	}
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var object map[string]any
	if d.Decode(&object) != nil || object == nil {
		return arguments{text: s}
	}
	if _, err := d.Token(); err != io.EOF {
		return arguments{text: s}
	}
	fields := map[string]any{}
	flatten(fields, "", object)
	return arguments{fields: fields}
}

// flatten adds the fields of an object under their names. A field of an inner object gets both names: "headers.Accept".
func flatten(into map[string]any, prefix string, object map[string]any) {
	for name, v := range object {
		if inside, ok := v.(map[string]any); ok && len(inside) > 0 && len(prefix) < maxName {
			flatten(into, prefix+name+".", inside)
		} else {
			into[prefix+name] = v
		}
	}
}

// sameForm reports whether two arguments have the same form. A text is not comparable with an object.
func (g *arguments) sameForm(h *arguments) bool {
	return (g.fields != nil) == (h.fields != nil) && (g.words != nil) == (h.words != nil)
}

// equal reports whether two arguments are exactly equal; white space within values matters.
func (g *arguments) equal(h *arguments) bool { return reflect.DeepEqual(g, h) }

// exact reports whether the recorded arguments are those of the run. A plain text may not be: recorders trim its white space.
func (g *arguments) exact() bool { return g.fields != nil || g.words != nil }

// canonical returns arguments as a text that is the same for all orders of their names.
func (g *arguments) canonical() string {
	if g.fields == nil {
		return strings.Join(append([]string{g.dir, g.program, g.text}, g.words...), "\x00")
	}
	b, _ := json.Marshal(g.fields) // of decoded JSON: no error
	return string(b)
}

// path returns the file that the arguments name, or "".
func (g *arguments) path() string {
	for _, name := range [...]string{"path", "file_path", "filepath", "file", "filename", "file_name", "target_file", "notebook_path", "dir", "directory", "folder"} {
		if p, _ := g.fields[name].(string); p != "" && len(p) <= maxPath {
			return cleanPath(p)
		}
	}
	return ""
}

// identifies reports whether an equal value shows that two calls are about the same object. Short values and true or false are often equal by
// chance.
func identifies(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) > 2
	case json.Number:
		return len(v) > 2
	case []any:
		return len(v) > 0
	}
	return false
}

// isObject reports whether a value can name an object, such as a file or an order. A plain word cannot, because two are often equal by chance.
func isObject(s string) bool {
	return len(s) > 2 && len(s) <= maxPath && strings.ContainsAny(s, "0123456789/._@#:-")
}

// sharedName returns the alphabetically first name in a whose value is an object that b also has, under any name. It returns "" if they
// share no object.
func sharedName(a, b *arguments) string {
	for _, name := range slices.Sorted(maps.Keys(a.fields)) {
		s, ok := a.fields[name].(string)
		if !ok || !isObject(s) {
			continue
		}
		for _, w := range b.fields {
			if w == any(s) {
				return name
			}
		}
	}
	return ""
}
