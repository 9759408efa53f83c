package remedy

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// rank orders the remedies of one error: a lower one says more about the cause.
type rank uint8

const (
	rankHow     rank = iota // how an argument differs: white space, type, a number of the error
	rankSet                 // an argument or an option that is new or left out, the program, the folder
	rankForm                // the form of a new value
	rankValue               // a new value
	rankInstall             // an installation of the missing object, or a fixed package
	rankSame                // a call in between about the same object
	rankBetween             // a call in between
	rankRetry               // nothing: the error is temporary
	rankTrivial             // another value, or an edit: the error text says as much
)

// remedy is one difference between a failed act and a later act of the same name.
type remedy struct {
	key   string // identifies the remedy among those of one error
	rank  rank
	say   string // imperative, clean
	of    string // rankForm, rankValue: the key of the general remedy
	do    string // the name of the call in between
	value string // rankValue: the value
	// lookup is set for a call that looks for or creates a file after an error about a missing file.
	lookup bool
	// reader is set for a call that only reads.
	reader bool
	// shared is the argument that the call in between has in common with the call.
	shared string
}

const (
	maxChanged = 8  // compared arguments of a call
	maxValue   = 40 // bytes of a value that a lesson names
	maxWords   = 64 // compared words of a command
)

// compare returns the differences of the arguments of two acts of one name. It returns false if the second act is not
// another attempt at the first: they share no argument, or their forms differ.
func compare(from, to *arguments) ([]remedy, bool) {
	switch {
	case from.equal(to):
		return nil, true
	case !comparableForms(from, to):
		return nil, false
	case from.fields != nil:
		return compareFields(from.fields, to.fields)
	case from.words != nil:
		return compareCommands(from, to)
	}
	changes := compareTexts("", from.text, to.text)
	return changes, len(changes) > 1 || similar(from.text, to.text)
}

