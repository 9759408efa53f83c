package conversation

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
	key    string // equal for equivalent arguments: of JSON see text.CanonicalJSON, else raw
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
	if canonical, ok := text.CanonicalJSON(raw); ok {
		return arguments{raw: raw, key: canonical, isJSON: true, leaves: text.Leaves(raw)}
	}
	return a
}

// argumentsOfAll parses the arguments of several calls, in order.
func argumentsOfAll(calls []events.ToolCall) []arguments {
	list := make([]arguments, len(calls))
	for i := range calls {
		list[i] = argumentsOf(calls[i].Arguments)
	}
	return list
}

// action returns the argument that selects the operation of a general tool, such as the command of a shell or an editor. Arguments that are not
// JSON are the action. It returns "" if there is no such argument.
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

// summary describes the arguments of a call with the verb v in at most maxSummary characters. It has the strings that
// consist of one line, but not a word that only repeats the verb. Without such strings it has the beginnings of longer ones, or else the other
// values with their names.
func (a arguments) summary(v verb) string {
	if !a.isJSON {
		line := clean(firstLine(a.raw), maxSummary)
		hasMore := strings.ContainsRune(a.raw, '\n') && !strings.HasSuffix(line, text.Ellipsis)
		if line != "" && hasMore {
			line = clean(line, maxSummary-1) + text.Ellipsis
		}
		return line
	}
	var short, long, others []string
	action := a.action()
	for _, l := range a.leaves {
		value := clean(firstLine(l.Value), maxValue)
		isVerb := v != called && l.Value == action && verbFromName(value) == v
		switch {
		case value == "": // left out
		case !l.IsString:
			others = append(others, strings.TrimSpace(clean(l.Name, maxName)+" "+value))
		case strings.ContainsRune(strings.TrimSpace(l.Value), '\n'):
			long = append(long, value)
		case isVerb && !strings.Contains(value, " "): // left out, because it is one word that only repeats the verb
		case !slices.Contains(short, value):
			short = append(short, value)
		}
	}
	best := short
	if len(best) == 0 {
		best = long
	}
	if len(best) == 0 {
		best = others
	}
	return clean(strings.Join(best, ", "), maxSummary)
}
