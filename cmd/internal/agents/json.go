package agents

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/tailscale/hujson"
)

// Settings of agents are JSON, some with comments and commas at the end. An edit changes only the members and elements of Debrief, and
// keeps all other bytes.

// ourCommand matches the command of a hook of Debrief, with the path of the program before it.
var ourCommand = regexp.MustCompile(`^(?:"[^"]*[/\\]debrief(?:\.exe)?"|(?:[^"\s]*[/\\])?debrief(?:\.exe)?) hook (claude-code|codex|gemini|cursor)$`)

// installHooks adds the hooks of an agent to its settings. Hooks that are there already with another path of the program are replaced.
func (a *agent) installHooks(data []byte, command string) ([]byte, error) {
	if a.isInstalled(data, command) {
		return data, nil
	}
	data, err := a.removeHooks(data)
	if err != nil {
		return nil, err
	}
	f, err := parseSettings(data)
	if err != nil {
		return nil, err
	}
	unit := f.unit
	if a.hasVersion && member(f.root, "version") == nil {
		add(f.root, "version", hujson.Literal("1"), unit, 1)
	}
	all, err := f.object("hooks")
	if err != nil {
		return nil, err
	}
	for _, event := range a.events {
		if member(all, event) == nil {
			add(all, event, &hujson.Array{}, unit, 2)
		}
		list, ok := member(all, event).Value.(*hujson.Array)
		if !ok {
			return nil, fmt.Errorf("hooks.%s: want a list", event)
		}
		entry, err := json.MarshalIndent(a.hookEntry(command), strings.Repeat(unit, 3), unit)
		if err != nil {
			return nil, err
		}
		value, err := hujson.Parse(entry)
		if err != nil {
			return nil, err
		}
		value.BeforeExtra = hujson.Extra("\n" + strings.Repeat(unit, 3))
		list.Elements = append(list.Elements, value)
		if len(list.AfterExtra) == 0 {
			list.AfterExtra = hujson.Extra("\n" + strings.Repeat(unit, 2))
		}
	}
	return f.value.Pack(), nil
}

// isInstalled reports whether each event has the hook once.
func (a *agent) isInstalled(data []byte, command string) bool {
	v, err := hujson.Parse(data)
	if err != nil {
		return false
	}
	for _, event := range a.events {
		found := v.Find("/hooks/" + event)
		if found == nil {
			return false
		}
		list, ok := found.Value.(*hujson.Array)
		if !ok {
			return false
		}
		n := 0
		for i := range list.Elements {
			switch a.commandOf(&list.Elements[i]) {
			case command:
				n++
			case "": // a hook of another program
			default:
				return false
			}
		}
		if n != 1 {
			return false
		}
	}
	return true
}

// removeHooks removes the hooks of Debrief for an agent, and the lists and objects that are empty then.
func (a *agent) removeHooks(data []byte) ([]byte, error) {
	return removeFrom(data, "hooks", func(all *hujson.Object) (removed bool) {
		all.Members = slices.DeleteFunc(all.Members, func(m hujson.ObjectMember) bool {
			list, ok := m.Value.Value.(*hujson.Array)
			if !ok {
				return false
			}
			before := len(list.Elements)
			list.Elements = slices.DeleteFunc(list.Elements, func(e hujson.Value) bool { return a.commandOf(&e) != "" })
			removed = removed || len(list.Elements) < before
			return len(list.Elements) < before && len(list.Elements) == 0
		})
		return removed
	})
}

// settings is a file of settings that can be edited.
type settings struct {
	value hujson.Value
	root  *hujson.Object
	unit  string // of the indentation
}

// parseSettings parses a file. An empty one is an empty object.
func parseSettings(data []byte) (*settings, error) {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{\n}\n")
	}
	v, err := hujson.Parse(data)
	if err != nil {
		return nil, err
	}
	f := &settings{value: v, unit: indentOf(data)}
	f.root, err = objectOf(&f.value, "the file")
	return f, err
}

// object returns the object with a name in the file. It adds a missing one.
func (f *settings) object(name string) (*hujson.Object, error) {
	if member(f.root, name) == nil {
		add(f.root, name, &hujson.Object{}, f.unit, 1)
	}
	return objectOf(member(f.root, name), name)
}

// removeFrom lets fn remove members of the object with a name in the file, and removes the object if it is empty then. If fn removes nothing,
// or the object is missing, it returns data.
func removeFrom(data []byte, name string, fn func(*hujson.Object) (removed bool)) ([]byte, error) {
	f, err := parseSettings(data)
	if err != nil || member(f.root, name) == nil {
		return data, err
	}
	all, err := f.object(name)
	if err != nil {
		return nil, err
	}
	if !fn(all) {
		return data, nil
	}
	if len(all.Members) == 0 {
		removeMember(f.root, name)
	}
	return f.value.Pack(), nil
}

func removeMember(o *hujson.Object, name string) {
	o.Members = slices.DeleteFunc(o.Members, func(m hujson.ObjectMember) bool { return nameOf(&m) == name })
}

// commandOf returns the command of an element of a list of hooks that has only the command of Debrief for the agent, or "".
func (a *agent) commandOf(e *hujson.Value) string {
	clone := e.Clone()
	clone.Standardize()
	var entry struct {
		Command string                     `json:"command"`
		Hooks   []struct{ Command string } `json:"hooks"`
	}
	if json.Unmarshal(clone.Pack(), &entry) != nil || len(entry.Hooks) > 1 {
		return ""
	}
	if len(entry.Hooks) == 1 {
		entry.Command = entry.Hooks[0].Command
	}
	if m := ourCommand.FindStringSubmatch(entry.Command); m == nil || m[1] != a.name {
		return ""
	}
	return entry.Command
}

func objectOf(v *hujson.Value, name string) (*hujson.Object, error) {
	if o, ok := v.Value.(*hujson.Object); ok {
		return o, nil
	}
	return nil, fmt.Errorf("%s: want an object", name)
}

func nameOf(m *hujson.ObjectMember) string {
	name, _ := m.Name.Value.(hujson.Literal)
	return name.String()
}

// member returns the value of a member, or nil.
func member(o *hujson.Object, name string) *hujson.Value {
	for i := range o.Members {
		if nameOf(&o.Members[i]) == name {
			return &o.Members[i].Value
		}
	}
	return nil
}

// add adds a member on a new line, indented by depth units.
func add(o *hujson.Object, name string, value hujson.ValueTrimmed, unit string, depth int) {
	o.Members = append(o.Members, hujson.ObjectMember{
		Name:  hujson.Value{BeforeExtra: hujson.Extra("\n" + strings.Repeat(unit, depth)), Value: hujson.String(name)},
		Value: hujson.Value{BeforeExtra: hujson.Extra(" "), Value: value},
	})
	if len(o.AfterExtra) == 0 {
		o.AfterExtra = hujson.Extra("\n" + strings.Repeat(unit, depth-1))
	}
}

// indentOf returns the white space before the first member of a file, or two spaces.
func indentOf(data []byte) string {
	if m := regexp.MustCompile(`^\s*\{[^\S\n]*\r?\n([ \t]+)"`).FindSubmatch(data); m != nil {
		return string(m[1])
	}
	return "  "
}