func compareFields(from, to map[string]any) ([]remedy, bool) {
	var changes []remedy
	related, changed := false, 0
	names := slices.Sorted(maps.Keys(from))
	for name := range to {
		if _, ok := from[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		v, before := from[name]
		w, after := to[name]
		if before && after && reflect.DeepEqual(v, w) {
			related = related || identifies(v)
			continue
		}
		if changed++; changed > maxChanged {
			continue
		}
		n := "`" + quote(name, maxName) + "`"
		switch {
		case !before:
			changes = append(changes, remedy{key: "add " + name, rank: rankSet, say: "give " + n})
			changes = append(changes, valueOf("add "+name, n, w)...)
		case !after:
			changes = append(changes, remedy{key: "omit " + name, rank: rankSet, say: "leave out " + n})
		default:
			found := compareValues(name, v, w)
			related = related || found[0].rank == rankHow || keepsFile(v, w) || len(from) == 1 && len(to) == 1 && isNumeric(w) && found[0].rank == rankForm
			changes = append(changes, found...)
		}
	}
	renamed := renamedFields(from, to)
	return append(renamed, changes...), related || len(renamed) > 0
}

// renamedFields returns the arguments that have another name in the second call, with the same value.
func renamedFields(from, to map[string]any) (changes []remedy) {
	for _, name := range slices.Sorted(maps.Keys(from)) {
		if _, kept := to[name]; kept || !identifies(from[name]) {
			continue
		}
		for _, other := range slices.Sorted(maps.Keys(to)) {
			if _, known := from[other]; !known && reflect.DeepEqual(from[name], to[other]) && len(changes) < maxChanged {
				changes = append(changes, remedy{
					key: "rename " + name + " " + other, rank: rankHow,
					say: fmt.Sprintf("give `%s` in place of `%s`", quote(other, maxName), quote(name, maxName)),
				})
				break
			}
		}
	}
	return changes
}

// identifies reports whether an equal value shows that two calls have one object. Switches do not.
func identifies(v any) bool {
	switch v := v.(type) {
	case string:
		return len(v) > 2
	case json.Number:
		return len(v) > 2
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// compareValues returns the differences of an argument: at least the general one, which is the last.
func compareValues(name string, v, w any) []remedy {
	s, isText := v.(string)
	t, both := w.(string)
	if isText && both {
		return compareTexts(name, s, t)
	}
	n := "`" + quote(name, maxName) + "`"
	general := remedy{key: "change " + name, rank: rankTrivial, say: "change " + n}
	var found []remedy
	if kind := typeOf(w); kind != typeOf(v) {
		found = append(found, remedy{key: "type " + kind + " " + name, rank: rankHow, say: fmt.Sprintf("give %s as %s", n, kind)})
	}
	found = append(found, valueOf(general.key, n, w)...)
	return append(found, general)
}

// typeOf returns the type of a decoded JSON value in words.
func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}

// compareTexts returns the differences of two texts. The name is that of the argument, or "" for all arguments of a call.
func compareTexts(name, s, t string) []remedy {
	n := "the arguments"
	if name != "" {
		n = "`" + quote(name, maxName) + "`"
	}
	how := func(key, say string) []remedy {
		return []remedy{{key: key + " " + name, rank: rankHow, say: say}, {key: "change " + name, rank: rankTrivial, say: "change " + n}}
	}
	general := remedy{key: "change " + name, rank: rankTrivial, say: "change " + n}
	switch {
	case sameLines(s, t):
		return how("indent", "correct the white space at the start of lines in "+n)
	case strings.Join(strings.Fields(s), "") == strings.Join(strings.Fields(t), ""):
		return how("space", "correct the white space in "+n)
	case strings.EqualFold(s, t):
		return how("case", "correct upper and lower case in "+n)
	case isPath(s) && isPath(t) && path.Base(s) == path.Base(t) && path.IsAbs(s) != path.IsAbs(t):
		if path.IsAbs(t) {
			return how("absolute", "give "+n+" as an absolute path")
		}
		return how("relative", "give "+n+" as a relative path")
	}
	var found []remedy
	if before, after := form(s), form(t); after != "" && before != after {
		found = append(found, remedy{key: "form " + name + " " + after, rank: rankForm, of: general.key, say: fmt.Sprintf("give %s in the form `%s`", n, quote(after, maxName))})
	}
	if name != "" {
		found = append(found, valueOf(general.key, n, t)...)
	}
	return append(found, general)
}

// valueOf returns the remedy "set the argument to this value" for a short value.
func valueOf(general, n string, v any) []remedy {
	s := fmt.Sprint(v)
	switch v.(type) {
	case string, bool, json.Number:
	default:
		return nil
	}
	if !valueForm.MatchString(s) {
		return nil
	}
	return []remedy{{key: "value " + general + " " + s, rank: rankValue, of: general, value: s, say: fmt.Sprintf("set %s to `%s`", n, quote(s, maxName))}}
}

// sameLines reports whether two texts differ only by the white space at the starts of lines.
func sameLines(s, t string) bool {
	for s != "" || t != "" {
		var a, b string
		a, s, _ = strings.Cut(s, "\n")
		b, t, _ = strings.Cut(t, "\n")
		if strings.TrimLeft(a, " \t") != strings.TrimLeft(b, " \t") || (s == "") != (t == "") {
			return false
		}
	}
	return true
}

func isPath(s string) bool { return len(s) <= 1024 && !strings.ContainsAny(s, "\n ") && s != "" }

// keepsFile reports whether two values are paths of files with one name.
func keepsFile(v, w any) bool {
	s, ok := v.(string)
	t, also := w.(string)
	return ok && also && isPath(s) && isPath(t) && strings.Contains(s+t, "/") && path.Base(s) == path.Base(t)
}

// isNumeric reports whether a value is a text of digits and punctuation, such as a date. If this form is new, a call with no other
// argument is another attempt, although the two have nothing in common.
func isNumeric(v any) bool {
	s, ok := v.(string)
	return ok && !strings.ContainsFunc(s, unicode.IsLetter)
}

var digits = regexp.MustCompile(`[0-9]+`)

// words match letters that can be the name of a person.
var words = regexp.MustCompile(`\p{L}{4}`)

// form returns a short value with a placeholder for its digits, or "" for a value without digits, with words or with white space.
func form(s string) string {
	if len(s) > maxValue || strings.ContainsAny(s, " \t\r\n/") || !strings.ContainsAny(s, "0123456789") || words.MatchString(s) {
		return ""
	}
	return digits.ReplaceAllString(s, "<n>")
}

// similar reports whether two texts share most of their start and end, as two attempts at one edit do.
func similar(s, t string) bool {
	short := min(len(s), len(t))
	start := 0
	for start < short && s[start] == t[start] {
		start++
	}
	end := 0
	for end < short-start && s[len(s)-1-end] == t[len(t)-1-end] {
		end++
	}
	return short > 0 && 2*(start+end) >= short
}
