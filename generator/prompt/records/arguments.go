package records

import (
	"slices"
	"strings"

	"debrief/events"
	"debrief/playbook/text"
)

// maxArguments is the number of bytes up to which arguments are read as JSON. Longer ones are compared as raw text.
const maxArguments = 8 << 10

// arguments are the arguments of a tool call.
type arguments struct {
	raw    string
	key    string // equal for equivalent arguments: JSON with sorted names and without white space, else raw
	isJSON bool   // an object or a list
	leaves []text.Leaf
}

func argumentsOf(raw string) arguments {
	raw = strings.TrimSpace(raw)
	a := arguments{raw: raw, key: raw}
	mayBeJSON := strings.HasPrefix(raw, "{") || strings.HasPrefix(raw, "[")
	if !mayBeJSON || len(raw) > maxArguments {
		return a
	}
	if sorted, ok := text.CanonicalJSON(raw); ok {
		return arguments{raw: raw, key: sorted, isJSON: true, leaves: text.Leaves(raw)}
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

// action returns the argument that selects the operation of a general tool: the command of a shell or an editor.
func (a arguments) action() string {
	if !a.isJSON {
		return a.raw
	}
	for _, l := range a.leaves {
		switch l.Name {
		case "command", "cmd", "action", "operation":
			return l.Value
		}
	}
	return ""
}

// summary describes the arguments in at most maxSummary characters. It prefers strings of one line, then the
// beginnings of longer strings, then numbers with their names. A word that only repeats the verb is omitted.
func (a arguments) summary(v verb) string {
	if !a.isJSON {
		line := clean(firstLine(a.raw), maxSummary)
		if strings.ContainsRune(a.raw, '\n') && line != "" && !strings.HasSuffix(line, text.Ellipsis) {
			line = clean(line, maxSummary-1) + text.Ellipsis
		}
		return line
	}
	var short, long, numbers []string
	action := a.action()
	for _, l := range a.leaves {
		value := clean(firstLine(l.Value), maxValue)
		isVerb := l.Value == action && v != called && verbFromName(value) == v
		switch {
		case value == "":
		case !l.IsString:
			numbers = append(numbers, strings.TrimSpace(clean(l.Name, maxName)+" "+value))
		case strings.ContainsRune(strings.TrimSpace(l.Value), '\n'):
			long = append(long, value)
		case isVerb && !strings.Contains(value, " "): // it only repeats the verb
		case !slices.Contains(short, value):
			short = append(short, value)
		}
	}
	best := short
	if len(best) == 0 {
		best = long
	}
	if len(best) == 0 {
		best = numbers
	}
	return clean(strings.Join(best, ", "), maxSummary)
}
