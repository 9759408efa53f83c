package remedy

import (
	"encoding/json"
	"io"
	"reflect"
	"strings"
)

// maxArguments is the size in bytes of arguments that are compared by name. Larger ones are compared as text.
const maxArguments = 64 << 10

// arguments are the arguments of an act, decoded at the first use, because most acts are never compared.
type arguments struct {
	decoded bool
	fields  map[string]any // of a JSON object
	program string         // of a command: "python3" for the act python
	words   []string       // of a command
	dir     string         // of a command
	text    string         // of other calls
}

// decode returns the decoded arguments of the act.
func (a *act) decode() *arguments {
	if g := &a.arguments; !g.decoded {
		g.decoded = true
		if fields, ok := parseFields(a.call.Arguments); ok {
			g.fields = fields
		} else {
			g.text = a.call.Arguments
		}
	}
	return &a.arguments
}

// parseFields decodes a JSON object. Numbers stay text, so that large ones are compared exactly.
func parseFields(arguments string) (map[string]any, bool) {
	if len(arguments) > maxArguments || !strings.HasPrefix(strings.TrimLeft(arguments, " \t\r\n"), "{") {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(arguments))
	d.UseNumber()
	var fields map[string]any
	if d.Decode(&fields) != nil || fields == nil {
		return nil, false
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, false
	}
	return fields, true
}

// comparableForms reports whether two arguments have the same form. A text is not comparable with an object.
func comparableForms(a, b *arguments) bool {
	return (a.fields != nil) == (b.fields != nil) && (a.words != nil) == (b.words != nil)
}

// equal reports whether two arguments are exactly equal; white space within values matters.
func (g *arguments) equal(h *arguments) bool {
	return g.text == h.text && g.program == h.program && g.dir == h.dir && reflect.DeepEqual(g.words, h.words) && reflect.DeepEqual(g.fields, h.fields)
}

// exact reports whether equal arguments were equal in the run. Recorders trim the white space of plain text, which can
// be the difference.
func (g *arguments) exact() bool { return g.fields != nil || g.words != nil }

// isObject reports whether a value can name an object, such as a file or an order. Plain words are equal by chance.
func isObject(s string) bool {
	return len(s) > 2 && len(s) <= 1024 && strings.ContainsAny(s, "0123456789/._@#:-")
}

// sharedName returns the first name in order whose value names the same object in both, or "".
func sharedName(a, b *arguments) string {
	best := ""
	for name, v := range a.fields {
		s, ok := v.(string)
		if !ok || !isObject(s) || best != "" && name > best {
			continue
		}
		for _, w := range b.fields {
			if w == any(s) {
				best = name
				break
			}
		}
	}
	return best
}
